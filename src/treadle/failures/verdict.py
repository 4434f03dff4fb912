"""The verdict of a classification, and the exit status it is based on."""

import signal
from enum import StrEnum
from typing import Literal

from treadle.core.errors import InvalidInputError
from treadle.core.value import value

Elsewhere = Literal["", "node", "device"]
KNOWN_REASONS = ("oom-killed", "preempted", "time-limit", "node-lost", "cancelled")
_SIGNAL_BASE = 128
_SIGNAL_MAX = 64


class Kind(StrEnum):
    """What a retry would do."""

    DETERMINISTIC = "deterministic"  # Fail the same way.
    TRANSIENT = "transient"  # Probably not fail the same way.
    RESOURCE = "resource"  # Fail the same way unless it gets more of a resource.
    UNKNOWN = "unknown"  # The log does not say.


@value
class Advice:
    """Whether to retry, and with what changes."""

    retry: bool
    elsewhere: Elsewhere = ""  # What to avoid: the node or device of the failed attempt.
    more: str = ""  # What to give more of: gpu memory, disk, time ...

    def __str__(self) -> str:
        if not self.retry:
            return "do not retry"
        where = {"": "", "node": " on another node", "device": " on other devices"}
        return "retry" + where[self.elsewhere] + (f" with more {self.more}" if self.more else "")


@value
class Evidence:
    """The line that decided, and where to find it."""

    text: str
    line_from_end: int = 0  # 1 is the last line of the log; 0 if it is not a log line.
    source: str = ""  # The rank of the log, if there were several.


@value
class Verdict:
    kind: Kind
    rule: str
    sentence: str
    advice: Advice
    evidence: Evidence | None = None


@value
class Exit:
    """How the process ended; `known_reason` is what the engine knows beyond the exit status."""

    code: int | None = None
    signal: str = ""
    known_reason: str = ""

    def __post_init__(self) -> None:
        if self.known_reason and self.known_reason not in KNOWN_REASONS:
            raise InvalidInputError(
                f"unknown exit reason {self.known_reason!r}; "
                f"expected one of {', '.join(KNOWN_REASONS)}"
            )

    @classmethod
    def of(cls, code: int, known_reason: str = "") -> "Exit":
        """From a status as shells (128 + n) or Python's subprocess (-n) write it."""
        number = -code if code < 0 else code - _SIGNAL_BASE
        if 0 < number <= _SIGNAL_MAX:
            try:
                return cls(None, signal.Signals(number).name, known_reason)
            except ValueError:
                return cls(code, "", known_reason)
        return cls(code, "", known_reason)

    @classmethod
    def by(cls, name: str, known_reason: str = "") -> "Exit":
        """From a signal's name or number: SIGKILL, KILL, kill, 9."""
        if name.isascii() and name.isdigit() and len(name) < 4:
            ended = cls.of(-int(name), known_reason)
            if ended.signal:
                return ended
        full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
        if full not in signal.Signals.__members__:
            raise InvalidInputError(f"{name!r} is no signal; expected a name such as SIGKILL")
        return cls(None, signal.Signals[full].name, known_reason)

    @property
    def well(self) -> bool:
        return self.code == 0 and not self.known_reason

    @property
    def names(self) -> tuple[str, ...]:
        """The values of a rule's `exit` field that match this exit."""
        code = "" if self.code is None else str(self.code)
        return tuple(name for name in (self.known_reason, self.signal, code) if name)

    def __str__(self) -> str:
        ended = f"signal {self.signal}" if self.signal else f"exit status {self.code}"
        if self.signal == "" and self.code is None:
            return self.known_reason or "no exit status"
        return f"{ended}, {self.known_reason}" if self.known_reason else ended
