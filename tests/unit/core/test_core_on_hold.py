"""Jobs on hold: policies do not see them, and a hold that is over stops nothing."""

from tests.properties.live_runs import live
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobHeld, JobReleased, JobStarted, JobSubmitted
from treadle.core.lifecycle import Phase
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies import registry
from treadle.testing import builders
from treadle.testing.builders import job, scheduler


class Eager(Policy):
    """Starts every job that waits, whether or not it is in the queue."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.asked = 0

    def decide(self, snapshot: Snapshot) -> Schedule:
        self.asked += 1
        waiting = [row for row in snapshot.jobs.values() if row.phase is Phase.WAITING]
        self.seen |= {row.id for row in waiting}
        devices = list(snapshot.free)
        return Schedule(
            {row.id: Allocation((device,)) for row, device in zip(waiting, devices, strict=False)}
        )


def test_a_policy_does_not_see_a_job_on_hold() -> None:
    eager = Eager()
    one = Scheduler(eager, Cluster.grid(1, 2))
    one.step([JobSubmitted(job("a")), JobHeld("a", "user"), JobSubmitted(job("b"))], 0.0)
    assert eager.seen == {"b"}
    assert one.jobs["a"].allocation is None


def test_a_policy_that_names_jobs_on_hold_is_not_asked_for_ever() -> None:
    eager = Eager()
    with registry.offered("eager", lambda _place, _belief: eager):
        made = builders.policy(live("eager"))
    one = Scheduler(made, Cluster.grid(1, 2))
    events: list[Event] = [JobSubmitted(job("a")), JobHeld("a", "user"), JobSubmitted(job("b"))]
    for _ in range(10):
        for action in one.step(events, 0.0):
            one.step([JobStarted(action.job, action.id, 0.0, 1.0)], 0.0)
        events = []
    assert eager.asked <= 3
    assert one.jobs["a"].allocation is None


def test_a_job_that_is_held_and_released_in_one_batch_runs_on() -> None:
    one = scheduler("fifo", "1x1")
    (start,) = one.step([JobSubmitted(job("a"))], 0.0)
    one.step([JobStarted("a", start.id, 0.0, 1.0)], 0.0)
    assert one.step([JobHeld("a", "user"), JobReleased("a", "user")], 1.0) == []
