"""weave: what a device brings, what work is worth, who shares, who goes first."""

from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.policies.weave_world import COMPUTES, LOADS, World, submitted, waiting
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobSubmitted, NodeDrained
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.models.company.belief import CompanyBelief, kind_of
from treadle.models.forecasts import Forecast, Forecasting
from treadle.models.scaling import ScalingModel
from treadle.models.sizes.work import Curve, curve
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.policies.weave.candidate import Candidate
from treadle.policies.weave.sharing import SharedSpeeds
from treadle.policies.weave.worth import Worths


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=8))
def test_steps_of_a_curve_bring_ever_less_and_end_at_its_best(speeds: list[float]) -> None:
    sizes = range(1, len(speeds) + 1)
    found = curve(sizes, speeds)
    assert found is not None
    gains = [step.gain for step in found.steps]
    largest = found.steps[-1].size
    assert all(a >= b for a, b in pairwise(gains))
    assert gains[0] == pytest.approx(1.0)
    assert found.rates[largest] * found.unit == pytest.approx(max(speeds))
    assert sum(step.devices for step in found.steps) == largest


@given(st.lists(st.sampled_from([0.0, 1.0, inf, nan, 1e-320, 1e308, -1.0]), min_size=4))
@example([inf, 1.0, 1.0, 1.0])
@example([1.0, 5e-324, 1.0, 1.0])
def test_wrong_figures_in_a_curve_are_left_out(speeds: list[float]) -> None:
    sizes = range(2, len(speeds) + 2)
    found = curve(sizes, speeds)
    rows = zip(sizes, speeds, strict=True)
    right = [size for size, speed in rows if speed == 1.0]
    assert (list(found.rates) if found is not None else []) == right[:1]
    assert found is None or all(step.gain > 0 for step in found.steps)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(0, 50))
def test_shorter_jobs_are_worth_more_and_equals_the_same(values: list[int], longer: int) -> None:
    values.sort()
    total = len(values) + longer
    held = [float(value) for value in values[::2]]
    queue = [(float(value), place, f"j{place}") for place, value in enumerate(values[1::2])]
    worths = Worths(held, queue, longer, 1.0)
    found = [worths.of(float(value)) for value in values]
    for (a, wa), (b, wb) in pairwise(zip(values, found, strict=True)):
        assert (wa == wb) if a == b else (wa > wb)
    # Places are shared out: their sum is that of the places total, total - 1, ...
    assert sum(found) == pytest.approx(sum(range(longer + 1, total + 1)))


@pytest.mark.parametrize("name", ["weave", "weave-l"])
def test_jobs_with_other_bottlenecks_share_and_alike_ones_wait(name: str) -> None:
    mixed, alike = World(name, 1), World(name, 1)
    mixed.step(0.0, submitted("a", 1000, profile=LOADS), submitted("b", 1000))
    alike.step(0.0, submitted("a", 1000), submitted("b", 1000))
    assert mixed.size("a") == mixed.size("b") == 1
    assert sorted((alike.size("a"), alike.size("b"))) == [0, 1]


def test_no_job_shares_while_there_are_devices_for_all() -> None:
    world = World("weave", 2)
    world.step(0.0, submitted("a", 1000, profile=LOADS), submitted("b", 1000))
    assert len(world.holders("a", "b")) == 2


def test_an_exclusive_job_shares_with_none() -> None:
    world = World("weave", 1)
    alone = JobSpec("a", 1000.0, profile=LOADS, exclusive=True)
    world.step(0.0, JobSubmitted(alone), submitted("b", 1000))
    assert sorted((world.size("a"), world.size("b"))) == [0, 1]


def test_rigid_jobs_alone_are_served_in_order_of_what_is_left() -> None:
    world = World("weave?group=1", 2)
    world.step(0.0, *(submitted(f"j{n}", 1000.0 * n) for n in (3, 1, 2)))
    assert [world.size(f"j{n}") for n in (1, 2, 3)] == [1, 1, 0]


@pytest.mark.parametrize(("parameters", "size"), [("group=1", 4), ("group=1&sizes=off", 2)])
def test_sizes_can_be_left_as_asked(parameters: str, size: int) -> None:
    world = World(f"weave?{parameters}", 4)
    world.step(0.0, JobSubmitted(JobSpec("a", 1e5, (1, 2, 4), asked=2, profile=COMPUTES)))
    assert world.size("a") == size


def test_elastic_jobs_grow_into_what_is_free_and_make_way() -> None:
    world = World("weave?group=1", 4)
    world.step(0.0, submitted("a", 1e5, (1, 2, 4)))
    assert world.size("a") == 4
    world.step(10.0, submitted("b", 1e4, (1, 2, 4)))
    assert world.size("b") == 0, "a has just started; another restart would cost too much"
    assert world.scheduler.wake_at == 4 * 30.0
    world.step(120.0)
    assert world.size("a") + world.size("b") == 4
    assert world.size("b") >= 1


def test_a_job_that_scales_evenly_runs_on_a_cluster_smaller_than_its_largest_size() -> None:
    world = World("weave", 4)
    world.step(0.0, *(submitted(f"j{n}", 1e5) for n in range(4)))
    world.step(10.0, submitted("short", 100.0, (1, 2, 4, 8)))
    assert world.size("short") >= 1


def test_gangs_that_find_no_place_do_not_hide_jobs_behind_them() -> None:
    world = World("weave+live", 8)
    world.step(0.0, JobSubmitted(JobSpec("fixed", 1e5, resumable=False, profile=COMPUTES)))
    gangs = [submitted(f"gang{n}", 10.0, (8,)) for n in range(12)]
    world.step(100.0, *gangs, *(submitted(f"j{n}", 1e4) for n in range(5)))
    assert [world.size(f"j{n}") for n in range(5)] == [1] * 5


