"""Generated workloads keep to the published figures for every seed, and to the load asked for."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import ceil, floor, log
from statistics import median, stdev

import pytest

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.traces.calibration import DURATION_MINUTES, ENDS, GPU_HOURS, QUANTILES, SIZE_SHARES
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.philly_durations import LONGEST_S, bucket, duration_knots
from treadle.traces.strata import quantiles, share_below
from treadle.traces.synthetic import generate

SEEDS = (0, 1, 2)
GRID = Cluster.grid(8, 8)


@pytest.fixture(scope="module", params=SEEDS)
def philly(request):
    return generate("philly", jobs=5000, seed=request.param, load=0.9, cluster=GRID)


def at(values, share):
    """The usual sample quantile: a straight line between the two nearest."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[floor(place)], ordered[ceil(place)]
    return low + (high - low) * (place - floor(place))


def offered(workload, devices):
    work = sum(job.asked * job.iterations for job in workload.jobs)
    return work / (devices * (workload.jobs[-1].submit_at - workload.jobs[0].submit_at))


def bursts_of(workload):
    """Jobs of one tenant at most 60 s apart, found anew from the jobs."""
    found: list[list[JobSpec]] = []
    open_bursts: dict[str, list[JobSpec]] = {}
    for job in workload.jobs:
        burst = open_bursts.get(job.tenant)
        if burst is None or job.submit_at - burst[-1].submit_at > 60:
            burst = open_bursts[job.tenant] = []
            found.append(burst)
        burst.append(job)
    return found


def test_philly_sizes_are_within_a_point_of_the_log(philly):
    counts = Counter(job.asked for job in philly.jobs)
    for size, share in SIZE_SHARES.items():
        assert counts[size] / len(philly.jobs) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("name", DURATION_MINUTES)
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_philly_durations_are_within_15_percent_of_the_log(philly, name, share):
    seconds = [job.iterations for job in philly.jobs if bucket(job.asked) == name]
    published = 60 * DURATION_MINUTES[name][QUANTILES.index(share)]
    assert at(seconds, share) == pytest.approx(published, rel=0.15)


def test_philly_ends_share_jobs_and_gpu_time_within_3_points(philly):
    jobs = Counter(philly.statuses.values())
    time_of: Counter[str] = Counter()
    for job in philly.jobs:
        time_of[philly.statuses[job.id]] += job.asked * job.iterations
    for name, (job_share, time_share) in ENDS.items():
        assert jobs[name] / len(philly.jobs) == pytest.approx(job_share, abs=0.03)
        assert time_of[name] / time_of.total() == pytest.approx(time_share, abs=0.03)


def test_philly_bursts_are_like_the_logs(philly):
    bursts = bursts_of(philly)
    large = sum(len(burst) for burst in bursts if len(burst) >= 10) / len(philly.jobs)
    assert 0.50 <= large <= 0.65
    assert len(philly.jobs) / len(bursts) == pytest.approx(3.1, abs=0.4)
    counts = [len(burst) for burst in bursts]
    assert [at(counts, share) for share in (0.5, 0.9, 0.95)] == [1, 2, 4]
    assert 25 <= at(counts, 0.99) <= 60


def test_jobs_of_a_philly_burst_are_alike(philly):
    bursts = [burst for burst in bursts_of(philly) if len(burst) > 1]
    same = sum(Counter(job.asked for job in burst).most_common(1)[0][1] for burst in bursts)
    assert 0.95 <= same / sum(map(len, bursts)) <= 0.99
    spread = median(stdev(log(job.iterations) for job in b) for b in bursts if len(b) >= 5)
    assert 0.35 <= spread <= 0.75


def test_philly_tenants_have_their_own_sizes(philly):
    by_tenant: dict[str, list[int]] = {}
    for job in philly.jobs:
        by_tenant.setdefault(job.tenant, []).append(job.asked)
    assert by_tenant["6214e9"].count(1) / len(by_tenant["6214e9"]) > 0.93
    assert by_tenant["ee9e8c"].count(1) / len(by_tenant["ee9e8c"]) < 0.65
    assert len({job.owner for job in philly.jobs}) > 50
    assert all(job.owner.startswith(job.tenant) for job in philly.jobs)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "longest"), [(0, LONGEST_S), (1, 604_800)])
def test_philly_tenants_use_their_share_of_the_logs_gpu_hours(seed, longest):
    workload = load(f"generate:philly?jobs=20000&seed={seed}&longest={longest}", cluster=GRID)
    work = dict.fromkeys(GPU_HOURS, 0.0)
    for job in workload.jobs:
        work[job.tenant] += job.asked * job.iterations
    whole, whole_h = sum(work.values()), sum(GPU_HOURS.values())
    for tenant, hours in GPU_HOURS.items():
        assert work[tenant] / whole == pytest.approx(hours / whole_h, abs=0.03)


