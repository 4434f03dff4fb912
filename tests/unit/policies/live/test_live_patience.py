"""Jobs whose patience is over go first, in small stories."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.unit.stories import Story, play
from treadle.core.actions import Action, Start
from treadle.core.cluster import Cluster, Node
from treadle.core.events import (
    Event,
    JobFinished,
    JobHeld,
    JobReleased,
    JobSubmitted,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.live.decide import remembered
from treadle.policies.live.patience import AGAIN, LENGTHS, WAIT_S, due_at
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy

# A gang of four behind two jobs, then one small job every second: whatever comes free is taken.
STREAM = [
    job("first", length_s=10.0),
    job("second", length_s=15.0),
    job("gang", size=4, length_s=10.0, at=1.0),
    *(job(f"s{n}", length_s=8.0, at=2.0 + n) for n in range(30)),
]


def order(text: str, jobs: Sequence[JobSpec] = STREAM, cluster: str = "1x4") -> list[str]:
    """The names of jobs in the order of their starts."""
    return [line.split()[2] for line in play(text, list(jobs), cluster) if " start " in line]


def reserved(scheduler: Scheduler) -> list[str]:
    return [entry.job for entry in remembered(scheduler.memory).patience.reserved]


def overtaken(scheduler: Scheduler, name: str) -> int:
    return remembered(scheduler.memory).patience.overtaken[name].times


def test_a_gang_is_overtaken_by_a_bounded_number_of_jobs() -> None:
    """By two for each device; without patience all thirty pass it."""
    assert order("backfill").index("gang") == 32
    assert order("backfill+live").index("gang") <= 2 + 8


def test_gangs_are_served_in_their_order() -> None:
    jobs = [*STREAM[:3], job("later", size=3, length_s=10.0, at=1.5), *STREAM[3:]]
    names = order("backfill+live", jobs)
    assert names.index("gang") < names.index("later") < names.index("s20")


def test_a_policy_in_which_no_job_overtakes_is_left_alone() -> None:
    assert play("fifo+live", STREAM, "1x4") == play("fifo", STREAM, "1x4")


def story(*jobs: JobSpec) -> Story:
    """A gang of four waits for `long`, and small jobs have overtaken it as often as they may."""
    told = Story("backfill+live", "1x4")
    told.tell(0.0, JobSubmitted(job("long", size=2, length_s=100.0)))
    told.runs(0.0, "long")
    told.tell(0.0, JobSubmitted(job("gang", size=4, length_s=10.0)))
    for number in range(8):
        told.tell(1.0, JobSubmitted(job(f"s{number}", length_s=5.0)))
        told.runs(1.0, f"s{number}")
        told.tell(1.0, JobFinished(f"s{number}", told.scheduler.jobs[f"s{number}"].action))
    told.tell(2.0, *(JobSubmitted(spec) for spec in jobs))
    return told


def test_short_jobs_use_what_is_reserved_until_the_gang_can_start() -> None:
    """Two devices are free, and the others in 98 s."""
    stubborn = replace(job("passes", length_s=200.0), resumable=False)
    told = story(stubborn, replace(job("short", length_s=20.0), resumable=False))
    held = {row.id for row in told.scheduler.jobs.values() if row.allocation is not None}
    assert reserved(told.scheduler) == ["gang"]
    assert held == {"long", "short"}


def test_a_higher_priority_is_not_kept_from_devices() -> None:
    told = story(replace(job("urgent", length_s=500.0), priority=5))
    assert told.scheduler.jobs["urgent"].allocation is not None


@pytest.mark.parametrize("other", ["las+live", "afs+live"])
def test_a_gang_keeps_its_place_under_another_policy(other: str) -> None:
    told = story()
    told.scheduler.set_policy(policy(other), 5.0)
    told.tell(5.0)
    assert reserved(told.scheduler) == ["gang"]


NODE = Node("n1", 2)


@pytest.mark.parametrize("text", ["backfill+live", "afs+live"])
@pytest.mark.parametrize("away", [NodeDrained("n1"), NodeLost("n1")])
def test_a_gang_is_counted_on_while_it_cannot_run(text: str, away: Event) -> None:
    """1. A job runs, a gang of all devices waits, a later job starts. 2. A node goes: the gang can
    not run here. Another job starts. 3. The node comes back.
    """
    told = Story(text, "2x2")
    for name, size in (("first", 1), ("gang", 4), ("a", 1)):
        told.tell(0.0, JobSubmitted(job(name, size=size, length_s=500.0)))
    told.runs(1.0, "first", "a")
    assert overtaken(told.scheduler, "gang") == 1
    told.tell(2.0, away)
    assert "gang" in told.scheduler.unfit
    holders = [name for name in ("first", "a") if told.scheduler.jobs[name].allocation is not None]
    told.tell(3.0, JobFinished(holders[0], told.scheduler.jobs[holders[0]].action))
    told.tell(4.0, JobSubmitted(job("b", length_s=500.0)))
    assert told.scheduler.jobs["b"].starts == 1
    told.tell(5.0, NodeJoined(NODE))
    assert overtaken(told.scheduler, "gang") >= 1


def test_a_gang_that_was_held_waits_anew() -> None:
    told = Story("backfill+live", "2x2")
    for name, size in (("first", 1), ("gang", 4), ("a", 1)):
        told.tell(0.0, JobSubmitted(job(name, size=size, length_s=500.0)))
    told.tell(1.0, JobHeld("gang", "user"))
    told.tell(2.0, JobSubmitted(job("b", length_s=500.0)))
    told.tell(3.0, JobReleased("gang", "user"))
    assert overtaken(told.scheduler, "gang") == 0


# -- jobs that take longer than they are believed to ----------------------------------------------


class Watch:
    """When jobs started, and how long devices were idle while small jobs waited."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.reserved: set[str] = set()
        self.idle_s = 0.0  # device seconds
        self._last = (0.0, 0)

    def __call__(
        self, now: float, _events: object, actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        at, idle = self._last
        self.idle_s += idle * (now - at)
        self.reserved.update(reserved(scheduler))
        for action in actions:
            if isinstance(action, Start):
                self.begun.setdefault(action.job, now)
        small = [row for row in scheduler.snapshot(now).waiting() if row.spec.asked == 1]
        self._last = now, scheduler.tenancy.free.total if small else 0


def run(jobs: Sequence[JobSpec], believed_s: Mapping[str, float], text: str, until: float) -> Watch:
    """Play jobs that cannot resume, and that policies believe to be so long."""
    watch = Watch()

    def announced(spec: JobSpec) -> JobSpec:
        return replace(spec, iterations=believed_s.get(spec.id, spec.iterations))

    specs = [replace(spec, resumable=False) for spec in jobs]
    engine = SimulatedEngine(specs, ScalingModel(), announced=announced)
    scheduler = Scheduler(policy(text), Cluster.grid(1, 4))
    Simulation(scheduler, engine, observers=(watch,)).run(until=until)
    return watch


@pytest.mark.parametrize("text", ["backfill+live", "las+live", "afs+live"])
def test_a_hung_job_before_a_gang_does_not_stop_the_others(text: str) -> None:
    """Two jobs hang, a gang of four waits for them, and sixty jobs of 20 s go on around it.

    Two devices need 600 s for them; kept idle, they would never end.
    """
    jobs = [
        job("hung1", length_s=1e6),
        job("hung2", length_s=1e6),
        job("gang", size=4, length_s=10.0, at=1.0),
        *(job(f"s{n}", length_s=20.0, at=2.0 + n) for n in range(60)),
    ]
    watch = run(jobs, {"hung1": 30.0, "hung2": 60.0}, text, 3600.0)
    assert "gang" in watch.reserved
    assert set(watch.begun) == {spec.id for spec in jobs} - {"gang"}
    last_at = max(watch.begun.values())
    assert last_at < 1200.0
    assert watch.idle_s < 0.35 * 2 * last_at


def test_a_gang_that_missed_its_moment_keeps_its_place() -> None:
    """The hung job is gone after 300 s: the gang starts within as long again, before later jobs."""
    jobs = [
        job("hung", length_s=300.0),
        job("gang", size=4, length_s=10.0, at=1.0),
        *(job(f"s{n}", length_s=20.0, at=2.0 + 5 * n) for n in range(400)),
    ]
    watch = run(jobs, {"hung": 30.0}, "backfill+live", 1e5)
    assert 300.0 <= watch.begun["gang"] <= 2 * 300.0


def test_a_gang_does_not_wait_for_the_end_of_jobs_that_can_make_way() -> None:
    """Three jobs that take days hold its devices; the fourth comes free again and again."""
    jobs = [
        *(job(f"long{n}", length_s=200_000.0) for n in range(3)),
        job("gang", size=4, length_s=60.0, at=1.0),
        *(job(f"s{n}", length_s=60.0, at=2.0 + 55.0 * n) for n in range(40)),
    ]
    lines = play("backfill+live", jobs, until=4000.0)
    begun = [line for line in lines if " start gang " in line]
    assert begun
    assert float(begun[0].split()[0]) < 8 * 60.0 + 300.0 + 120.0


# -- the rule -------------------------------------------------------------------------------------


def test_patience_grows_with_the_length_and_with_what_was_run() -> None:
    told = Story("backfill+live", "1x1")
    told.tell(0.0, JobSubmitted(job("a", length_s=50.0)), JobSubmitted(job("b", length_s=100.0)))
    row, belief = told.scheduler.jobs["b"], ScalingModel()
    assert due_at(row, belief, 0.0) == WAIT_S + LENGTHS * 100.0
    ran = row._replace(held_s=10.0, since_at=70.0, waited_s=20.0)
    assert due_at(ran, belief, 70.0) == 70.0 + WAIT_S + LENGTHS * 100.0 + AGAIN * 10.0 - 20.0
