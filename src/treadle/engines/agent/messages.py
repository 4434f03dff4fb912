"""What a controller and the agents of its nodes say to each other, as JSON documents.

A call is a verb and a document of the type that stands beside it in `VERBS`; its answer is a
document of the second type, in an envelope that may hold an error instead. The types of the core
cross as they are. Facts and orders carry the name of their class.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from treadle.core import actions, events
from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import DeviceClosed, Event
from treadle.core.job import JobId
from treadle.core.job_report import JobReport
from treadle.core.launch import AttemptId, Launch, Part
from treadle.core.lifecycle import Phase
from treadle.core.machine import (
    DeviceOrder,
    Leftovers,
    Measurement,
    NodeOrder,
    NodeView,
    Output,
)
from treadle.engines.agent.copies import copy_messages
from treadle.engines.agent.copies.tree import ChangedError
from treadle.engines.agent.errors import LostPlaceError, StaleEpochError, UnconfirmedError

Document = TypeVar("Document")


# -- facts and orders -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Named:
    """A fact or an order, with the name of its class."""

    kind: str
    body: msgspec.Raw


_FACTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(events.JobStarted, events.TrainingEnded, events.RankReplaced, events.AttemptEnded),
        *(events.NodeJoined, events.NodeDrained, events.DeviceClosed, events.DeviceOpened),
    )
}
_ACTIONS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (actions.Start, actions.Change, actions.Stop)
}


def named(value: Event | Action) -> Named:
    return Named(type(value).__name__, msgspec.Raw(msgspec.json.encode(value)))


def fact_of(found: Named) -> Event:
    fact: Event = msgspec.json.decode(found.body, type=_FACTS[found.kind])
    return fact


def action_of(found: Named) -> Action:
    action: Action = msgspec.json.decode(found.body, type=_ACTIONS[found.kind])
    return action


# -- documents ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """How to launch a job for an order."""

    action: int
    launch: Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Where a job stands on one node, as far as its agent must know (core.job.Job)."""

    job: JobId
    phase: Phase
    allocation: Allocation | None
    action: int
    hold: int  # the order that began its present hold


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
    """Begin a session: `Engine.adopt` of one node."""

    epoch: int
    rows: tuple[Row, ...] = ()
    attempts: tuple[AttemptId, ...] = ()
    closed: tuple[DeviceClosed, ...] = ()
    launches: tuple[Ordered, ...] = ()
    # Further launches were sent before, in this many batches under this name (`Announce`).
    batches: int = 0
    named: str = ""
    # A file that the controller wrote, and what is in it: an agent that reads the same shares the
    # controller's folder of checkpoints.
    shared: str = ""
    probe: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Launches of a `TakeCharge` that follows: more than one message holds (batches.py)."""

    epoch: int
    named: str
    batch: int  # from 0; one that comes again replaces itself
    launches: tuple[Ordered, ...]


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
    root: str = ""  # where they do, on that node


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    session: str
    number: int  # of this batch; one that was carried out is not carried out again
    actions: tuple[Named, ...]
    launches: tuple[Ordered, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Whether a part could be launched at once."""

    session: str
    order: int
    job: JobId
    allocation: Allocation
    wait_s: float = 0.0  # for its devices to become free


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    free: bool
    objection: str = ""  # why nothing may be launched there
    port: int = 0  # a free one of the node's address


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
    facts: tuple[Named, ...]
    upto: int  # the number of the last one
    view: NodeView
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
    node: str
    order: NodeOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAsked:
    session: str
    job: JobId


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
    "tidy": (JobAsked, Leftovers),
    "discard": (JobAsked, Leftovers),
    **copy_messages.VERBS,
}


# -- the envelope ---------------------------------------------------------------------------------

_NOTHING = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class Envelope:
    answer: msgspec.Raw
    # "invalid", "stale", "place", "unconfirmed", "changed" or "engine"; empty: it is an answer
    error: str = ""
    message: str = ""
    retryable: bool = False
    epoch: int = 0  # of the later controller, if it is stale


def encode(document: object) -> bytes:
    return msgspec.json.encode(document)


def decode(data: bytes, kind: type[Document]) -> Document:
    return msgspec.json.decode(data, type=kind)


def answer(document: object) -> bytes:
    return encode(Envelope(msgspec.Raw(encode(document))))


def refusal(error: Exception) -> bytes:
    """An error as an answer."""
    match error:
        case InvalidInputError():
            return encode(Envelope(_NOTHING, "invalid", str(error)))
        case StaleEpochError():
            return encode(Envelope(_NOTHING, "stale", str(error), epoch=error.epoch))
        case LostPlaceError():
            return encode(Envelope(_NOTHING, "place", str(error), True))
        case UnconfirmedError():
            return encode(Envelope(_NOTHING, "unconfirmed", str(error), True))
        case ChangedError():
            return encode(Envelope(_NOTHING, "changed", str(error)))
        case EngineError():
            return encode(Envelope(_NOTHING, "engine", str(error), error.retryable))
        case _:
            return encode(Envelope(_NOTHING, "engine", f"the agent failed: {error!r}"))


def opened(data: bytes, kind: type[Document]) -> Document:
    """What an agent answered. Raises its error as it was raised there."""
    envelope = decode(data, Envelope)
    match envelope.error:
        case "invalid":
            raise InvalidInputError(envelope.message)
        case "stale":
            raise StaleEpochError(envelope.message, envelope.epoch)
        case "place":
            raise LostPlaceError(envelope.message)
        case "unconfirmed":
            raise UnconfirmedError(envelope.message)
        case "changed":
            raise ChangedError(envelope.message)
        case "engine":
            raise EngineError(envelope.message, retryable=envelope.retryable)
        case _:
            return decode(envelope.answer, kind)
