"""What a controller and the agents of its nodes say to each other.

A call is a verb and a document of the type that stands beside it in `VERBS`; its answer is a
document of the second type. In one process they are handed over as they are; wire.py has their form
on the way to another machine.
"""

from dataclasses import dataclass
from typing import Any

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed, Event
from treadle.core.job import JobId
from treadle.core.job_report import JobReport
from treadle.core.launch import AttemptId, Launch, Part
from treadle.core.machine import (
    DeviceOrder,
    Leftovers,
    Measurement,
    NodeOrder,
    NodeView,
    Output,
)

# -- facts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """An attempt goes on as it was: it could not change while it runs."""

    job: JobId
    action: int  # the order to change it
    attempt: int
    changes: tuple[str, ...]  # what it can change
    why: str = ""  # empty: it cannot go on under that order, or does not answer
    started_at: float | None = None


Fact = Event | Refused


# -- documents ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to become of one attempt on a node, as its newest order says."""

    attempt: AttemptId
    action: int  # that order
    allocation: Allocation | None  # None: it is to end
    launch: Launch | None = None  # how to begin it, or to change it
    told: bool = False  # its start under that order was reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What has become of these attempts, and what else runs."""

    epoch: int
    attempts: tuple[AttemptId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAttempt:
    """An attempt on the disk of a node."""

    id: AttemptId
    alive: bool
    action: int  # the newest order that it was launched or changed for
    never_was: bool  # its folder was made, and nothing ran there
    ended: bool = False  # and how is written down there
    changes: tuple[str, ...] = ()  # what it can change while it runs
    part: Part | None = None
    holds: Allocation | None = None  # of that node, if it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    found: tuple[FoundAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCharge:
    """Begin a session: what runs there and is not named here is stopped."""

    epoch: int
    wanted: tuple[Wanted, ...] = ()
    over: tuple[AttemptId, ...] = ()  # the controller has not seen their ends
    closed: tuple[DeviceClosed, ...] = ()
    announced: int = 0  # so many more are wanted, which were sent before (`Announce`)
    # A file that the controller wrote, and what is in it: an agent that reads the same shares the
    # controller's folder of checkpoints.
    shared: str = ""
    probe: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """A part of a `TakeCharge` that follows: more than one message holds (batches.py)."""

    epoch: int
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """They are kept until a `TakeCharge` comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Done; facts up to this number say what came of it."""

    session: str
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """The answer to taking charge."""

    session: str
    upto: int  # facts up to this number say what the node had
    shared: bool  # its jobs keep their checkpoints in the controller's folder
    failover_s: float | None = None  # its jobs may go on so long without contact; None: for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    session: str
    number: int  # of this batch; one that was carried out is not carried out again
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Whether a part could be launched at once."""

    session: str
    allocation: Allocation | None  # None: only ports are asked for
    wait_s: float = 0.0  # for its devices to become free


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    free: bool
    objection: str = ""  # why nothing may be launched there
    port: int = 0  # a free one of the node's address
    lead_port: int = 0  # another one


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneAsked:
    """Of which of these jobs nothing is left there (lost_parts.py)."""

    session: str
    jobs: tuple[JobId, ...]
    wait_s: float = 0.0  # for the first of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    jobs: tuple[JobId, ...]  # nothing of them runs, nor will before it is ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsAsked:
    session: str
    after: int  # all up to this one have been taken
    wait_s: float
    reports_after: int = 0  # the same of reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """The cluster has not confirmed the node for long: nothing is begun there."""

    why: str  # as far as the agent knows
    for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsGiven:
    facts: tuple[Any, ...]  # of `Fact`
    upto: int  # the number of the last one
    view: NodeView | None  # None: as it was said last, but for the jobs
    measurements: tuple[Measurement, ...]
    now: float  # by the agent's clock, as `Measurement.at` and `JobReport.at`
    reports: tuple[JobReport, ...] = ()  # the newest of each job
    reports_upto: int = 0
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAsked:
    attempt: AttemptId
    rank: int  # on that node
    offset: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputGiven:
    output: Output
    over: bool  # no more will be written


@dataclass(frozen=True, slots=True, kw_only=True)
class WhereAsked:
    attempt: AttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    there: bool
    part: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAsked:
    session: str
    device: Device
    order: DeviceOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAsked:
    session: str
    order: NodeOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Whether a node sees a folder; if not, a piece of the archive that it needs in its place."""

    session: str
    path: str
    digest: str = ""  # of the archive; empty: there is none
    size: int = 0
    offset: int = 0  # of the piece
    data: bytes = b""
    uid: int | None = None  # for whom it is unpacked
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTaken:
    sees: bool = False
    has: int = 0  # bytes of the archive that have come
    folder: str = ""  # where it is unpacked


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAsked:
    session: str
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsLeft:
    left: tuple[Leftovers, ...]  # of each of the jobs


VERBS: dict[str, tuple[type[Any], type[Any]]] = {
    "survey": (Survey, Surveyed),
    "announce": (Announce, Announced),
    "take-charge": (TakeCharge, Charged),
    "orders": (Orders, Answered),
    "prepare": (Prepare, Prepared),
    "gone": (GoneAsked, Gone),
    "facts": (FactsAsked, FactsGiven),
    "output": (OutputAsked, OutputGiven),
    "where": (WhereAsked, Whereabouts),
    "order-device": (DeviceAsked, Answered),
    "order-node": (NodeAsked, Answered),
    "tidy": (JobsAsked, JobsLeft),
    "discard": (JobsAsked, JobsLeft),
    "archive": (Archive, ArchiveTaken),
}
