"""A job whose checkpoints cannot leave their node runs there, or waits."""

from tests.unit.stories import Story
from treadle.core.actions import Action, Start
from treadle.core.attempt import How
from treadle.core.events import (
    AttemptEnded,
    JobFinished,
    JobSubmitted,
    NodeJoined,
    NodeLost,
)
from treadle.testing.builders import job

POLICY = "fifo+suitable"


def places(actions: list[Action]) -> dict[str, str]:
    return {a.job: a.allocation.devices[0].node for a in actions if isinstance(a, Start)}


def refused(told: Story, name: str, at: float, *nodes: str, how: How) -> list[Action]:
    action = told.scheduler.jobs[name].action
    return told.tell(at, AttemptEnded(name, action, 0, how, only_on=nodes))


def test_it_is_started_where_its_checkpoints_are() -> None:
    told = Story(POLICY, "2x2")
    assert places(told.tell(0.0, JobSubmitted(job("a", size=2)))) == {"a": "n0"}
    assert places(refused(told, "a", 1.0, "n1", how=How.MACHINE_ERROR)) == {"a": "n1"}
    assert told.scheduler.jobs["a"].only_on == ("n1",)


def test_it_waits_while_that_node_is_full_and_others_go_on() -> None:
    told = Story(POLICY, "2x2")
    told.tell(0.0, JobSubmitted(job("b", size=2)), JobSubmitted(job("a", size=2)))
    told.runs(1.0, "b")
    actions = refused(told, "a", 1.0, "n0", how=How.MACHINE_ERROR)
    assert places(actions) == {}
    assert places(told.tell(2.0, JobSubmitted(job("c", size=2)))) == {"c": "n1"}
    assert told.scheduler.why("a", 2.0).sentence == (
        "it can run only on n0, which has its files: they cannot be copied to other nodes; it "
        "needs 2 devices, and 0 are free there"
    )
    action = told.scheduler.jobs["b"].action
    assert places(told.tell(3.0, JobFinished("b", action))) == {"a": "n0"}


def test_it_waits_for_a_node_that_is_lost_and_is_first_when_that_returns() -> None:
    told = Story(POLICY, "2x2")
    told.tell(0.0, JobSubmitted(job("a", size=2)))
    told.runs(1.0, "a")
    (node,) = [node for node in told.scheduler.cluster.nodes if node.name == "n0"]
    told.tell(2.0, NodeLost("n0"))
    action = told.scheduler.jobs["a"].action
    ended = AttemptEnded("a", action, 1, How.LOST, node_lost=True, only_on=("n0",))
    assert places(told.tell(3.0, ended)) == {}
    assert "n0 is not in use now" in told.scheduler.why("a", 3.0).sentence
    assert places(told.tell(4.0, JobSubmitted(job("b", size=2)))) == {"b": "n1"}
    assert places(told.tell(5.0, JobSubmitted(job("c", size=2)))) == {}
    assert places(told.tell(6.0, NodeJoined(node))) == {"a": "n0"}


def test_an_elastic_job_takes_what_its_node_has() -> None:
    told = Story("fifo+suitable", "2x2")
    told.tell(0.0, JobSubmitted(job("b", size=1)))
    told.tell(0.0, JobSubmitted(job("a", sizes=(1, 2))))
    told.runs(1.0, "a")
    actions = refused(told, "a", 2.0, "n0", how=How.MACHINE_ERROR)
    assert places(actions) == {"a": "n0"}
    assert told.scheduler.jobs["a"].size == 1
