"""Jobs run only on devices that they may use: of types that they name, on nodes with their files.

Those are their working folder and their checkpoints.
"""

from dataclasses import replace

import pytest

from tests.unit.stories import Story
from treadle.core.actions import Action, Start, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Cluster, Node
from treadle.core.errors import PolicyError
from treadle.core.events import (
    AttemptEnded,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import CHECKPOINTS, FOLDER
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.testing.builders import job, policy

POLICY = "fifo+live"


def places(actions: list[Action]) -> dict[str, str]:
    return {a.job: a.allocation.devices[0].node for a in actions if isinstance(a, Start)}


def refused(told: Story, name: str, at: float, *nodes: str, why: str = FOLDER) -> list[Action]:
    action = told.scheduler.jobs[name].action
    ended = AttemptEnded(name, action, 0, How.MACHINE_ERROR, only_on=nodes, only_because=why)
    return told.tell(at, ended)


def writes(told: Story, name: str, at: float, *nodes: str) -> None:
    """It runs, and these nodes alone see its checkpoints."""
    told.tell(at, JobStarted(name, told.scheduler.jobs[name].action, 0.0, 1.0, kept_on=nodes))


def test_it_is_started_where_its_folder_is() -> None:
    told = Story(POLICY, "2x2")
    assert places(told.tell(0.0, JobSubmitted(job("a", size=2)))) == {"a": "n0"}
    assert places(refused(told, "a", 1.0, "n1")) == {"a": "n1"}
    assert told.scheduler.jobs["a"].only_on == ("n1",)


def test_it_waits_while_that_node_is_full_and_others_go_on() -> None:
    told = Story(POLICY, "2x2")
    told.tell(0.0, JobSubmitted(job("b", size=2)), JobSubmitted(job("a", size=2)))
    told.runs(1.0, "b")
    assert places(refused(told, "a", 1.0, "n0")) == {}
    assert places(told.tell(2.0, JobSubmitted(job("c", size=2)))) == {"c": "n1"}
    found = Reason("bound", {"nodes": ("n0",), "asked": 2, "free": 0, "by": FOLDER})
    assert told.scheduler.why("a", 2.0) == found
    action = told.scheduler.jobs["b"].action
    assert places(told.tell(3.0, JobFinished("b", action))) == {"a": "n0"}


def preempted(told: Story) -> Node:
    """Job a has checkpoints on n0 alone and waits; b has that node, which is returned."""
    told.tell(0.0, JobSubmitted(job("a", size=2)))
    writes(told, "a", 1.0, "n0")
    action = told.scheduler.jobs["a"].action
    told.tell(9.0, JobHeld("a", "user"))
    told.tell(10.0, JobStopped("a", action + 1, 9.0), JobSubmitted(job("b", size=2)))
    assert told.scheduler.jobs["b"].phase is Phase.STARTING
    told.tell(11.0, JobReleased("a", "user"))
    return next(node for node in told.scheduler.cluster.nodes if node.name == "n0")


def test_a_job_goes_on_where_its_checkpoints_are() -> None:
    told = Story(POLICY, "2x2")
    preempted(told)
    row = told.scheduler.jobs["a"]
    assert (row.phase, row.only_on, row.iterations_done) == (Phase.WAITING, ("n0",), 9.0)
    assert told.scheduler.why("a", 11.0).numbers["by"] == CHECKPOINTS
    told.runs(12.0, "b")
    action = told.scheduler.jobs["b"].action
    assert places(told.tell(13.0, JobFinished("b", action))) == {"a": "n0"}
    writes(told, "a", 14.0)
    assert told.scheduler.jobs["a"].only_on == (), "other nodes see them now"


@pytest.mark.parametrize("returns", [False, True])
def test_a_job_starts_over_if_the_node_with_its_checkpoints_is_lost(*, returns: bool) -> None:
    """Unless that node returns before the job has started elsewhere."""
    told = Story(POLICY, "2x2")
    node = preempted(told)
    told.tell(12.0, JobSubmitted(job("c", size=2)))
    assert told.scheduler.jobs["c"].phase is Phase.STARTING
    told.tell(13.0, NodeLost("n0"))
    row = told.scheduler.jobs["a"]
    assert (row.starts_over, row.only_on, row.iterations_done) == (True, (), 0.0)
    if returns:
        told.tell(14.0, NodeJoined(node))
        row = told.scheduler.jobs["a"]
        assert (row.starts_over, row.only_on) == (False, ("n0",))
        return
    told.runs(15.0, "c")
    action = told.scheduler.jobs["c"].action
    assert places(told.tell(16.0, JobFinished("c", action))) == {"a": "n1"}


def test_a_job_that_runs_on_a_node_that_is_lost_starts_over() -> None:
    told = Story(POLICY, "2x2")
    told.tell(0.0, JobSubmitted(job("a", size=2)))
    writes(told, "a", 1.0, "n0")
    told.tell(2.0, NodeLost("n0"))
    action = told.scheduler.jobs["a"].action
    ended = AttemptEnded("a", action, 1, How.LOST, node_lost=True)
    assert places(told.tell(3.0, ended)) == {"a": "n1"}
    assert told.scheduler.jobs["a"].starts_over


def test_a_job_whose_folder_is_on_a_lost_node_waits_for_it() -> None:
    told = Story(POLICY, "2x2")
    told.tell(0.0, JobSubmitted(job("a", size=2)))
    refused(told, "a", 1.0, "n1")
    told.runs(2.0, "a")
    node = next(node for node in told.scheduler.cluster.nodes if node.name == "n1")
    told.tell(3.0, NodeLost("n1"))
    action = told.scheduler.jobs["a"].action
    assert places(told.tell(4.0, AttemptEnded("a", action, 1, How.LOST, node_lost=True))) == {}
    assert places(told.tell(5.0, NodeJoined(node))) == {"a": "n1"}


def test_an_elastic_job_takes_what_its_node_has() -> None:
    told = Story("fifo+live", "2x2")
    told.tell(0.0, JobSubmitted(job("b", size=1)))
    told.tell(0.0, JobSubmitted(job("a", sizes=(1, 2))))
    told.runs(1.0, "a")
    actions = refused(told, "a", 2.0, "n0")
    assert places(actions) == {"a": "n0"}
    assert told.scheduler.jobs["a"].size == 1


A100, H200 = "NVIDIA A100", "NVIDIA H200"


def mixed(text: str, *nodes: tuple[str, int], place: str = "consolidate") -> Story:
    """A story on nodes n0, n1, ... of these types and sizes."""
    told = Story(text, "1x1", place=place)
    cluster = Cluster(
        tuple(Node(f"n{at}", count, device_type=kind) for at, (kind, count) in enumerate(nodes))
    )
    told.scheduler = Scheduler(policy(text, place=place), cluster)
    return told


def lacks(word: str, **counts: int) -> Reason:
    return Reason("type", {"words": (word,), **counts})


def typed(name: str, *words: str, size: int = 1, length_s: float = 100.0) -> JobSubmitted:
    return JobSubmitted(replace(job(name, size=size, length_s=length_s), device_types=words))


def test_a_job_gets_the_type_that_it_names_by_a_part_of_it_in_any_case() -> None:
    told = mixed(POLICY, (A100, 2), (H200, 2), ("cpu", 4))
    events = typed("a", "h200"), typed("b", "nvidia a100"), typed("c", "CPU"), typed("d", "A100")
    assert places(told.tell(0.0, *events)) == {"a": "n1", "b": "n0", "c": "n2", "d": "n0"}


def test_a_job_of_no_type_has_no_cpu_slot_beside_gpus_and_slots_where_there_are_none() -> None:
    told = mixed(POLICY, ("cpu", 4), (A100, 1))
    assert places(told.tell(0.0, typed("a"), typed("b"))) == {"a": "n1"}
    assert told.scheduler.why("b", 0.0) == lacks("gpu", asked=1, free=0, total=1)
    assert places(mixed(POLICY, ("cpu", 4)).tell(0.0, typed("a"))) == {"a": "n0"}


def test_a_gang_is_on_one_type_where_it_can_and_on_several_where_it_must() -> None:
    told = mixed(POLICY, (A100, 2), (H200, 2), place="count")
    told.tell(0.0, typed("a", "a100"), typed("b", "h200"), typed("gang", size=2))
    assert told.scheduler.jobs["gang"].allocation is None
    found = Reason("fragmentation", {"asked": 2, "free": 2, "most": 1})
    assert told.scheduler.why("gang", 0.0) == found
    wide = mixed(POLICY, (A100, 2), (H200, 2), place="count")
    wide.tell(0.0, typed("gang", size=4))
    assert wide.scheduler.jobs["gang"].size == 4


def test_why_says_how_many_of_its_type_are_there_and_free() -> None:
    told = mixed(POLICY, (A100, 2), (H200, 3))
    told.tell(0.0, typed("a", "h200", size=2), typed("b", "h200", size=2))
    assert told.scheduler.why("b", 0.0) == lacks("h200", asked=2, free=1, total=3)


def test_a_type_that_is_not_there_never_fits_and_is_queued_when_it_joins() -> None:
    told = mixed(POLICY, (A100, 2), ("cpu", 3))
    told.tell(0.0, typed("a", "h200", "tpu"))
    assert told.scheduler.why("a", 0.0).code == "never-fits"
    joined = NodeJoined(Node("n9", 2, device_type=H200))
    assert places(told.tell(1.0, joined)) == {"a": "n9"}


def test_nodes_that_are_not_there_never_fit() -> None:
    told = mixed(POLICY, (A100, 2), (H200, 8))
    told.tell(0.0, JobSubmitted(replace(job("a"), nodes=("n7",))))
    told.tell(0.0, JobSubmitted(replace(job("b", size=4), nodes=("n0",))))
    assert told.scheduler.unfit == {
        "a": "it asks for 1 device on n7, and there are none; the nodes here are n0, n1",
        "b": "it asks for 4 devices on n0, and there are 2",
    }


def test_a_job_of_no_type_leaves_alone_what_others_need() -> None:
    """Both types are free; a waiting job can use one of them alone."""
    told = mixed(POLICY, (H200, 1), (A100, 1))
    assert places(told.tell(0.0, typed("plain"), typed("picky", "h200"))) == {
        "plain": "n1",
        "picky": "n0",
    }


def test_a_policy_preempts_only_on_the_type_of_the_job() -> None:
    """srtf: the short job that needs an H200 stops the long one there, and not that on the A100."""
    told = mixed("srtf+live", (A100, 1), (H200, 1))
    told.tell(0.0, typed("long", "a100", length_s=900.0), typed("longer", "h200", length_s=500.0))
    told.runs(0.0, "long", "longer")
    actions = told.tell(1.0, typed("short", "h200", length_s=5.0))
    assert [a.job for a in actions if isinstance(a, Stop)] == ["longer"]
    assert places(actions) == {"short": "n1"}


def test_the_core_refuses_a_policy_that_gives_a_job_what_it_may_not_use() -> None:
    told = mixed("fifo", (A100, 1))
    with pytest.raises(
        PolicyError,
        match=r"job a was given devices of node n0 \(NVIDIA A100\), which it may not use",
    ):
        told.tell(0.0, typed("a", "h200"))


def test_aiturbo_lends_slots_only_to_jobs_that_say_so() -> None:
    """It could use four devices, and two are GPUs."""
    for words, lent in (((), False), (("gpu",), False), (("any",), True)):
        told = mixed("aiturbo+live", (A100, 2), ("cpu", 4), place="count")
        spec = replace(job("a", sizes=(1, 2, 4), size=2, length_s=1e6), device_types=words)
        told.tell(0.0, JobSubmitted(spec))
        told.runs(0.0, "a")
        told.tell(10_000.0)
        allocation = told.scheduler.jobs["a"].allocation
        assert allocation is not None
        assert ("n1" in allocation.nodes()) is lent, words


def test_a_size_that_no_type_has_never_fits_a_policy_that_gives_what_is_asked_for() -> None:
    """It could start on one device, and under such a policy it would wait for five for ever."""
    told = mixed("backfill+live", (A100, 3), (H200, 3), place="count")
    told.tell(0.0, JobSubmitted(job("a", sizes=(1, 5), size=5)))
    told.tell(0.0, JobSubmitted(replace(job("b", sizes=(1, 5), size=5), device_types=("h200",))))
    assert told.scheduler.unfit == {
        "a": "it asks for 5 devices, and no type has more than 3",
        "b": "it asks for 5 devices of type h200, and there are 3",
    }


def test_a_job_with_a_choice_is_made_way_for_in_any_of_its_types() -> None:
    """It is offered to the one where less is left to do, and may not wait for that one alone."""
    told = mixed("srtf+live", (A100, 1), (H200, 1))
    told.tell(0.0, typed("short", "a100", length_s=50.0))
    told.tell(0.0, typed("long", "h200", length_s=10_000.0))
    told.runs(0.0, "short", "long")
    told.tell(1.0, typed("new", "gpu", length_s=60.0))
    assert told.scheduler.jobs["long"].phase is Phase.STOPPING


def test_a_job_that_is_preempted_goes_on_with_another_type_if_one_is_free() -> None:
    """srtf: a short job takes the only H200 of a long one of no type, and an A100 is free."""
    told = mixed("srtf+live", (H200, 1), (A100, 1), place="count")
    told.tell(0.0, typed("first", "a100", length_s=1.0), typed("long", length_s=500.0))
    told.runs(0.0, "first", "long")
    told.tell(1.0, JobFinished("first", told.scheduler.jobs["first"].action))
    told.tell(2.0, typed("short", "h200", length_s=5.0))
    given = {i: row.allocation for i, row in told.scheduler.jobs.items()}
    assert {i: new.nodes() for i, new in given.items() if new} == {
        "short": ("n0",),
        "long": ("n1",),
    }


@pytest.mark.parametrize("name", ["weave-l", "srtf", "fifo", "afs", "backfill"])
def test_a_job_of_a_higher_priority_takes_devices_of_another_type(name: str) -> None:
    """Its own pool has only jobs of a higher one."""
    told = mixed(f"{name}+live", (A100, 1), (H200, 8))
    told.tell(0.0, JobSubmitted(job("low", size=8, length_s=20_000.0)))
    told.runs(0.0, "low")
    top = replace(job("top", length_s=20_000.0), priority=100)
    told.tell(10.0, JobSubmitted(top))
    told.runs(10.0, "top")
    mid = replace(job("mid", length_s=60.0), priority=10)
    assert places(told.tell(20.0, JobSubmitted(mid))) == {"mid": "n1"}
