"""How much of its speed alone each job of a group keeps, from what was measured of each alone.

A job alone keeps its device busy for a share of the time, as NVML says from outside. In company a
device serves one process at a time. What a job loses lies between two extremes:

- It hides every wait. Its host runs ahead and queues work, so it slows only when the device has no
  time left for it. The device's time is then shared out fairly: no job gets more than it needs, and
  what one does not need goes to the others.
- It hides no wait. Its host waits for each result, so each time that it finds the device taken
  costs it that time (mean value analysis: the busy share of the others, as they would be without
  it, times its own).

A real job hides some. Two numbers say it (`benchmarks/company.py`): `hidden`, the share of the
waits that are hidden, and `capacity`, how much busy time of jobs alone fits into one second. The
H200's table is fitted best by 0.5 and 0.9, and within a per cent as well by a capacity up to 1.1.
The highest is taken: other GPUs get 1.0 to 1.3 done with two saturating jobs where the H200 gets
0.93, and a model that expects 1.0 is known to be too cautious there. A busy device is not a full
one. Tried unchanged on pairs that others measured on another GPU, the sum is 6.8 % off on average
(docs/sharing.md). With MPS kernels of several processes run at the same time, which raises the
capacity. Three groups measured beside the same jobs alone (benchmarks/gpu/batch.py) are fitted best
by a share of 0.45 to 0.7; five older ones by 1, whose figures alone were 5 to 20 % low that day.
"""

from collections.abc import Sequence
from typing import NamedTuple

from treadle.core.sighting import Load

MEMBERS_MAX = 8  # turns of a device; the work doubles with each

# A job alone as (busy, memory_busy, memory_gib), or what the engine measured.
Alone = Load | tuple[float | None, float | None, float | None]


class Sharing(NamedTuple):
    """How a device is shared, in two fitted numbers."""

    capacity: float  # busy seconds of jobs alone that fit into one second
    hidden: float  # share of the waits that jobs hide, 0 to 1


TIME_SLICED = Sharing(capacity=1.1, hidden=0.5)
MPS = Sharing(capacity=1.4, hidden=0.6)

# By how much a member's predicted share is off on average. Without MPS it is what the table says;
# with MPS, where members were measured in few groups, a figure on the safe side.
_DOUBTS = {False: 0.08, True: 0.15}
_BESIDE_STEPS = 20  # a busy share that is worked out has such steps


def predict(loads: Sequence[Alone], mps: bool = False) -> tuple[float, ...]:
    """The share of its speed alone that each job keeps in this group, from 0 to 1.

    A job whose busy share is not known is taken to keep its device busy all the time.
    """
    return shares([_busy(load) for load in loads], MPS if mps else TIME_SLICED)


def busy_beside(
    others: Sequence[tuple[float, float | None]], unknown: int = 1, *, mps: bool
) -> float:
    """The busy share alone of jobs that are only known by what they cost others.

    others: the busy share alone of each, and the share of its speed that it keeps beside them, if
    that is known. unknown: so many there are; they count as equal.
    """
    busy = [each for each, _ in others]
    sharing = MPS if mps else TIME_SLICED

    def off(own: float) -> float:
        found = shares([*busy, *(own,) * unknown], sharing)
        pairs = zip(found, others, strict=False)
        return sum((share - kept) ** 2 for share, (_, kept) in pairs if kept is not None)

    return min((step / _BESIDE_STEPS for step in range(_BESIDE_STEPS + 1)), key=off)


def doubt(*, mps: bool) -> float:
    """By how much a member's share of its speed alone may be off."""
    return _DOUBTS[mps]


def shares(busy: Sequence[float], sharing: Sharing) -> tuple[float, ...]:
    """The same from busy shares alone, for any two numbers."""
    assert len(busy) <= MEMBERS_MAX, f"at most {MEMBERS_MAX} jobs share a device, not {len(busy)}"
    if len(busy) < 2:
        return (1.0,) * len(busy)
    hiding = _hiding(busy, sharing.capacity)
    waiting = _waiting(busy) if sharing.hidden < 1 else hiding
    return tuple(
        1.0 / (sharing.hidden / best + (1.0 - sharing.hidden) / worst)
        for best, worst in zip(hiding, waiting, strict=True)
    )


def _busy(load: Alone) -> float:
    busy = load.busy if isinstance(load, Load) else load[0]
    return 1.0 if busy is None else min(max(busy, 0.0), 1.0)


def _hiding(busy: Sequence[float], capacity: float) -> list[float]:
    """Shares of a device's time, none above need, for jobs that never wait for a result."""
    found = [1.0] * len(busy)
    left, users = capacity, len(busy)
    for member in sorted(range(len(busy)), key=busy.__getitem__):
        given = min(busy[member], left / users)
        left, users = left - given, users - 1
        if busy[member] > 0:
            found[member] = given / busy[member]
    return found


def _waiting(busy: Sequence[float]) -> list[float]:
    """Mean value analysis with one resource and short turns; a group is a bit mask."""
    members = range(len(busy))
    presence: list[list[float]] = [[0.0] * len(busy)]  # of each member, by group
    times = [1.0] * len(busy)
    for group in range(1, 1 << len(busy)):
        there = [0.0] * len(busy)
        for member in members:
            if group >> member & 1:
                wait = busy[member] * sum(presence[group ^ 1 << member])
                times[member] = 1.0 + wait
                there[member] = (busy[member] + wait) / times[member]
        presence.append(there)
    return [1.0 / time for time in times]
