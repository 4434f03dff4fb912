"""A workload like Philly's: its sizes, durations, tenants, ends and bursts, for any cluster.

Jobs of a burst share a tenant, a size and roughly a duration, so independent draws would miss the
published shares by far. Instead the shares are assigned: a fixed number of jobs of each size,
bursts to sizes and tenants by quota, durations evenly over the published quantiles of a size
bucket, such that tenants use the GPU-hours of the log. Only the assignment and the arrival times
are random.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt
from random import Random

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.traces.arrivals import burst_sizes, fill, place_bursts
from treadle.traces.calibration import BURST_SAME_SIZE, ENDS, SIZE_SHARES, VIRTUAL_CLUSTERS
from treadle.traces.philly_durations import LONGEST_S, Burst, Drawn, deal_durations
from treadle.traces.strata import quotas
from treadle.traces.workload import Workload

SHORTEST_LONGEST_S = 60
# Sweeps are of single-device jobs. Of the log's bursts of larger ones all but one of a hundred ask
# for at most 32 devices (jobs of 2-4), 53 (5-8) or 89 (more).
_BURST_DEVICES = 64
_LEAST_WORK = 0.03  # of the GPU time is too small to matter for how ends share it


def draw_philly(
    random: Random, jobs: int, load: float, cluster: Cluster, *, longest_s: int = LONGEST_S
) -> Workload:
    """Jobs like the study's that offer the cluster this load; none takes over `longest_s`."""
    _check_longest(longest_s)
    shares = {size: p for size, p in SIZE_SHARES.items() if size <= cluster.device_count}
    bursts = _deal_sizes(random, quotas(jobs, shares), burst_sizes(random, jobs))
    _deal_tenants(random, bursts)
    deal_durations(random, bursts, longest_s=longest_s)
    _mix_sizes(random, bursts)
    work = sum(job.size * job.seconds for burst in bursts for job in burst.jobs)
    arrivals = _arrive(random, bursts, max(1, round(work / (cluster.device_count * load))))
    ends = _deal_ends(random, [job.size * job.seconds for _, _, job in arrivals])
    shapes = {size: ((size,), Profile(size=size)) for size in shares}
    specs = []
    for number, (moment, burst, job) in enumerate(arrivals):
        sizes, profile = shapes[job.size]
        specs.append(
            JobSpec(
                str(number),
                float(job.seconds),
                sizes=sizes,
                profile=profile,
                submit_at=float(moment),
                tenant=burst.tenant,
                owner=burst.owner,
            )
        )
    statuses = {str(number): end for number, end in enumerate(ends)}
    return Workload(
        "philly", tuple(specs), "generated", (_longest_note(longest_s),), statuses=statuses
    )


def _check_longest(longest_s: int) -> None:
    if not SHORTEST_LONGEST_S <= longest_s <= LONGEST_S:
        raise InvalidInputError(
            f"longest is {longest_s}; expected {SHORTEST_LONGEST_S} to {LONGEST_S:,} seconds"
        )


def _longest_note(longest_s: int) -> str:
    if longest_s == LONGEST_S:
        return f"durations follow the log's up to {LONGEST_S // 86_400} days"
    return f"durations follow those of the log's jobs that take at most {longest_s:,} s"


def _deal_sizes(random: Random, counts: dict[int, int], bursts: Sequence[int]) -> list[Burst]:
    """Assign every burst to one size; split a burst that is too large for any that is left."""
    left = {size: count for size, count in counts.items() if count}
    dealt: list[Burst] = []
    waiting = list(reversed(bursts))
    while waiting and waiting[-1] > 1:
        count = waiting.pop()
        fitting = [
            size
            for size in left
            if left[size] >= count and (size == 1 or size * count <= _BURST_DEVICES)
        ] or [max(left, key=left.__getitem__)]
        size = random.choices(fitting, [left[size] for size in fitting])[0]
        taken = min(count, left[size])
        if taken < count:
            waiting.append(count - taken)
        dealt.append(Burst(size, taken))
        left[size] -= taken
        if not left[size]:
            del left[size]
    return dealt + [Burst(size, 1) for size, count in left.items() for _ in range(count)]