@pytest.mark.slow
def test_sweeps_are_of_single_device_jobs_as_in_the_log():
    """Of 100 jobs, those that come with 9 or more of their own size: 76, 15, 2 and 0 in the log."""
    most = {"1": 80, "2-4": 20, "5-8": 4, ">8": 4}
    many: Counter[str] = Counter()
    for seed in range(1):
        drawn = generate("philly", jobs=20_000, seed=seed, cluster=cluster("philly-fixed"))
        alike: list[tuple[str, int]] = []
        for burst in bursts_of(drawn):
            alike += Counter(bucket(job.asked) for job in burst).items()
            asked = sum(job.asked for job in burst if job.asked > 1)
            assert asked <= 160, "the most that larger jobs of a burst of the log ask for is 284"
        for size, count in alike:
            many[size] += count if count >= 10 else 0
            many[f"all {size}"] += count
    for size, at_most in most.items():
        assert 100 * many[size] / many[f"all {size}"] <= at_most
    assert 100 * many["1"] / many["all 1"] >= 60


@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_sizes_durations_and_gaps_are_as_said(seed):
    jobs = generate("poisson", jobs=10_000, seed=seed, load=0.95, cluster=GRID).jobs
    counts = Counter(job.asked for job in jobs)
    for size, share in {1: 0.60, 2: 0.13, 4: 0.13, 8: 0.11, 16: 0.03}.items():
        assert counts[size] / len(jobs) == pytest.approx(share, abs=0.02)
    short = sum(job.iterations < 10**3.2 for job in jobs) / len(jobs)
    assert short == pytest.approx(0.8, abs=0.02)
    assert min(job.iterations for job in jobs) >= round(10**1.8)
    assert max(job.iterations for job in jobs) <= 10**4.6
    gaps = [b.submit_at - a.submit_at for a, b in pairwise(jobs)]
    mean = sum(gaps) / len(gaps)
    assert stdev(gaps) / mean == pytest.approx(1.0, abs=0.1)  # 1 for exponential gaps


@pytest.mark.parametrize("kind", ["philly", "aiturbo", "poisson"])
@pytest.mark.parametrize(("text", "load_asked"), [("8x8", 0.9), ("philly", 1.3), ("1x4", 0.2)])
def test_the_load_offered_is_the_load_asked_for(kind, text, load_asked):
    machines = cluster(text)
    workload = generate(kind, jobs=800, seed=3, load=load_asked, cluster=machines)
    assert offered(workload, machines.device_count) == pytest.approx(load_asked, rel=0.01)
    assert max(job.asked for job in workload.jobs) <= machines.device_count


@pytest.mark.parametrize("kind", ["philly", "aiturbo", "poisson"])
def test_a_seed_always_draws_the_same_jobs_and_another_draws_others(kind):
    first, again, other = (
        generate(kind, jobs=300, seed=seed, load=0.9, cluster=GRID) for seed in (5, 5, 6)
    )
    assert first == again
    assert [job.submit_at for job in first.jobs] != [job.submit_at for job in other.jobs]


def test_aiturbo_classes_and_durations_are_the_tables():
    jobs = generate("aiturbo", jobs=8000, seed=1, load=0.9, cluster=GRID).jobs
    odd = [job.iterations for job in jobs if job.profile.model.startswith("unpredictable")]
    assert len(odd) / len(jobs) == pytest.approx(0.15, abs=0.005)
    even = [job.iterations for job in jobs if job.profile.model.startswith("predictable")]
    for share, seconds in ((0.1, 408), (0.25, 2992), (0.5, 8970), (0.75, 15666), (0.9, 32086)):
        assert at(even, share) == pytest.approx(seconds, rel=0.15)
    for share, seconds in ((0.1, 28), (0.25, 140), (0.5, 470), (0.75, 1007), (0.9, 2081)):
        assert at(odd, share) == pytest.approx(seconds, rel=0.15)


def test_aiturbo_families_repeat_their_size_owner_and_roughly_their_duration():
    jobs = generate("aiturbo", jobs=2000, seed=1, load=0.9, cluster=GRID).jobs
    families: dict[str, list[JobSpec]] = {}
    for job in jobs:
        families.setdefault(job.profile.model, []).append(job)
    assert 1 - len(families) / len(jobs) == pytest.approx(0.71, abs=0.01)
    for members in families.values():
        assert len({(job.asked, job.owner) for job in members}) == 1
        lengths = [job.iterations for job in members]
        assert max(lengths) - min(lengths) <= 0.106 * max(lengths) + 1


