"""The simulator's loop: exact moments or rounds, up to a moment, forked there."""

from collections.abc import Sequence
from math import inf

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobFinished, JobStarted, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import WAKES_MAX, Look, Simulation, exactly, rounds
from treadle.testing.builders import job, policy


class Log:
    """Writes down `moment event job` for the events that matter."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        for event in events:
            if isinstance(event, JobSubmitted):
                self.lines.append(f"{now:g} submitted {event.spec.id}")
            elif isinstance(event, JobStarted | JobFinished):
                self.lines.append(f"{now:g} {type(event).__name__[3:].lower()} {event.job}")


def simulation(*jobs: JobSpec, look: Look = exactly, name: str = "fifo") -> tuple[Simulation, Log]:
    log = Log()
    engine = SimulatedEngine(jobs, ScalingModel())
    scheduler = Scheduler(policy(name), Cluster.grid(1, 1))
    return Simulation(scheduler, engine, look=look, observers=(log,)), log


def test_arrivals_and_ends_are_seen_when_they_happen() -> None:
    run, log = simulation(job("a", length_s=310.0, at=10.0), job("b", length_s=50.0, at=20.0))
    run.run()
    assert log.lines == [
        "10 submitted a",
        "10 started a",
        "20 submitted b",
        "320 finished a",
        "320 started b",
        "370 finished b",
    ]
    assert run.now == 370.0


def test_in_rounds_they_are_seen_at_the_end_of_the_round() -> None:
    """a arrives at 10 and is seen at 300; it ends at 610 and is seen at 900, and so on."""
    run, log = simulation(
        job("a", length_s=310.0, at=10.0), job("b", length_s=50.0, at=20.0), look=rounds(300.0)
    )
    run.run()
    assert log.lines == [
        "300 submitted a",
        "300 submitted b",
        "300 started a",
        "900 finished a",
        "900 started b",
        "1200 finished b",
    ]


def test_a_run_stops_at_a_moment_and_goes_on_from_there() -> None:
    run, log = simulation(job("a", length_s=10.0), job("b", length_s=10.0))
    run.run(until=10.0)
    assert log.lines[-1] == "10 started b", "what happens at that very moment belongs to it"
    assert run.now == 10.0
    run.run(until=15.0)
    assert log.lines[-1] == "10 started b"
    run.run()
    assert log.lines[-1] == "20 finished b"


def test_a_fork_goes_its_own_way_and_is_watched_by_others() -> None:
    run, log = simulation(job("a", length_s=10.0), job("b", length_s=4.0, at=1.0))
    run.run(until=2.0)
    other = Log()
    twin = run.fork(observers=(other,))
    twin.scheduler.set_policy(policy("srtf"), 2.0)
    twin.run()
    assert other.lines == ["2 started b", "6 finished b", "6 started a", "14 finished a"]
    assert run.now == 1.0, "the last moment at which something happened"
    run.run()
    assert log.lines[-3:] == ["10 finished a", "10 started b", "14 finished b"]


def test_the_run_ends_when_a_policy_asks_again_and_nothing_could_ever_change() -> None:
    class Hesitant(Policy):
        """Starts nothing and wants to be asked again every second."""

        def decide(self, snapshot: Snapshot) -> Schedule:
            return Schedule(valid_until=snapshot.now + 1.0)

    scheduler = Scheduler(Hesitant(), Cluster.grid(1, 1))
    run = Simulation(scheduler, SimulatedEngine([job("a")], ScalingModel()))
    run.run(until=inf)
    assert run.now == 1.0 + WAKES_MAX
