"""A decision costs in proportion to what changed."""

import sys
from types import FrameType

import pytest

from treadle.core.actions import Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobFinished, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import placement
from treadle.policies.live.decide import Live
from treadle.policies.registry import policy
from treadle.policies.wrappers.wrapper import Wrapper

TYPES = {"a100": "NVIDIA A100-SXM4-80GB", "h200": "NVIDIA H200", "v100": "Tesla V100"}
POLICIES = ("fifo", "backfill", "srtf", "las", "afs", "weave-l")
CALLS_MAX = 25  # of Python functions, for each job that waits

Group = tuple[str, int]  # a type and a priority


class Counted(Wrapper):
    """A policy whose decisions are counted, and the waiting jobs that it saw in the last."""

    asked = 0
    shown = 0

    def decide(self, snapshot: Snapshot) -> Schedule:
        self.asked += 1
        self.shown = len(snapshot.ranking.queue)
        return self.inner.decide(snapshot)


class World:
    """Orders are carried out at once; jobs run at one iteration a second."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        belief = TokenModel(ScalingModel(), StageTimes())
        self.policy = Counted(policy(name, placement("consolidate"), belief))
        chosen = Live(self.policy, placement("consolidate"), belief)
        self.scheduler = Scheduler(chosen, cluster)

    def step(self, now: float, *facts: JobSubmitted | JobFinished) -> int:
        """How many Python functions the decision calls: what it costs, however busy the machine."""
        self.policy.asked = calls = 0

        def count(_frame: FrameType, event: str, _arg: object) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            actions = self.scheduler.step(facts, now)
        finally:
            sys.setprofile(before)
        stops = [one for one in actions if isinstance(one, Stop)]
        self.scheduler.take([JobStopped(one.job, one.id, 0.0) for one in stops], now)
        others = [one for one in actions if not isinstance(one, Stop)]
        self.scheduler.take([JobStarted(one.job, one.id, 0.0, 1.0) for one in others], now)
        return calls

    def rows(self) -> dict[Group, set[tuple[str, object]]]:
        found: dict[Group, set[tuple[str, object]]] = {}
        for row in self.scheduler.jobs.values():
            group = (row.spec.device_types[0], row.spec.priority)
            found.setdefault(group, set()).add((row.id, row.allocation))
        return found


def of(name: str, group: Group) -> JobSubmitted:
    return JobSubmitted(JobSpec(name, 1e5, priority=group[1], device_types=(group[0],)))


@pytest.mark.parametrize("name", POLICIES)
def test_one_decision_for_each_type_and_priority_that_changed(name: str) -> None:
    nodes = [Node(f"n{n}-{kind}", 4, device_type=TYPES[kind]) for kind in TYPES for n in range(2)]
    world = World(name, Cluster(tuple(nodes)))
    groups = [(kind, priority) for kind in TYPES for priority in range(3)]
    world.step(0.0, *(of(f"{g}-{n}", g) for g in groups for n in range(4)))
    seen: dict[Group, set[tuple[str, object]]] = {}
    for number, group in enumerate([*groups, *groups]):
        before = world.rows()
        world.step(1.0 + number, of(f"new{number}", group))
        after = world.rows()
        changed = {g for g in groups if not seen.get(g) == before[g] == after[g]}
        assert world.policy.asked <= len(changed)
        seen = before


@pytest.mark.parametrize("name", [*POLICIES, "muri-l", "weave"])
def test_jobs_that_fit_nowhere_cost_little(name: str) -> None:
    cluster = Cluster(tuple(Node(f"n{n}", 8, memory_gib=1000.0, cores=64) for n in range(32)))
    world = World(name, cluster)
    full = [
        JobSpec(f"full{n}", 1e6, (4,), resumable=False, host_memory_gib=490.0) for n in range(64)
    ]
    world.step(0.0, *map(JobSubmitted, full))
    waiting = [JobSpec(f"w{n}", 1e4, host_memory_gib=100.0 + n / 2) for n in range(800)]
    world.step(1.0, *map(JobSubmitted, waiting))
    assert sum(row.size for row in world.scheduler.jobs.values()) == 256
    for number in range(3):
        spec = JobSpec(f"x{number}", 1e4, host_memory_gib=600.0 + number)
        calls = world.step(10.0 + number, JobSubmitted(spec))
        assert world.policy.asked == 0
        assert calls < CALLS_MAX * len(world.scheduler.ranking.queue)


def test_of_jobs_that_ask_for_host_memory_a_policy_sees_as_many_as_there_is_room_for() -> None:
    world = World("backfill", Cluster(tuple(Node(f"n{n}", 8, memory_gib=1000.0) for n in range(4))))
    first = [JobSpec("all of n0", 1e6, (8,), resumable=False)]
    first += [JobSpec(f"r{n}", 1e6, resumable=False, host_memory_gib=900.0) for n in range(3)]
    world.step(0.0, *map(JobSubmitted, first))
    asked = [400.0 + n for n in range(100)] + [300.0, 400.0, 300.0]
    waiting = [JobSpec(f"w{n}", 1e5, host_memory_gib=gib) for n, gib in enumerate(asked)]
    world.step(1.0, *map(JobSubmitted, waiting))
    assert world.policy.shown == 4, "two of 400 GiB, two of 300"
    ended = world.scheduler.jobs["all of n0"]
    world.step(2.0, JobFinished("all of n0", ended.action))
    rows = world.scheduler.jobs.values()
    assert [row.id for row in rows if row.allocation][-2:] == ["w0", "w1"]


@pytest.mark.parametrize("name", ["backfill", "srtf", "las", "muri-l", "weave-l"])
def test_a_job_that_no_free_device_suits_is_shown_once_one_does(name: str) -> None:
    world = World(name, Cluster(tuple(Node(f"n{n}", 8, memory_gib=1000.0) for n in range(2))))
    devices = JobSpec("devices", 1e6, (8,), resumable=False, exclusive=True)
    memory = JobSpec("memory", 1e6, resumable=False, exclusive=True, host_memory_gib=900.0)
    world.step(0.0, JobSubmitted(devices), JobSubmitted(memory))
    world.step(1.0, JobSubmitted(JobSpec("large", 1e4, host_memory_gib=500.0)))
    world.step(2.0, JobSubmitted(JobSpec("a", 1e4)))
    assert (world.policy.asked, world.policy.shown) == (1, 1)
    world.step(3.0, JobFinished("devices", world.scheduler.jobs["devices"].action))
    assert world.scheduler.jobs["large"].allocation is not None


@pytest.mark.parametrize("name", ["backfill", "srtf", "las", "muri-l", "weave-l"])
def test_the_same_of_gpu_memory(name: str) -> None:
    nodes = [Node(f"n{n}", 2, device_memory_gib=gib) for n, gib in enumerate((80.0, 40.0))]
    world = World(name, Cluster(tuple(nodes)))
    full = JobSpec("full", 1e6, (2,), resumable=False, exclusive=True, device_memory_gib=80.0)
    world.step(0.0, JobSubmitted(full))
    large = [JobSpec(f"large{n}", 1e4, exclusive=True, device_memory_gib=80.0) for n in range(3)]
    world.step(1.0, *map(JobSubmitted, large), JobSubmitted(JobSpec("a", 1e4)))
    assert (world.policy.asked, world.policy.shown) == (1, 1)
    world.step(2.0, JobFinished("full", world.scheduler.jobs["full"].action))
    rows = world.scheduler.jobs
    assert [rows[f"large{n}"].size for n in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("name", ["backfill", "srtf", "weave-l"])
def test_an_urgent_job_that_no_free_device_suits_is_shown_where_others_make_way(name: str) -> None:
    world = World(name, Cluster(tuple(Node(f"n{n}", n, memory_gib=1000.0) for n in (1, 3))))
    low = JobSpec("low", 1e6, exclusive=True, host_memory_gib=200.0)
    memory = JobSpec("memory", 1e6, (2,), resumable=False, exclusive=True, host_memory_gib=900.0)
    scheduler, large = world.scheduler, JobSpec("large", 1e4, host_memory_gib=500.0, priority=5)
    world.step(0.0, JobSubmitted(memory))
    started = scheduler.step([JobSubmitted(low)], 1.0)
    scheduler.step([JobSubmitted(large)], 2.0)
    assert scheduler.jobs["large"].allocation is None, "low starts just now"
    scheduler.step([JobStarted(one.job, one.id, 0.0, 1.0) for one in started], 3.0)
    assert scheduler.jobs["low"].phase is Phase.STOPPING


@pytest.mark.parametrize("name", ["backfill", "srtf", "las", "weave-l"])
def test_jobs_that_ask_no_less_than_one_that_was_refused_are_not_chosen_after_it(name: str) -> None:
    nodes = [Node(f"n{n}", 8, cores=64, memory_gib=72.0) for n in range(2)]
    world = World(name, Cluster(tuple(nodes)))
    specs = [JobSpec(f"j{n}", 1e5, host_memory_gib=20.0 + n % 3) for n in range(60)]
    small = [JobSpec(f"s{n}", 1e5, host_memory_gib=1.0) for n in range(4)]
    world.step(0.0, *map(JobSubmitted, [*specs, *small]))
    assert world.policy.asked <= 3
    started = [row.id for row in world.scheduler.jobs.values() if row.allocation is not None]
    assert len([name for name in started if name.startswith("j")]) >= 4
    assert {f"s{n}" for n in range(4)} <= set(started)
