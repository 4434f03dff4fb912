"""What caused a change: who asked, who let go of the devices, who gets them."""

from treadle.control.api.decision_causes import Happened, cause, happened, swaps_of
from treadle.core.cluster import Device, Node
from treadle.core.events import DeviceOpened, JobFinished, JobStarted, NodeJoined
from treadle.wire.decisions import DecisionChange


def test_its_own_wish_and_the_devices_that_became_free() -> None:
    change = _change("5", (), ("h:0", "h:1"))
    before = [
        Happened("ann submitted job 5", asks="5"),
        Happened("job 3 finished", frees=frozenset({"h:1", "h:2"})),
        Happened("job 4 finished", frees=frozenset({"h:3"})),
    ]
    numbers = cause(change, before, swaps_of([change])).numbers
    assert numbers["asked"] == ("ann submitted job 5",)
    assert numbers["freed"] == ("job 3 finished",)


def test_one_job_makes_way_for_another() -> None:
    shrinks, starts = (
        _change("1", ("h:0", "h:1", "h:2"), ("h:0",)),
        _change("2", (), ("h:1", "h:2")),
    )
    swaps = swaps_of([shrinks, starts])
    assert cause(starts, [], swaps).numbers["from_jobs"] == ("1",)
    assert cause(shrinks, [], swaps).numbers["to_jobs"] == ("2",)
    assert cause(shrinks, [], swaps, for_job="9").numbers["to_jobs"] == ("9",)


def test_nothing_is_said_where_nothing_is_known() -> None:
    change = _change("5", ("h:0",), ("h:0", "h:1"))
    assert not any(cause(change, [Happened("job 7 runs")], swaps_of([change])).numbers.values())


def test_what_an_event_asks_and_frees() -> None:
    assert happened(JobFinished("3", 1), "x", "3", ("h:0",)).frees == {"h:0"}
    assert happened(JobStarted("3", 1, 0.0, 1.0), "x", "3", ("h:0",)) == Happened("x")
    assert happened(DeviceOpened(Device("h", 2)), "x", "", ()).frees == {"h:2"}
    assert happened(NodeJoined(Node("n", 2)), "x", "", ()).frees == {"n:0", "n:1"}


def _change(job: str, before: tuple[str, ...], after: tuple[str, ...]) -> DecisionChange:
    return DecisionChange(job=job, kind="", before=before, after=after)
