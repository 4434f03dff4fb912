"""The table of failure signatures: shipped in rules.yaml, extended or overridden by users.

    - name: quota-service          # the name of a shipped rule replaces that rule
      class: transient             # deterministic, transient, resource or unknown
      level: cause                 # cause (default), error, death, symptom or echo
      exception: ["TimeoutError: *quota"]    # TYPE or TYPE: PATTERN, for raised exceptions
      line: ["quota service * unavailable"]  # PATTERN, for any other line
      exit: [SIGXCPU, 42]          # signals, exit codes, or oom-killed, preempted, node-lost ...
      says: The quota service did not answer; a later try may do.
      retry: true                  # default true; false for deterministic
      elsewhere: node              # node or device: avoid where it ran
      more: disk                   # required for resource: what to give more of
    - name: diverged
      off: true                    # drops a shipped rule

A pattern is literal text with `*` for anything within the line; it is never a regular expression
(`pattern.py` says why). Upper and lower case differ.

A failure leaves many messages, and most are consequences. The level says how near to the cause a
message is. The verdict is the nearest message, the earliest among equals:

    cause    says what went wrong: CUDA out of memory, a shape that does not fit
    error    an exception of a general type: KeyError
    death    a process died by a signal, and nothing says why
    symptom  something that other failures also cause: NCCL timed out
    (exit)   the exit status, where a rule's `exit` names it
    echo     a launcher says that something failed

A reason that the engine knows (`Exit.known_reason`) is nearer than all of them.
"""

import signal
from enum import IntEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml

from treadle.core.errors import InvalidInputError
from treadle.core.value import value
from treadle.core.wording import mismatch
from treadle.failures.pattern import Pattern
from treadle.failures.verdict import KNOWN_REASONS, Advice, Kind

_TEXT_MAX = 256 << 10
_RULES_MAX = 500


class Level(IntEnum):
    """How near a message is to the cause; higher is nearer."""

    ECHO = 0
    EXIT = 1
    SYMPTOM = 2
    DEATH = 3
    ERROR = 4
    CAUSE = 5
    KNOWN = 6


@value
class Raised:
    """An exception by its type, and by its message if the rule names one."""

    type: str  # With its module if it has a dot; "*" is any.
    message: Pattern | None

    def matches(self, name: str, message: str) -> bool:
        if self.type not in ("*", name, name.rpartition(".")[2]):
            return False
        return self.message is None or self.message.matches(message)


@value
class Rule:
    name: str
    kind: Kind
    level: Level
    sentence: str
    advice: Advice
    raised: tuple[Raised, ...] = ()
    lines: tuple[Pattern, ...] = ()
    exits: tuple[str, ...] = ()


@value
class RuleTable:
    """Rules by name; if two match the same line at the same level, the first one wins."""

    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, path: Path | str) -> "RuleTable":
        """The shipped rules with a user's file before them."""
        return shipped().extended(*_file(Path(path)))

    def extended(self, name: str, text: str) -> "RuleTable":
        """These rules with those of a text before them; errors mention `name`."""
        if len(text) > _TEXT_MAX:
            raise InvalidInputError(f"{name} is larger than {_TEXT_MAX:,} characters")
        written = _written(name, text, loader=yaml.BaseLoader)
        known = {rule.name for rule in self.rules}
        for one in written:
            if one.off and one.name not in known:
                raise InvalidInputError(
                    f"{name}: rule {one.name!r} is switched off, but no shipped rule has that name "
                    "(see treadle classify --list-rules)"
                )
        added = [_rule(name, one) for one in written if not one.off]
        gone = {one.name for one in written}
        return RuleTable((*added, *(rule for rule in self.rules if rule.name not in gone)))


@cache
def shipped() -> RuleTable:
    """The rules that come with Treadle."""
    text = resources.files("treadle.failures").joinpath("rules.yaml").read_text("utf-8")
    # The C loader needs a tenth of the time. It recurses on the C stack, so it is not safe for
    # users' files.
    fast = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    written = _written("rules.yaml", text, loader=fast)
    return RuleTable(tuple(_rule("rules.yaml", one) for one in written))


