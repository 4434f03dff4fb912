"""Classify a failed job: text and exit status in, verdict out. Pure.

Each rule that matches gives a candidate. Matches of failures that the job survived are dropped. Of
the others the one nearest to the cause wins (`rules.py` explains levels), then the one on the rank
that the launcher saw fail first, then the earliest.

How to tell that a job survived? A Python process writes its output in blocks of 8 KiB, so a few
lines of progress below a traceback were probably printed before it and flushed after it. More than
one block proves survival, and so does progress between one traceback and the next. A line that
merely mentions a failure is dropped after three lines of progress, or if it says that it was
skipped or retried.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice

from treadle.core.value import value
from treadle.failures.log_lines import Line, clean, parse
from treadle.failures.pattern import Pattern
from treadle.failures.rules import Level, Rule, RuleTable, shipped
from treadle.failures.verdict import Advice, Evidence, Exit, Kind, Verdict

_TEXT_MAX = 1 << 20
_EXCEPTIONS_MAX = 400
_MATCHES_MAX = 100
_EVIDENCE_MAX = 300
_LOOK_BACK = 80
_BLOCK_BYTES = 8192
_PROGRESS_LINES = 3
_SURVIVED = (
    "skipping",
    "skipped",
    "retrying",
    "will retry",
    "retry attempt",
    "trying again",
    "trying with",
    "too large, trying",
    "recovered",
    "falling back",
    "ignoring",
    "continuing",
    "reducing batch",
)
_REPORTED = ("error", "fail", "could not", "cannot", "exception", "warn", "caught")

FINISHED = Verdict(
    Kind.UNKNOWN,
    "finished",
    "The job ended with exit status 0, which is not a failure.",
    Advice(retry=False),
)
UNEXPLAINED = Verdict(
    Kind.UNKNOWN, "unexplained", "Nothing in its output says why it failed.", Advice(retry=True)
)


def classify(
    log: str | Iterable[str],
    exit: Exit | None = None,  # noqa: A002  # The obvious name.
    rules: RuleTable | None = None,
) -> Verdict:
    """Classify a failure from the end of the log and the exit status."""
    exits = None if exit is None else {"": exit}
    return classify_ranks({"": log}, exits, rules)


def classify_ranks(
    logs: Mapping[str, str | Iterable[str]],
    exits: Mapping[str, Exit] | None = None,
    rules: RuleTable | None = None,
) -> Verdict:
    """Classify from several ranks' logs; the exit under the name "" is that of the whole job."""
    rules = rules or shipped()
    exits = exits or {}
    if exits and all(ended.well for ended in exits.values()):
        return FINISHED
    candidates: list[_Candidate] = []
    pointed: set[str] = set()
    for rank in sorted(logs, key=_rank_order):
        text = _Text.of(logs[rank], rank)
        pointed |= _pointed(text)
        candidates += _in_text(text, rules)
    for rank in sorted(exits, key=_rank_order):
        candidates += _in_exit(exits[rank], rank, rules)
    if not candidates:
        return UNEXPLAINED
    return _first(candidates, pointed).verdict


@value
class _Candidate:
    rule: Rule
    level: Level
    source: str
    stream: str
    place: int
    line_from_end: int
    text: str
    moment: str
    raised: bool = False

    @property
    def verdict(self) -> Verdict:
        return Verdict(
            self.rule.kind,
            self.rule.name,
            self.rule.sentence,
            self.rule.advice,
            Evidence(self.text[:_EVIDENCE_MAX].strip(), self.line_from_end, self.source),
        )


