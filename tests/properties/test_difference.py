"""`difference` takes any allocations to any others without ever booking a device twice."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.difference import difference
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.testing.builders import job

DEVICES = [Device("n", number) for number in range(5)]
NAMES = ["a", "b", "c", "d"]
Holdings = dict[str, Allocation]


@st.composite
def holdings(draw: st.DrawFn) -> Holdings:
    """Who holds what: each device and turn at most once."""
    held: Holdings = {}
    for name in NAMES:
        turn = draw(st.integers(0, 1))
        taken = {d for a in held.values() if a.turn == turn for d in a.devices}
        left = [device for device in DEVICES if device not in taken]
        devices = draw(st.lists(st.sampled_from(left), unique=True, max_size=3)) if left else []
        if devices:
            held[name] = Allocation(tuple(devices), turn=turn)
    return held


def rows(held: Holdings) -> dict[str, Job]:
    return {
        name: Job(
            job(name, size=3, sizes=(1, 2, 3)),
            number,
            Phase.RUNNING if name in held else Phase.WAITING,
            0.0,
            0.0,
            held.get(name),
        )
        for number, name in enumerate(NAMES)
    }


def tenants(held: Holdings) -> dict[Device, dict[int, str]]:
    book: dict[Device, dict[int, str]] = {}
    for name, allocation in held.items():
        for device in allocation.devices:
            book.setdefault(device, {})[allocation.turn] = name
    return book


@given(current=holdings(), target=holdings())
def test_applied_to_one_it_gives_the_other_and_no_prefix_double_books(
    current: Holdings, target: Holdings
) -> None:
    """What stays is not ordered, and who must let go first is named."""
    changes = {name: target.get(name) for name in NAMES}
    held = dict(current)
    actions = difference(rows(current), tenants(current), changes, 10)
    assert [action.id for action in actions] == list(range(10, 10 + len(actions)))
    for action in actions:
        assert current.get(action.job) != target.get(action.job), f"{action} changes nothing"
        if isinstance(action, Stop):
            del held[action.job]
        else:
            assert (action.job not in held) == isinstance(action, Start)
            assert _holders(current, action) <= set(action.after)
            held[action.job] = action.allocation
        claims = [(d, a.turn) for a in held.values() for d in a.devices]
        assert len(claims) == len(set(claims)), f"booked twice after {action}"
    assert held == target


def _holders(current: Holdings, action: Start | Change) -> set[str]:
    """The other jobs that hold what it is given."""
    wanted = {(device, action.allocation.turn) for device in action.allocation.devices}
    return {
        name
        for name, allocation in current.items()
        if name != action.job and wanted & {(d, allocation.turn) for d in allocation.devices}
    }