def test_jobs_on_a_drained_node_run_on() -> None:
    belief = TokenModel(ScalingModel(), StageTimes())
    nodes = (Node("a", 2), Node("b", 2))
    world = World("weave", 1)
    chosen = policy("weave", placement("consolidate"), belief)
    world.scheduler = Scheduler(chosen, Cluster(nodes))
    world.step(0.0, *(submitted(f"j{n}", 1e4) for n in range(4)))
    before = {name: job.allocation for name, job in world.scheduler.jobs.items()}
    actions = world.scheduler.step([NodeDrained("a")], 1.0)
    assert not actions
    assert {name: job.allocation for name, job in world.scheduler.jobs.items()} == before


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.floats(50, 5e3)), min_size=1))
@settings(max_examples=25, deadline=None)
def test_a_decision_rests_on_the_jobs_and_not_on_what_was_decided_before(
    jobs: list[tuple[int, bool, float]],
) -> None:
    world = World("weave", 4)
    for number, (size, loads, work) in enumerate(jobs):
        profile = LOADS if loads else COMPUTES
        world.step(10.0 * number, submitted(f"j{number}", work, (size,), profile))
    now = 10.0 * len(jobs)
    snapshot = world.scheduler.snapshot(now)
    belief = TokenModel(ScalingModel(), StageTimes())
    fresh = policy("weave", placement("consolidate"), belief)
    assert world.scheduler.policy.decide(snapshot) == fresh.decide(snapshot)


@pytest.mark.parametrize(
    ("seen", "mps", "doubt"), [(False, False, 0.08), (True, False, 0.04), (False, True, 0.15)]
)
def test_badly_known_sharing_must_promise_more(seen: bool, mps: bool, doubt: float) -> None:
    """Two shares that are each off by as much have a sum that is off by the root of two as much."""
    cluster = Cluster((Node("n", 1),))
    belief = CompanyBelief(ScalingModel.on(cluster), cluster, mps=mps)
    specs = [
        JobSpec(name, 1e3, command=(name,), profile=Profile(busy=busy))
        for name, busy in (("a", 0.2), ("b", 0.3))
    ]
    if seen:
        total = sum(belief.relative(specs))
        belief.record.observe([kind_of(spec) for spec in specs], total, total, mps=mps)
    shared = SharedSpeeds(belief, largest=4, least=1.05)
    shared.refresh(0.0)
    one = Curve((), {1: 1.0}, (1,), 1.0)
    jobs = [Candidate(waiting(spec), one, 1.0, shared.kind(spec), 0) for spec in specs]
    found = shared.kept(sum(job.kind for job in jobs), jobs)
    for job, share in zip(jobs, belief.relative(specs), strict=True):
        assert found[job.kind] == pytest.approx(share - doubt / 2**0.5)


def test_jobs_of_which_too_little_is_known_do_not_share() -> None:
    """Two jobs are predicted to get 1.16 done together: enough if that were certain."""
    cluster = Cluster((Node("n", 1),))
    belief = CompanyBelief(ScalingModel.on(cluster), cluster)
    specs = [JobSpec(n, 1e3, command=(n,), profile=Profile(busy=0.9)) for n in ("a", "b")]
    total = sum(belief.relative(specs))
    assert belief.refuses(specs) is None
    assert 1.15 <= total < 1.05 + 2 * belief.doubt(specs)
    scheduler = Scheduler(policy("weave-l", placement("consolidate"), belief), cluster)
    starts = scheduler.step([JobSubmitted(spec) for spec in specs], 0.0)
    assert [start.job for start in starts] == ["a"]


class Told:
    """A forecaster that says one end of job a, and whether to rely on it."""

    def __init__(self, *, predictable: bool) -> None:
        self._predictable = predictable

    def forecast(self, job: Job, now: float) -> Forecast:
        if job.id != "a":
            return Forecast(job.order_at(now), predictable=True)
        return Forecast(10.0, predictable=self._predictable)

    def trusting(self, job: Job, now: float) -> float:
        return self.forecast(job, now).remaining


@pytest.mark.parametrize(("predictable", "first"), [(True, "a"), (False, "b")])
def test_only_an_end_that_can_be_predicted_goes_by_its_forecast(
    predictable: bool, first: str
) -> None:
    """Job a declares 2,000 s and is forecast to end after 10 s; job b takes 1,000 s."""
    belief = Forecasting(TokenModel(ScalingModel(), StageTimes()), Told(predictable=predictable))
    chosen = policy("weave?group=1", placement("consolidate"), belief)
    scheduler = Scheduler(chosen, Cluster((Node("n", 1),)))
    starts = scheduler.step([submitted("a", 2000), submitted("b", 1000)], 0.0)
    assert [start.job for start in starts] == [first]


@pytest.mark.parametrize("devices", [4, 8])
def test_a_job_on_all_devices_gives_up_one_for_a_job_that_needs_one(devices: int) -> None:
    """It would not give up half of them, of which most would then be idle."""
    world = World("weave-l", devices)
    scales = Profile(load_s=0.001, compute_s=0.999, serial=0.05, restart_s=0.5)
    world.step(0.0, submitted("wide", 1e6, tuple(range(1, devices + 1)), scales))
    world.step(300.0, submitted("narrow", 1e6))
    assert (world.size("wide"), world.size("narrow")) == (devices - 1, 1)
    world.step(600.0)
    assert world.size("wide") == devices - 1