@value
class _Text:
    """The lines of one log, with precomputed positions of progress lines."""

    source: str
    lines: list[Line]
    progress: list[int]  # Indexes of lines that report training progress, ascending.
    weight: list[int]  # Characters of progress before each index; one longer than lines.

    @classmethod
    def of(cls, log: str | Iterable[str], source: str) -> "_Text":
        text = log if isinstance(log, str) else "".join(line.rstrip("\n") + "\n" for line in log)
        lines = parse(clean(text[-_TEXT_MAX:]))
        lengths = [len(line.body) + 1 if line.progress else 0 for line in lines]
        progress = [place for place, length in enumerate(lengths) if length]
        return cls(source, lines, progress, list(accumulate(lengths, initial=0)))

    def progress_between(self, start: int, stop: int) -> int:
        """The number of progress lines after one index and before another."""
        return bisect_right(self.progress, stop - 1) - bisect_right(self.progress, start)

    def near(self, place: int, step: int) -> str:
        """The next line of the same stream; "" at the end."""
        stream = self.lines[place].stream
        for at in range(place + step, max(-1, min(len(self.lines), place + 20 * step)), step):
            if self.lines[at].stream == stream:
                return self.lines[at].body
        return ""


def _in_text(text: _Text, rules: RuleTable) -> list[_Candidate]:
    exceptions = _exceptions(text)
    thrown = [place for place, exception in exceptions.items() if exception.raised]
    fatal = [place for place in thrown if not _outlived(text, place, thrown[-1])]
    found = _in_exceptions(text, exceptions, rules) + _in_lines(text, exceptions, rules)
    return [
        candidate
        for candidate in found
        if (candidate.place in fatal if candidate.raised else not _passed(text, candidate, fatal))
    ]


@value
class _Exception:
    name: str
    message: str
    raised: bool  # Whether it follows a traceback.


def _exceptions(text: _Text) -> dict[int, _Exception]:
    """The last lines that look like an exception, by index, ascending."""
    found: dict[int, _Exception] = {}
    frames: dict[str, int] = {}
    ignored: dict[str, int] = {}
    for place, line in enumerate(text.lines):
        if line.frame:
            frames[line.stream] = place
            continue
        if line.body.startswith("Exception ignored in"):
            ignored[line.stream] = place
        exception = line.exception
        if exception is None:
            continue
        if place - ignored.pop(line.stream, -_LOOK_BACK) < _LOOK_BACK // 2:
            continue
        raised = place - frames.get(line.stream, -_LOOK_BACK) < _LOOK_BACK
        found[place] = _Exception(*exception, raised)
    return dict(list(found.items())[-_EXCEPTIONS_MAX:])


def _in_exceptions(
    text: _Text, exceptions: dict[int, _Exception], rules: RuleTable
) -> list[_Candidate]:
    """Exceptions that match a rule.

    Only rules whose text occurs at all are tried: 400 exceptions take 3 ms instead of 120 ms.
    """
    said = "\n".join(exception.message for exception in exceptions.values())
    types = {exception.name for exception in exceptions.values()}
    types |= {name.rpartition(".")[2] for name in types} | {"*"}
    named = [
        (rule, raised)
        for rule in rules.rules
        for raised in rule.raised
        if raised.type in types and (raised.message is None or raised.message.pieces[0] in said)
    ]
    return [
        _candidate(text, place, rule, raised=exception.raised)
        for place, exception in exceptions.items()
        for rule, raised in named
        if raised.matches(exception.name, exception.message)
    ]


def _in_lines(text: _Text, exceptions: dict[int, _Exception], rules: RuleTable) -> list[_Candidate]:
    """The last lines that match each pattern of the rules.

    The search for a pattern's first piece runs over the whole text, and only lines that contain it
    are checked: 289 patterns over 4,000 lines take 14 ms instead of 410 ms line by line.
    """
    bodies = [line.body for line in text.lines]
    whole = "\n".join(bodies)
    starts = list(accumulate((len(body) + 1 for body in bodies), initial=0))
    found: list[_Candidate] = []
    for rule in rules.rules:
        for pattern in rule.lines:
            places = islice(_places(pattern, whole, starts, bodies), _MATCHES_MAX)
            found += [
                _candidate(text, place, rule, raised=_is_raised(exceptions, place))
                for place in places
                if _is_message(text, place)
            ]
    return found


def _places(pattern: Pattern, whole: str, starts: list[int], bodies: list[str]) -> Iterator[int]:
    """The lines that match, from the last to the first."""
    at = whole.rfind(pattern.pieces[0])
    while at >= 0:
        place = bisect_right(starts, at) - 1
        if pattern.matches(bodies[place]):
            yield place
        # Search up to one character before the line: a piece never crosses lines.
        at = whole.rfind(pattern.pieces[0], 0, max(0, starts[place] - 1))


