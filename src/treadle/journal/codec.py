"""Encode events and actions as JSON lines and decode them, with the same types as the core.

A line is an object with `at` (seconds), `kind` (the class name), `line` (its number in the file
from 1, so that a lost line is detected) and the fields of the class. JSON has no infinity, so an
infinite number is written as null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from math import inf, isfinite
from types import MappingProxyType

import msgspec

from treadle.core import actions, events
from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError, PolicyError
from treadle.core.events import Event
from treadle.journal import facts
from treadle.journal.facts import RecordFact

FORMAT = 2
LINE_MAX = 16 * 2**20  # bytes; a job of a million devices stays below


@dataclass(frozen=True, slots=True)
class Opened:
    """The first line: the format, and the cluster and settings at the start."""

    version: str
    cluster: Cluster
    settings: Mapping[str, object]
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Decided:
    """The policy decided; `wake_at` is when it wants to decide again, if ever.

    `held_back` counts the jobs, by asked size, that wait because of other tenants' shares. Only
    the policy knows this, and only at that moment, so it is recorded here.
    """

    wake_at: float | None
    held_back: tuple[tuple[int, int], ...] = ()

    @property
    def moment(self) -> float:
        return inf if self.wake_at is None else self.wake_at


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The policy changed."""

    policy: str
    placement: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A note for people; replay ignores it."""

    what: str  # one word or two: "policy failed", "controller started"
    text: str


Line = Opened | Decided | PolicySet | Noted | RecordFact | Event | Action

# Fields that earlier versions wrote, and nothing reads any more.
_FORMER: Mapping[type, tuple[str, ...]] = {events.AttemptEnded: ("changed",)}

_KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        Opened,
        Decided,
        PolicySet,
        Noted,
        events.JobSubmitted,
        events.JobCancelled,
        events.JobHeld,
        events.JobReleased,
        events.JobUpdated,
        events.JobsLearned,
        events.JobStarted,
        events.JobPaused,
        events.JobProgressed,
        events.TrainingEnded,
        events.RankReplaced,
        events.JobStopped,
        events.JobFinished,
        events.JobFailed,
        events.AttemptEnded,
        events.NodeJoined,
        events.NodeLost,
        events.NodeDrained,
        events.DeviceClosed,
        events.DeviceOpened,
        facts.ControllerBegan,
        facts.ScriptForgotten,
        facts.JobAccepted,
        facts.JobEdited,
        facts.DependencyBroken,
        facts.DependenciesDropped,
        actions.Start,
        actions.Change,
        actions.Stop,
    )
}

# Fields that a line has only where they say something; a simulation writes none of them.
_LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "JobCancelled": ("by",),
    "JobHeld": ("how", "by"),
    "JobStarted": (
        *("changes", "attempt", "started_at", "stall_s", "refused", "kept_on", "workdirs"),
        *("pauses", "took_s"),
    ),
    "JobPaused": ("attempt", "memory_gib", "took_s", "refused"),
    "JobProgressed": ("progress",),
    "NodeLost": ("why",),
    "DeviceClosed": ("cause", "also"),
    "DeviceOpened": ("also",),
    "AttemptEnded": ("memory_peak_gib", "memory_kills", "mps_failed", "node_lost", "only_because"),
    "Start": ("beside",),
    "Change": ("beside", "for_job"),
    "Stop": ("for_job",),
}
_DEFAULTS = {
    kind: tuple(
        (field.name, msgspec.to_builtins(field.default))
        for field in dataclass_fields(_KINDS[kind])
        if field.name in names
    )
    for kind, names in _LEFT_OUT.items()
}
_LEFT_OUT_OF_SPEC = ("host_memory_gib", "host_cores", "ousted_by", "nodes", "pauses")
_LEFT_OUT_OF_PROFILE = ("cores", "lead")
_encoder = msgspec.json.Encoder()


def decided(wake_at: float, held_back: Mapping[int, int] = MappingProxyType({})) -> Decided:
    return Decided(wake_at if isfinite(wake_at) else None, tuple(sorted(held_back.items())))


def encode(at: float, line: Line, *, number: int = 0) -> bytes:
    """One line, without a newline; a line number of 0 is not written."""
    head: dict[str, object] = {"at": at, "kind": type(line).__name__}
    numbered = {"line": number} if number else {}
    fields = msgspec.to_builtins(line)
    for name, default in _DEFAULTS.get(type(line).__name__, ()):
        if fields[name] == default:
            del fields[name]
    if isinstance(held := fields.get("allocation"), dict) and not held["paused"]:
        del held["paused"]
    if isinstance(spec := fields.get("spec"), dict):
        for name in _LEFT_OUT_OF_SPEC:
            if not spec.get(name):
                spec.pop(name, None)
        if spec.get("preemptible"):
            del spec["preemptible"]
        for name in _LEFT_OUT_OF_PROFILE:
            if spec["profile"].get(name) in (None, ""):
                spec["profile"].pop(name, None)
    return _encoder.encode({**head, **numbered, **fields})


def decode(text: bytes, *, number: int = 0) -> tuple[float, Line]:
    """The time and the value of a line; raises InvalidInputError for an invalid line.

    A line with a number other than the one given is invalid too.
    """
    try:
        fields = msgspec.json.decode(text, type=dict[str, object])
        at = msgspec.convert(fields.pop("at", None), float)
        written = msgspec.convert(fields.pop("line", number), int)
        if number and written != number:
            raise InvalidInputError(
                f"it was written as line {written}; lines before it were removed or added"
            )
        kind = _KINDS.get(str(fields.pop("kind", None)))
        if kind is None:
            raise InvalidInputError(f"expected a kind among {', '.join(_KINDS)}")
        for former in _FORMER.get(kind, ()):
            fields.pop(former, None)
        unknown = fields.keys() - {known.name for known in dataclass_fields(kind)}
        if unknown:
            raise InvalidInputError(f"{kind.__name__} has no field {min(unknown)!r}")
        return at, msgspec.convert(fields, kind)
    except (msgspec.MsgspecError, PolicyError, RecursionError) as error:
        raise InvalidInputError(str(error)) from None