def test_aiturbo_arrivals_are_bursty_daily_or_even():
    def spread(arrivals):
        jobs = load(f"generate:aiturbo?jobs=3000&seed=1&arrivals={arrivals}").jobs
        per_hour = Counter(int(job.submit_at // 3600) for job in jobs)
        counts = [per_hour[hour] for hour in range(max(per_hour) + 1)]
        mean = sum(counts) / len(counts)
        return stdev(counts) ** 2 / mean

    assert spread("bursts") > 3 * spread("daily")
    assert spread("daily") > 1.5 * spread("poisson")
    assert spread("poisson") == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("philyl", "did you mean philly?"),
        ("philly?job=5", "did you mean jobs?"),
        ("philly?jobs=5&jobs=6", "jobs twice"),
        ("philly?jobs=many", "jobs is 'many'"),
        ("philly?jobs=5000001", "5,000,000"),
        ("philly?load=nan", "load is nan"),
        ("philly?load=1e-308", "load is 1e-308"),
        ("philly?longest=59", "longest is 59"),
        ("philly?longest=", "longest is ''"),
        ("poisson?longest=600", "longest is for philly"),
        ("philly?jobs", "philly?jobs is not understood"),
        ("philly?arrivals=daily", "arrivals is for aiturbo"),
        ("aiturbo?arrivals=x", "arrivals is 'x'"),
        ("aiturbo?unpredictable=2", "unpredictable is 2"),
        ("aiturbo?cpu=nan", "cpu is nan"),
        ("poisson?cpu=0.5", "cpu is for aiturbo"),
        ("aiturbo?durations=odd", "durations is 'odd'"),
    ],
)
def test_a_mistake_in_an_address_is_named(address, named):
    with pytest.raises(InvalidInputError) as caught:
        load(f"generate:{address}")
    assert named in str(caught.value)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("longest", [600, 43_200])
def test_a_longest_cuts_the_distribution_without_piling_up_at_the_cut(seed, longest):
    workload = load(f"generate:philly?jobs=5000&seed={seed}&longest={longest}", cluster=GRID)
    assert max(job.iterations for job in workload.jobs) <= longest
    assert sum(job.iterations > 0.98 * longest for job in workload.jobs) < 0.01 * 5000
    assert offered(workload, 64) == pytest.approx(0.9, rel=0.01)
    large = sum(len(burst) for burst in bursts_of(workload) if len(burst) >= 10) / 5000
    assert large >= 0.5
    ones = [job.iterations for job in workload.jobs if job.asked == 1]
    whole = duration_knots("1")
    kept = share_below(whole, longest)
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert at(ones, share) == pytest.approx(quantiles(whole, [share * kept])[0], rel=0.15)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_aiturbo_has_the_share_of_unpredictable_jobs_that_was_asked_for(share):
    jobs = load(f"generate:aiturbo?jobs=2000&seed=1&unpredictable={share}").jobs
    odd = [job for job in jobs if job.profile.model.startswith("unpredictable")]
    assert len(jobs) == 2000
    assert len(odd) / len(jobs) == pytest.approx(share, abs=0.01)


def alike(share, cpu=0.0):
    address = f"generate:aiturbo?jobs=500&seed=3&unpredictable={share}&cpu={cpu}&durations=alike"
    return load(address).jobs


def odd(jobs):
    return {job.id for job in jobs if "unpredictable" in job.profile.model}


@pytest.mark.parametrize("cpu", [0.0, 0.117])
def test_aiturbo_jobs_that_are_alike_differ_in_nothing_but_their_kind(cpu):
    def but_for_names(jobs):
        return [replace(job, profile=replace(job.profile, model="")) for job in jobs]

    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    found = [alike(share, cpu) for share in shares]
    for jobs, share in zip(found, shares, strict=True):
        assert but_for_names(jobs) == but_for_names(found[0])
        assert len(odd(jobs)) / len(jobs) == pytest.approx(share, abs=0.01)
        assert sum(job.profile.model.startswith("cpu-") for job in jobs) == sum(
            job.profile.model.startswith("cpu-") for job in found[0]
        )
    for jobs, more in pairwise(found):
        assert odd(jobs) <= odd(more)


def test_some_families_of_aiturbo_may_train_without_gpus():
    workload = load("generate:aiturbo?jobs=2000&seed=1&cpu=0.117")
    families = {job.profile.model for job in workload.jobs}
    without = [name for name in families if name.startswith("cpu-")]
    assert len(without) / len(families) == pytest.approx(0.117, abs=0.01)
    sizes = {job.asked for job in workload.jobs if job.profile.model.startswith("cpu-")}
    assert sizes == {1, 2, 3, 4, 6}
    assert workload.name.endswith("&arrivals=bursts&cpu=0.117")
