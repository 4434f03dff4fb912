"""What led to a change: who asked for it, who let go of the devices, who gets them.

Only what is known is said. A change that follows from none of it, such as a turn that ends by the
clock, has no cause here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from treadle.core.events import (
    AttemptEnded,
    DeviceOpened,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStopped,
    JobSubmitted,
    JobUpdated,
    NodeJoined,
)
from treadle.core.job import JobId
from treadle.core.reasons import Reason, because
from treadle.wire.decisions import DecisionChange

NAMED_MAX = 3
ENDS = (AttemptEnded, JobStopped, JobFinished, JobFailed)
# What asks for a change of the job that it is about, and what lets go of devices.
_ASKS = (JobSubmitted, JobCancelled, JobHeld, JobReleased, JobUpdated, *ENDS)
_LEAVES = (*ENDS, JobCancelled, JobHeld)


class Happened(NamedTuple):
    """Something that happened before a decision."""

    text: str
    asks: JobId = ""  # the job that it asks something for
    frees: frozenset[str] = frozenset()  # devices, by name


def happened(event: Event, text: str, job: JobId, held: Iterable[str]) -> Happened:
    """held: what the job that it is about has, or had until it ended."""
    frees = frozenset(held if isinstance(event, _LEAVES) else ())
    if isinstance(event, DeviceOpened):
        frees = frozenset(map(str, event.devices))
    elif isinstance(event, NodeJoined):
        frees = frozenset(f"{event.node.name}:{n}" for n in range(event.node.device_count))
    return Happened(text, job if isinstance(event, _ASKS) else "", frees)


class Swaps(NamedTuple):
    """Devices, by name, that a decision takes from a job or gives to one."""

    givers: Mapping[str, JobId]
    takers: Mapping[str, JobId]


def swaps_of(changes: Iterable[DecisionChange]) -> Swaps:
    givers: dict[str, JobId] = {}
    takers: dict[str, JobId] = {}
    for change in changes:
        givers |= dict.fromkeys(set(change.before).difference(change.after), change.job)
        takers |= dict.fromkeys(set(change.after).difference(change.before), change.job)
    return Swaps(givers, takers)


def cause(
    change: DecisionChange,
    before: Sequence[Happened],
    swaps: Swaps,
    *,
    for_job: JobId = "",
    turn: bool = False,
    policy: str = "",
) -> Reason:
    """for_job: for whom, as the policy says. turn: it had a reservation. policy: it is new."""
    gained = [name for name in change.after if name not in change.before]
    lost = [name for name in change.before if name not in change.after]
    takers = dict.fromkeys([for_job] if for_job else (swaps.takers.get(name, "") for name in lost))
    return because(
        "changed",
        asked=tuple(dict.fromkeys(each.text for each in before if each.asks == change.job)),
        freed=tuple(each.text for each in before if each.frees.intersection(gained))[:NAMED_MAX],
        from_jobs=tuple(dict.fromkeys(swaps.givers[n] for n in gained if n in swaps.givers)),
        to_jobs=tuple(name for name in takers if name),
        turn=turn,
        policy=policy,
    )
