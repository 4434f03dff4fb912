"""A gang's overtakings are counted on, whatever happens to the nodes that it needs."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stories import Story
from treadle.core.actions import Action, Start
from treadle.core.cluster import Cluster, Node
from treadle.core.events import (
    Event,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStopped,
    JobSubmitted,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.reservation import lines_in, reservations
from treadle.policies.wrappers.reserve import until_reserved
from treadle.policies.wrappers.suitable import Suitable
from treadle.testing.builders import job

LIVE = "afs+few+suitable+priority+elsewhere+pays+steady+reserve+share+host"
NODE = Node("n1", 2)


def so_far(told: Story, name: str, now: float) -> str:
    found = until_reserved(told.scheduler.policy, told.scheduler.snapshot(now), name)
    return found.partition(";")[0]


@pytest.mark.parametrize("text", ["backfill+reserve", LIVE])
@pytest.mark.parametrize("away", [NodeDrained("n1"), NodeLost("n1")])
def test_a_gang_is_counted_on_while_it_cannot_run(text: str, away: Event) -> None:
    """1. A job runs, a gang of all devices waits, a later job starts. 2. A node goes: the gang can
    not run here. Another job starts. 3. The node comes back.
    """
    told = Story(text, "2x2")
    for name, size in (("first", 1), ("gang", 4), ("a", 1)):
        told.tell(0.0, JobSubmitted(job(name, size=size, length_s=500.0)))
    told.runs(1.0, "first")
    told.runs(1.0, "a")
    assert so_far(told, "gang", 1.0) == "it was overtaken once"
    told.tell(2.0, away)
    assert "gang" in told.scheduler.unfit
    holders = [name for name in ("first", "a") if told.scheduler.jobs[name].allocation is not None]
    told.tell(3.0, JobFinished(holders[0], told.scheduler.jobs[holders[0]].action))
    told.tell(4.0, JobSubmitted(job("b", length_s=500.0)))
    assert told.scheduler.jobs["b"].starts == 1
    told.tell(5.0, NodeJoined(NODE))
    assert so_far(told, "gang", 5.0) == "it was overtaken twice"


def test_a_gang_that_had_a_reservation_has_one_when_its_node_is_back() -> None:
    told = Story("backfill+reserve?overtakes=0.5", "2x2")
    for name, size in (("first", 1), ("gang", 4), ("a", 1), ("b", 1), ("c", 1)):
        told.tell(0.0, JobSubmitted(job(name, size=size, length_s=500.0)))
    assert [entry.job for entry in reservations(told.scheduler.state.memory)] == ["gang"]
    told.tell(2.0, NodeDrained("n1"))
    assert not reservations(told.scheduler.state.memory)  # No devices are kept for nothing.
    told.tell(3.0, NodeJoined(NODE))
    assert [entry.job for entry in reservations(told.scheduler.state.memory)] == ["gang"]


def test_a_gang_that_was_held_waits_anew() -> None:
    told = Story("backfill+reserve", "2x2")
    for name, size in (("first", 1), ("gang", 4), ("a", 1)):
        told.tell(0.0, JobSubmitted(job(name, size=size, length_s=500.0)))
    told.tell(1.0, JobHeld("gang", "user"))
    told.tell(2.0, JobSubmitted(job("b", length_s=500.0)))
    told.tell(3.0, JobReleased("gang", "user"))
    assert so_far(told, "gang", 3.0) == "it was not overtaken yet"


@settings(max_examples=60, deadline=None)
@given(moves=st.lists(st.sampled_from(["submit", "end", "drain", "lose", "join"]), max_size=30))
def test_every_later_start_is_counted_under_any_changes_of_the_nodes(moves: list[str]) -> None:
    told = Story("backfill+reserve?overtakes=1000&wait_s=1000000", "2x2")
    for name, size in (("first", 2), ("gang", 3)):
        told.tell(0.0, JobSubmitted(job(name, size=size, length_s=500.0)))
    begun: set[str] = {"first"}

    def count(actions: Sequence[Action]) -> None:
        begun.update(action.job for action in actions if isinstance(action, Start))

    for number, move in enumerate(moves):
        now, jobs = 1.0 + number, told.scheduler.jobs
        held = [row for row in jobs.values() if row.allocation is not None]
        match move:
            case "submit":
                count(told.tell(now, JobSubmitted(job(f"s{number}", length_s=500.0))))
            case "end" if len(held) > 1:
                count(told.tell(now, JobFinished(held[-1].id, held[-1].action)))
            case "drain":
                count(told.tell(now, NodeDrained("n1")))
            case "lose":
                actions = told.tell(now, NodeLost("n1"))
                count(actions)
                stopped = [a for a in actions if not isinstance(a, Start)]
                count(told.tell(now, *(JobStopped(a.job, a.id, 0.0) for a in stopped)))
            case "join":
                count(told.tell(now, NodeJoined(NODE)))
        if "gang" in begun:
            return
        counts = lines_in(told.scheduler.state.memory).overtaken
        times = counts["gang"].times if "gang" in counts else 0
        assert times == len(begun - {"first", "gang"})


class _Counting(Policy):
    """Remembers how often it was asked."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        seen = snapshot.memory if isinstance(snapshot.memory, int) else 0
        return Schedule(memory=seen + 1)


def test_what_is_remembered_of_a_pool_is_handed_on_when_types_come_and_go() -> None:
    gpu, other = Node("g", 2, device_type="A100"), Node("c", 2, device_type="H200")
    scheduler = Scheduler(Suitable(_Counting(), ScalingModel()), Cluster((gpu,)))

    def seen() -> dict[tuple[str, ...], int]:
        note = getattr(scheduler.state.memory, "own", None)
        assert isinstance(note, dict)
        return dict(note)

    scheduler.step([JobSubmitted(job("a"))], 0.0)
    assert seen() == {("A100",): 1}
    scheduler.step([NodeJoined(other)], 1.0)
    assert seen()["A100",] == 2
    scheduler.step([NodeLost("g")], 2.0)
    assert seen()["A100",] == 2
    scheduler.step([NodeJoined(gpu)], 3.0)
    assert seen()["A100",] == 3