def _file(path: Path) -> tuple[str, str]:
    try:
        with path.open("rb") as handle:
            data = handle.read(_TEXT_MAX + 1)
        return str(path), data.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInputError(f"cannot read the rules {path}: {reason}") from None


_Name = Annotated[str, msgspec.Meta(pattern=r"^[\w-]{1,60}$")]
_Texts = str | Annotated[list[str], msgspec.Meta(max_length=50)]


class _Written(msgspec.Struct, forbid_unknown_fields=True, rename={"kind": "class"}):
    """A rule as its file has it."""

    name: _Name
    kind: Kind | None = None
    level: Literal["cause", "error", "death", "symptom", "echo"] = "cause"
    exception: _Texts = msgspec.field(default_factory=list)
    line: _Texts = msgspec.field(default_factory=list)
    exit: _Texts = msgspec.field(default_factory=list)
    says: Annotated[str, msgspec.Meta(max_length=400)] = ""
    retry: bool | None = None
    elsewhere: Literal["", "node", "device"] = ""
    more: str = ""
    off: bool = False


def _written(name: str, text: str, *, loader: type) -> list[_Written]:
    try:
        # All values as text: an exit status is one, and what is a flag its field says.
        found = yaml.load(text, Loader=loader)
        written = msgspec.convert(found or [], list[_Written], strict=False)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(f"{name} is no table of rules: {mismatch(str(error))}") from None
    if len(written) > _RULES_MAX:
        raise InvalidInputError(f"{name} holds {len(written):,} rules; {_RULES_MAX} are the limit")
    names = [one.name for one in written]
    if twice := next((one for one in names if names.count(one) > 1), ""):
        raise InvalidInputError(f"{name}: two rules are called {twice}; keep one")
    return written


def _rule(file: str, written: _Written) -> Rule:
    try:
        return _checked(written)
    except InvalidInputError as error:
        raise InvalidInputError(f"{file}: rule {written.name}: {error}") from None


def _checked(written: _Written) -> Rule:
    kind = written.kind
    if kind is None or not written.says.strip():
        raise InvalidInputError("class and says are required")
    if (kind is Kind.RESOURCE) != bool(written.more):
        raise InvalidInputError(
            "more is required for class resource and not allowed for others: name what to raise"
        )
    retry = kind is not Kind.DETERMINISTIC if written.retry is None else written.retry
    rule = Rule(
        name=written.name,
        kind=kind,
        level=Level[written.level.upper()],
        sentence=written.says.strip(),
        advice=Advice(retry, written.elsewhere, written.more),
        raised=tuple(_raised(text) for text in _listed(written.exception)),
        lines=tuple(Pattern.of(text) for text in _listed(written.line)),
        exits=tuple(_exit(text) for text in _listed(written.exit)),
    )
    if not (rule.raised or rule.lines or rule.exits):
        raise InvalidInputError("it has no line, exception or exit: it never matches")
    return rule


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _exit(text: str) -> str:
    known = text in KNOWN_REASONS or text in signal.Signals.__members__
    if not known and text not in map(str, range(1, 256)):
        raise InvalidInputError(
            f"exit {text[:60]!r} is no exit status; expected 1 to 255, a signal such as SIGSEGV, "
            f"or one of {', '.join(KNOWN_REASONS)}"
        )
    return text


def _raised(text: str) -> Raised:
    name, colon, message = text.partition(":")
    name = name.strip()
    if name != "*" and not all(part.isidentifier() for part in name.split(".")):
        raise InvalidInputError(f"exception {text!r} does not begin with an exception's type or *")
    if name == "*" and not message.strip():
        raise InvalidInputError(f"exception {text!r} would match every exception; name a message")
    if not colon or not message.strip():
        return Raised(name, None)
    return Raised(name, Pattern.of(message.strip()))
