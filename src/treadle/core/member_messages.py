"""What a coordinator and the members of an attempt say to each other, one JSON line each.

A member is one process of an attempt, "m0", "m1", ...; a name is never used twice within an
attempt. A version is the number of one process group: each group that is formed has a new one.
A step is the number of optimizer steps that a member has applied.

Rules for both sides: a line has at most `LINE_BYTES_MAX` bytes; keys and kinds that are not known
are ignored, so that an old library understands a newer coordinator.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

LINE_BYTES_MAX = 1 << 16
Member = str


def member_name(number: int, term: int = 0) -> Member:
    """Of the so many-th that a coordinator launches, from 0 on. term: 0 for the first of all."""
    return f"m{term}.{number}" if term else f"m{number}"


# -- from the coordinator to a member ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """Answer `At` at once, and begin no step beyond the next one before you hear more."""

    version: int


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop at this step and answer `Arrived`; None: cut the step in flight and stop now.

    A member that has only a part of the state ends if it is halted now: it cannot go on from there.
    """

    version: int
    at_step: int | None = None
    carry: bool = False  # save the state first, all members together: the plan is split or will be


@dataclass(frozen=True, slots=True)
class Form:
    """Leave the old group and form this one."""

    version: int
    members: tuple[Member, ...]  # in rank order
    source: Member  # whose state counts
    receivers: tuple[Member, ...]  # who needs that state; the others have the same already
    rendezvous: str  # "tcp:HOST:PORT/NAME"
    plan: str = ""  # as in core/plan.py
    carried: str = ""  # the folder with the state, if the old members saved it


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Forget `Prepare` and `Halt` of this version and train on, in the same group."""

    version: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave at this step, or now; `save`: write a checkpoint first, the attempt has to stop."""

    version: int
    at_step: int | None = None
    stop: bool = False  # the whole attempt stops: its exit code says so
    save: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """All members have finished training: the process may end."""


# -- from a member to the coordinator ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The library runs in this process; `can`: what it can change while it trains."""

    can: tuple[str, ...] = ()
    timeout_s: float = 60.0  # how long its collectives wait for each other
    python: str = ""  # the interpreter it runs in


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is built and warmed up; the member waits for `Form`."""


@dataclass(frozen=True, slots=True)
class At:
    """The answer to `Prepare`: steps applied so far; at most one more will be."""

    version: int
    step: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """The answer to `Halt`: stopped after this step; None: the member has no state."""

    version: int
    step: int | None = None
    carried: str = ""  # the folder in which the state was saved
    problem: str = ""  # why it could not be


@dataclass(frozen=True, slots=True)
class Switched:
    """The group of this version stands and has one state; the first step follows."""

    version: int
    step: int
    stall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Broken:
    """A collective of this version failed."""

    version: int
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The training loop is over; the member waits for `Done`."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The member got the stop signal and asks that all stop together."""


Order = Prepare | Halt | Form | Cancelled | Leave | Done
Answer = Hello | Ready | At | Arrived | Switched | Broken | Finished | StopAsked
Message = Order | Answer

_KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """The message as a line."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """The message of a line; None if its kind is not known; ValueError if it is malformed."""
    if len(line) > LINE_BYTES_MAX:
        raise ValueError(f"a line of {len(line)} bytes; at most {LINE_BYTES_MAX} are allowed")
    try:
        document = json.loads(line)
    except RecursionError:
        raise ValueError("a message that is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError(f"a message is a JSON object, not {document!r}")  # noqa: TRY004
    kind = _KINDS.get(str(document.get("kind")))
    if kind is None:
        return None
    given: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in document:
            given[field.name] = _checked(field.name, field.type, document[field.name])
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None


def _checked(name: str, kind: object, value: Any) -> Any:  # noqa: ANN401
    if kind == tuple[str, ...] and isinstance(value, list):
        value = tuple(value)
        ok = all(isinstance(each, str) for each in value)
    elif kind is float:
        ok = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind is int or kind == int | None:
        ok = type(value) is int or (value is None and kind is not int)
    else:
        ok = isinstance(kind, type) and isinstance(value, kind)
    if not ok:
        raise ValueError(f"{name} is {value!r}, which is no {kind}")
    return value
