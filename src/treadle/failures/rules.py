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

from enum import IntEnum
from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from treadle.core.errors import InvalidInputError
from treadle.core.value import value
from treadle.failures.pattern import Pattern
from treadle.failures.rule_reader import Reader
from treadle.failures.verdict import Advice, Kind

LEVELS = ("cause", "error", "death", "symptom", "echo")
_TEXT_MAX = 256 << 10
_RULES_MAX = 500
_PATTERNS_MAX = 2000


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
        added, dropped = _rules(name, text, loader=yaml.SafeLoader)
        known = {rule.name for rule in self.rules}
        for rule, line in dropped.items():
            if rule not in known:
                raise InvalidInputError(
                    f"{name} line {line}: rule {rule!r} is switched off, but no shipped rule has "
                    "that name (see treadle classify --list-rules)"
                )
        gone = {rule.name for rule in added} | set(dropped)
        return RuleTable((*added, *(rule for rule in self.rules if rule.name not in gone)))


@cache
def shipped() -> RuleTable:
    """The rules that come with Treadle."""
    text = resources.files("treadle.failures").joinpath("rules.yaml").read_text("utf-8")
    # The C loader needs a tenth of the time. It recurses on the C stack, so it is not safe for
    # users' files.
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return RuleTable(tuple(_rules("rules.yaml", text, loader=fast)[0]))


def _file(path: Path) -> tuple[str, str]:
    try:
        with path.open("rb") as handle:
            data = handle.read(_TEXT_MAX + 1)
        return str(path), data.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInputError(f"cannot read the rules {path}: {reason}") from None


def _rules(name: str, text: str, *, loader: type) -> tuple[list[Rule], dict[str, int]]:
    """The rules of a text, and the rule names it switches off with their lines."""
    rules: list[Rule] = []
    dropped: dict[str, int] = {}
    seen: set[str] = set()
    items = _items(name, text, loader)
    if len(items) > _RULES_MAX:
        raise InvalidInputError(f"{name} holds {len(items):,} rules; {_RULES_MAX} are the limit")
    patterns = 0
    for item in items:
        reader = Reader.of(name, item)
        if reader.name in seen:
            raise reader.error("name", "is given to two rules; keep one")
        seen.add(reader.name)
        if reader.flag("off", unless=False):
            dropped[reader.name] = reader.line
        else:
            rules.append(_rule(reader))
            patterns += len(rules[-1].lines) + len(rules[-1].raised)
            if patterns > _PATTERNS_MAX:
                raise reader.error("line", f"is too much: {_PATTERNS_MAX:,} patterns are the limit")
    return rules, dropped


def _items(name: str, text: str, loader: type) -> list[yaml.Node]:
    try:
        root = yaml.compose(text, Loader=loader)  # type: ignore[no-untyped-call, unused-ignore]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name} line {mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or "not readable"
        raise InvalidInputError(f"{where} is not YAML: {problem}") from None
    except RecursionError:
        raise InvalidInputError(f"{name} is nested too deeply to be a table of rules") from None
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise InvalidInputError(
            f"{name} is no table of rules; expected entries such as - name: ..."
        )
    return list(root.value)


def _rule(reader: Reader) -> Rule:
    kind = Kind(reader.choice("class", [str(kind) for kind in Kind]))
    levels = {level.name.lower(): level for level in Level if level.name.lower() in LEVELS}
    more = reader.text("more", unless="")
    if (kind is Kind.RESOURCE) != bool(more):
        raise reader.error(
            "more", "is required for class resource and not allowed for others: name what to raise"
        )
    elsewhere = reader.choice("elsewhere", ["node", "device"], unless="")
    advice = Advice(
        reader.flag("retry", unless=kind is not Kind.DETERMINISTIC),
        elsewhere,  # type: ignore[arg-type]  # The reader checked that it is one of these.
        more,
    )
    rule = Rule(
        name=reader.name,
        kind=kind,
        level=levels[reader.choice("level", list(levels), unless="cause")],
        sentence=reader.text("says"),
        advice=advice,
        raised=tuple(_raised(reader, text) for text in reader.texts("exception")),
        lines=tuple(_pattern(reader, "line", text) for text in reader.texts("line")),
        exits=reader.exits(),
    )
    if not (rule.raised or rule.lines or rule.exits):
        raise reader.error("line", "is missing, and so are exception and exit: it never matches")
    return rule


def _raised(reader: Reader, text: str) -> Raised:
    name, colon, message = text.partition(":")
    name = name.strip()
    if name != "*" and not all(part.isidentifier() for part in name.split(".")):
        raise reader.error("exception", f"{text!r} does not begin with an exception's type or *")
    if name == "*" and not message.strip():
        raise reader.error("exception", f"{text!r} would match every exception; name a message")
    if not colon or not message.strip():
        return Raised(name, None)
    return Raised(name, _pattern(reader, "exception", message.strip()))


def _pattern(reader: Reader, field: str, text: str) -> Pattern:
    try:
        return Pattern.of(text)
    except InvalidInputError as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise reader.error(field, f"{shown!r} {error}") from None
