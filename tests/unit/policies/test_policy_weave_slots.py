"""weave on GPUs and CPU slots: each job has devices of one kind, that which others want least."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.core.actions import Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDrained,
)
from treadle.core.job import JobSpec, Profile
from treadle.core.ports import PerformanceModel
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.models.workers import WorkersModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.policies.weave.gpus_and_slots import Offer, split

GPUS, SLOTS = "gpu", "cpu"
NAMES = pytest.mark.parametrize("name", ["weave", "weave-l"])


class World:
    """A node of GPUs and one of CPU slots; orders are carried out at once."""

    def __init__(
        self, name: str, *, gpus: int = 2, slots: int = 4, tells_kinds_apart: bool = True
    ) -> None:
        cluster = Cluster((Node(GPUS, gpus), Node(SLOTS, slots, device_type="cpu")))
        base: PerformanceModel = ScalingModel.on(cluster)
        if tells_kinds_apart:
            base = WorkersModel(base, cluster)
        self.policy = policy(name, placement("consolidate"), TokenModel(base, StageTimes()))
        self.scheduler = Scheduler(self.policy, cluster)

    def step(self, now: float, *facts: Event) -> None:
        actions = self.scheduler.step(facts, now)
        stops = [one for one in actions if isinstance(one, Stop)]
        others = [one for one in actions if not isinstance(one, Stop)]
        self.scheduler.take([JobStopped(one.job, one.id, 0.0) for one in stops], now)
        self.scheduler.take([JobStarted(one.job, one.id, 0.0, 1.0) for one in others], now)

    def finish(self, now: float, job: str) -> None:
        self.step(now, JobFinished(job, self.scheduler.jobs[job].action))

    def nodes(self, job: str) -> tuple[str, ...]:
        held = self.scheduler.jobs[job].allocation
        return () if held is None else held.nodes()


def submitted(
    name: str, work: float = 1e5, sizes: tuple[int, ...] = (1,), model: str = "vgg16"
) -> JobSubmitted:
    # All bottlenecks are alike, so that no two jobs gain by sharing.
    profile = Profile(load_s=0.001, compute_s=0.999, model=model)
    return JobSubmitted(JobSpec(name, work, sizes, profile=profile))


@NAMES
def test_jobs_without_a_use_for_gpus_leave_them_to_the_others(name: str) -> None:
    world = World(name)
    world.step(0.0, submitted("s1", model="cpu-a"), submitted("s2", model="cpu-a"))
    world.step(1.0, submitted("g1"), submitted("g2"))
    assert {world.nodes(job) for job in ("g1", "g2")} == {(GPUS,)}
    assert {world.nodes(job) for job in ("s1", "s2")} == {(SLOTS,)}


@NAMES
def test_a_job_that_finds_the_gpus_taken_runs_on_slots_until_one_is_free(name: str) -> None:
    world = World(name)
    world.step(0.0, submitted("a", 1e4), submitted("b", 1e4))
    world.step(1.0, submitted("late", 1e6))
    assert world.nodes("late") == (SLOTS,)
    world.finish(5000.0, "a")
    assert world.nodes("late") == (GPUS,)


@NAMES
def test_where_kinds_look_alike_only_jobs_without_a_use_for_gpus_run_on_slots(name: str) -> None:
    world = World(name, tells_kinds_apart=False)
    world.step(0.0, submitted("a"), submitted("b"), submitted("s", model="cpu-a"))
    world.step(1.0, submitted("late"))
    assert world.nodes("s") == (SLOTS,)
    assert [world.nodes(job) for job in ("a", "b", "late")] == [(GPUS,), (GPUS,), ()]


@pytest.mark.parametrize("step_s", [1.0, 100.0])
def test_a_job_too_large_for_the_slots_is_worth_as_much_as_others_on_gpus(step_s: float) -> None:
    """Its work is counted in the speed that it has on GPUs, however long an iteration is, so the
    price of a GPU sends the small jobs to the slots."""
    world = World("weave", gpus=4, slots=2)
    profile = Profile(load_s=0.001, compute_s=step_s, size=4, model="vgg16")
    large = JobSubmitted(JobSpec("large", 1e4 / step_s, (4,), profile=profile))
    world.step(0.0, large, submitted("a", 5e4), submitted("b", 5e4))
    assert [world.nodes(job) for job in ("large", "a", "b")] == [(GPUS,), (SLOTS,), (SLOTS,)]


def test_with_sizes_as_asked_a_job_too_large_for_the_gpus_runs_on_slots_that_look_alike() -> None:
    world = World("weave?sizes=off", tells_kinds_apart=False)
    world.step(0.0, submitted("a", sizes=(1, 4)))
    assert world.nodes("a") == (SLOTS,)


@NAMES
def test_no_job_is_split_over_kinds_and_one_too_large_for_each_never_fits(name: str) -> None:
    world = World(name)
    world.step(0.0, submitted("wide", sizes=(1, 2, 4)), submitted("most", sizes=(4,)))
    assert all(len(world.nodes(job)) == 1 for job in ("wide", "most"))
    spec = JobSpec("all", 1.0, sizes=(6,))
    reason = world.policy.never_fits(spec, world.scheduler.cluster)
    assert reason is not None
    assert "6 devices" in reason


@NAMES
def test_jobs_on_drained_slots_run_on_and_their_kind_goes_with_them(name: str) -> None:
    world = World(name)
    world.step(0.0, submitted("s", model="cpu-a"), submitted("g"), submitted("h"))
    world.step(1.0, NodeDrained(SLOTS))
    world.step(2.0, submitted("next"))
    assert world.nodes("s") == (SLOTS,)
    assert world.nodes("next") == ()
    assert world.scheduler.why("s", 3.0).code == "running"


def test_jobs_that_are_alike_do_not_all_go_to_one_kind() -> None:
    alike = [{0: Offer(1, 1.0), 1: Offer(1, 0.5)}] * 4
    assert sorted(split(alike, [1.0] * 4, (2, 2))) == [0, 0, 1, 1]


rates = st.floats(0.01, 1.0)


@settings(deadline=None, max_examples=50)
@example([(0.01171875, 1.0, 1.0)] * 3)
@given(st.lists(st.tuples(rates, rates, st.floats(0.5, 20.0)), min_size=1, max_size=7))
def test_the_split_is_near_the_best_of_all(jobs: list[tuple[float, float, float]]) -> None:
    """Rigid jobs of one device, two devices of one kind and two of the other."""
    offers = [{0: Offer(1, fast), 1: Offer(1, slow)} for fast, slow, _ in jobs]
    worths = [worth for _, _, worth in jobs]

    def value(kinds: Sequence[int]) -> float:
        total = 0.0
        for kind in (0, 1):
            rows = [worth * offers[i][kind].each for i, worth in enumerate(worths)]
            own = sorted((row for row, one in zip(rows, kinds, strict=True) if one == kind))
            total += sum(own[-2:])
        return total

    best = max(map(value, product((0, 1), repeat=len(jobs))))
    assert value(split(offers, worths, (2, 2))) >= 0.5 * best