def _deal_tenants(random: Random, bursts: Sequence[Burst]) -> None:
    """Assign every burst a virtual cluster, by its share of the jobs of that size, and a user."""
    for size in dict.fromkeys(burst.size for burst in bursts):
        ours = sorted((b for b in bursts if b.size == size), key=lambda b: -b.count)
        shares = {
            name: jobs * sizes[size]
            for name, (jobs, sizes) in VIRTUAL_CLUSTERS.items()
            if size in sizes
        }
        left = quotas(sum(burst.count for burst in ours), shares)
        for burst in ours:
            if burst.count == 1:
                break
            fitting = [name for name in left if left[name] >= burst.count]
            fitting = fitting or [max(left, key=left.__getitem__)]
            burst.tenant = random.choices(fitting, [max(1, left[name]) for name in fitting])[0]
            left[burst.tenant] -= burst.count
        singles = [burst for burst in ours if not burst.tenant]
        names = [name for name, count in left.items() for _ in range(count)]
        for burst, name in zip(singles, random.sample(names, len(singles)), strict=True):
            burst.tenant = name
    users = _users()
    for burst in bursts:
        many = users[burst.tenant]
        user = random.choices(range(len(many)), cum_weights=many)[0]
        burst.owner = f"{burst.tenant}-{user}"


def _users() -> dict[str, list[float]]:
    """Cumulative weights of a tenant's users: few submit most. About 300 in all, as in the log."""
    return {
        name: list(accumulate(1 / (rank + 1) for rank in range(max(3, round(sqrt(jobs) / 3)))))
        for name, (jobs, _) in VIRTUAL_CLUSTERS.items()
    }


def _mix_sizes(random: Random, bursts: Sequence[Burst]) -> None:
    """Exchange jobs between bursts of a tenant, so that not quite all of a burst have its size."""
    by_tenant: dict[str, list[Burst]] = {}
    for burst in bursts:
        by_tenant.setdefault(burst.tenant, []).append(burst)
    for ours in by_tenant.values():
        # Each exchange changes two bursts, most of them of more than one job.
        members = [burst for burst in ours if burst.count > 1 for _ in range(burst.count)]
        # Once for each size and not for each exchange, which saves 3 s in 200,000 jobs.
        unlike = {
            size: [other for other in ours if other.size != size]
            for size in {burst.size for burst in ours}
        }
        for burst in random.sample(members, round(len(members) * (1 - BURST_SAME_SIZE))):
            others = unlike[burst.size]
            if others:
                other = random.choice(others)
                here, there = random.randrange(burst.count), random.randrange(other.count)
                burst.jobs[here], other.jobs[there] = other.jobs[there], burst.jobs[here]


def _arrive(random: Random, bursts: Sequence[Burst], span_s: int) -> list[tuple[int, Burst, Drawn]]:
    """Every job with its second, in order."""
    by_tenant: dict[str, list[Burst]] = {}
    for burst in bursts:
        by_tenant.setdefault(burst.tenant, []).append(burst)
    moments: list[list[int]] = []
    owners: list[Burst] = []
    for ours in by_tenant.values():
        moments += place_bursts(random, [burst.count for burst in ours], span_s)
        owners += ours
    fill(span_s, moments)
    arrivals = [
        (moment, burst, job)
        for burst, seconds in zip(owners, moments, strict=True)
        for moment, job in zip(seconds, burst.jobs, strict=True)
    ]
    return sorted(arrivals, key=lambda arrival: arrival[0])


def _deal_ends(random: Random, work: Sequence[int]) -> list[str]:
    """The final status of each job, matching the published shares of jobs and of GPU time.

    From the largest job down, a status is drawn by the GPU time it still lacks; once almost no
    GPU time is left, by the jobs it still lacks.
    """
    jobs_left = quotas(len(work), {name: jobs for name, (jobs, _) in ENDS.items()})
    work_left = {name: sum(work) * share for name, (_, share) in ENDS.items()}
    to_share = sum(work) * (1 - _LEAST_WORK)
    ends = [""] * len(work)
    places = sorted(range(len(work)), key=work.__getitem__)
    while places and to_share > 0:
        place = places.pop()
        fitting = [n for n in ENDS if jobs_left[n] and work_left[n] >= work[place]]
        fitting = fitting or [max((n for n in ENDS if jobs_left[n]), key=work_left.__getitem__)]
        end = random.choices(fitting, [max(1.0, work_left[name]) for name in fitting])[0]
        to_share -= work[place]
        work_left[end] -= work[place]
        jobs_left[end] -= 1
        ends[place] = end
    rest = [name for name, count in jobs_left.items() for _ in range(count)]
    random.shuffle(rest)
    for place, end in zip(places, rest, strict=True):
        ends[place] = end
    return ends