def _is_raised(exceptions: dict[int, _Exception], place: int) -> bool:
    return place in exceptions and exceptions[place].raised


def _is_message(text: _Text, place: int) -> bool:
    """Whether the line is a message, not a data sample, a warning or code from a traceback."""
    line = text.lines[place]
    if line.speech:
        return False
    return not ('File "' in text.near(place, -1) and line.body.startswith("    "))


def _candidate(text: _Text, place: int, rule: Rule, *, raised: bool) -> _Candidate:
    line = text.lines[place]
    moment = line.moment
    for earlier in range(place - 1, max(-1, place - _LOOK_BACK), -1):
        if moment:
            break
        moment = text.lines[earlier].moment
    return _Candidate(
        rule,
        rule.level,
        text.source,
        line.stream or text.source,
        place,
        line.line_from_end,
        line.body,
        moment.replace("T", " ").replace("_", " "),
        raised,
    )


def _outlived(text: _Text, place: int, last: int) -> bool:
    """Whether the job survived the traceback that ends here; `last` is the last traceback."""
    if text.weight[-1] - text.weight[last] > _BLOCK_BYTES:
        return True
    if text.progress_between(place, last) >= _PROGRESS_LINES:
        return True
    head = place
    while head > max(0, place - _LOOK_BACK) and "Traceback (most" not in text.lines[head].body:
        head -= 1
    # The line before counts only if it announces the traceback.
    before = text.near(head, -1)
    announced = any(word in before.lower() for word in _REPORTED)
    return _dismissed(text.near(place, 1)) or (announced and _dismissed(before))


def _passed(text: _Text, found: _Candidate, fatal: list[int]) -> bool:
    """Whether the job survived a line that mentions a failure.

    Below a traceback that ended the job, progress is late output and proves nothing.
    """
    place = found.place
    if not fatal:
        lived = text.progress_between(place, len(text.lines)) >= _PROGRESS_LINES
    else:
        lived = text.progress_between(place, fatal[-1]) >= _PROGRESS_LINES
    return lived or _dismissed(text.lines[place].body) or _dismissed(text.near(place, 1))


def _dismissed(body: str) -> bool:
    lowered = body.lower()
    return any(word in lowered for word in _SURVIVED)


def _pointed(text: _Text) -> set[str]:
    """The rank that torchrun saw fail first."""
    for place, line in enumerate(text.lines):
        if "Root Cause (first observed failure)" in line.body:
            for later in text.lines[place : place + 10]:
                name, _, rest = later.body.partition(":")
                if name.strip() == "rank" and rest.strip():
                    return {rest.split()[0]}
    return set()


def _in_exit(ended: Exit, source: str, rules: RuleTable) -> list[_Candidate]:
    return [
        _Candidate(
            rule,
            Level.KNOWN if ended.known_reason in rule.exits else Level.EXIT,
            source,
            source,
            0,
            0,
            str(ended),
            "",
        )
        for rule in rules.rules
        if any(name in rule.exits for name in ended.names)
    ]


def _first(candidates: list[_Candidate], pointed: set[str]) -> _Candidate:
    """The candidate nearest to the cause; ties go to the order in which they were found."""
    level = max(found.level for found in candidates)
    nearest = [found for found in candidates if found.level == level]
    on_pointed = [found for found in nearest if found.stream in pointed]
    nearest = on_pointed or nearest
    if all(found.moment for found in nearest):
        nearest.sort(key=lambda found: found.moment)
        earliest = nearest[0]
        same = [f for f in nearest if f.moment == earliest.moment and f.source == earliest.source]
        return min(same, key=lambda found: found.place)
    source = nearest[0].source
    return min((f for f in nearest if f.source == source), key=lambda found: found.place)


def _rank_order(rank: str) -> tuple[bool, int, str]:
    number = int(rank) if rank.isascii() and rank.isdigit() and len(rank) < 10 else -1
    return number < 0, number, rank
