"""What caused a change, where the policy does not say: who asked, and who let go of the devices.

Only what is known is said. A change that follows from none of it, such as a turn that ends by the
clock, has no cause here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from treadle.core.wording import devices, named_jobs
from treadle.wire.decisions import DecisionChange

NAMED_MAX = 3
# What asks for a change of the job that it is about.
ASKS = (
    JobSubmitted,
    JobCancelled,
    JobHeld,
    JobReleased,
    JobUpdated,
    AttemptEnded,
    JobStopped,
    JobFailed,
)
ENDS = (AttemptEnded, JobStopped, JobFinished, JobFailed)


class Happened(NamedTuple):
    """Something that happened before a decision."""

    text: str
    asks: JobId = ""  # the job that it asks something for
    frees: frozenset[str] = frozenset()  # devices, by name


def happened(event: Event, text: str, job: JobId, held: Iterable[str]) -> Happened:
    """held: what the job that it is about has, or had until it ended."""
    match event:
        case DeviceOpened():
            frees = frozenset(map(str, event.devices))
        case NodeJoined():
            frees = frozenset(f"{event.node.name}:{n}" for n in range(event.node.device_count))
        case _:
            leaves = (*ENDS, JobCancelled, JobHeld)
            frees = frozenset(held if isinstance(event, leaves) else ())
    return Happened(text, job if isinstance(event, ASKS) else "", frees)


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


def cause(change: DecisionChange, before: Sequence[Happened], swaps: Swaps) -> str:
    """What led to a change, in one sentence; empty: it is not known."""
    return "; ".join(dict.fromkeys(_clauses(change, before, swaps)))


def _clauses(change: DecisionChange, before: Sequence[Happened], swaps: Swaps) -> Iterator[str]:
    yield from (each.text for each in before if each.asks == change.job)
    gained = [name for name in change.after if name not in change.before]
    yield from [each.text for each in before if each.frees.intersection(gained)][:NAMED_MAX]
    if givers := _jobs(gained, swaps.givers):
        verb = "makes" if len(givers) == 1 else "make"
        yield f"{named_jobs(givers, NAMED_MAX)} {verb} way"
    lost = [name for name in change.before if name not in change.after]
    if takers := _jobs(lost, swaps.takers):
        verb = "gets" if len(takers) == 1 else "get"
        count = sum(name in swaps.takers for name in lost)
        yield f"{named_jobs(takers, NAMED_MAX)} {verb} {devices(count)} that it had"


def _jobs(names: Iterable[str], among: Mapping[str, JobId]) -> list[JobId]:
    return list(dict.fromkeys(among[name] for name in names if name in among))
