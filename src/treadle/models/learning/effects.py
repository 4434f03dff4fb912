"""Which arguments of a script matter for a figure, and how much: learned from its runs.

The logarithm of a figure (a length, the seconds of a step, memory) is taken to be a sum: a level of
the script, a part of each argument that matters, and noise. A number has a slope (1: the figure is
in proportion to it), a word a level of its own. Arguments are taken in one after another, the one
that explains most first, while it explains more than chance would (a Bayes factor). Every part is
drawn towards nothing, the more the fewer runs it rests on.

So a run says something of any job of its script: by how much to shift it, and how far off that may
be. An argument that was varied and did not matter adds hardly any doubt; one that was never varied
adds much, the more the farther its value.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import log, sqrt
from typing import NamedTuple

from treadle.models.learning.commands import Arguments, is_path, number, without_numbers

Row = tuple[Arguments, float]  # the arguments of a run, and what was measured, above 0

ABSENT = ""  # the value of an argument that was not given
MATTER_MAX = 5  # arguments
FITTED_MAX = 64  # runs, the newest
STEPS_MAX = 8192  # that are kept of one figure
BAYES_FACTOR = 3.0  # so much likelier are the runs with an argument than without
PASSES = 4  # over all parts, until they agree
NOISE_RUNS = 2.0  # runs that the noise expected before any was seen counts for
PROPORTIONAL = (1.0, 0.1)  # a slope that many numbers have, and how far off it may be
COUNTED = 0.05  # the same of a number that says how many steps there are
ANY = (0.0, 0.7)  # any other slope
BEYOND = 0.1  # more doubt for each power of e outside of the values that were tried
RENAMED, OTHER_PATH = 0.15, 0.3  # doubt about words that differ in numbers only, or in a path


class Figure(NamedTuple):
    """What is assumed of a figure before an argument was varied."""

    slope: float  # of a number,
    slope_doubt: float  # and how far off it may be
    word_doubt: float  # about another word
    noise: float  # of equal commands


LENGTH = Figure(0.5, 0.5, 0.6, 0.15)  # a number does nothing, or it is in proportion
TOTAL = LENGTH._replace(noise=0.02)  # steps are counted
NEED = Figure(0.0, 0.35, 0.5, 0.05)
MEMORY = NEED._replace(slope=0.25)


class Step(NamedTuple):
    """From a run to a job with other arguments, in powers of e."""

    shift: float = 0.0
    doubt: float = 0.0


class _Column(NamedTuple):
    """The values of one argument in all runs."""

    values: list[str]
    logs: list[float | None]  # of numbers above 0

    @property
    def numbers(self) -> bool:
        """Whether it is a number wherever it was given, and not always the same."""
        pairs = zip(self.values, self.logs, strict=True)
        known = {each for each in self.logs if each is not None}
        return len(known) > 1 and all(log is not None or text == ABSENT for text, log in pairs)


class Number:
    """The part of a number, as a straight line over its logarithm."""

    def __init__(
        self, column: _Column, left: Sequence[float], figure: Figure, form: tuple[float, float]
    ) -> None:
        pairs = [(at, y) for at, y in zip(column.logs, left, strict=True) if at is not None]
        absent = [y for at, y in zip(column.logs, left, strict=True) if at is None]
        slope, off = form
        self._centre = sum([at for at, _ in pairs]) / len(pairs)
        self._middle = sum([y for _, y in pairs]) / len(pairs)
        apart = [(at - self._centre, y - self._middle) for at, y in pairs]
        squares = sum([at * at for at, _ in apart])
        together = sum([at * (y - slope * at) for at, y in apart])
        noise = figure.noise**2
        self.slope = slope + together / (squares + noise / off**2)
        self.penalty = 0.5 * log(1.0 + off**2 * squares / noise)
        if absent:
            self.penalty += 0.5 * log(1.0 + (figure.word_doubt / figure.noise) ** 2 * len(absent))
        self._absent = sum(absent) / len(absent) if absent else None
        self._squares = squares
        self._off = off
        self._range = min(at for at, _ in pairs), max(at for at, _ in pairs)
        self._word_doubt = figure.word_doubt

    @property
    def form(self) -> tuple[float, float]:
        return PROPORTIONAL if abs(self.slope - 1.0) <= 2 * PROPORTIONAL[1] else ANY

    def of(self, column: _Column) -> list[float]:
        return [self._at(each) for each in column.logs]

    def step(self, one: str, other: str, noise: float) -> Step:
        before, then = _log(one), _log(other)
        shift = self._at(then) - self._at(before)
        if before is None or then is None:
            return Step(shift, self._word_doubt if self._absent is None else noise)
        beyond = max(0.0, self._range[0] - then, then - self._range[1])
        doubt = noise / sqrt(self._squares + (noise / self._off) ** 2)
        return Step(shift, doubt * abs(then - before) + BEYOND * beyond)

    def _at(self, value: float | None) -> float:
        if value is None:
            return self._middle if self._absent is None else self._absent
        return self._middle + self.slope * (value - self._centre)


class Words:
    """The part of a word: each has a level of its own."""

    def __init__(self, column: _Column, left: Sequence[float], figure: Figure) -> None:
        found: dict[str, list[float]] = {}
        for value, each in zip(column.values, left, strict=True):
            found.setdefault(value, []).append(each)
        ratio = (figure.word_doubt / figure.noise) ** 2
        self._middle = sum(left) / len(left)
        self.counts = {value: len(some) for value, some in found.items()}
        self.levels = {
            value: self._middle + (sum(some) - self._middle * len(some)) / (len(some) + 1.0 / ratio)
            for value, some in found.items()
        }
        squares = sum([(each - self._middle) ** 2 for each in self.levels.values()])
        self._spread = sqrt((figure.word_doubt**2 + squares) / (1 + len(found)))
        self.penalty = 0.5 * sum([log(1.0 + ratio * len(some)) for some in found.values()])

    def of(self, column: _Column) -> list[float]:
        return [self.levels[value] for value in column.values]

    def step(self, one: str, other: str, noise: float) -> Step:
        ends = [self.levels.get(value, self._middle) for value in (one, other)]
        doubts = [
            noise / sqrt(self.counts[value]) if value in self.counts else self._spread
            for value in (one, other)
        ]
        return Step(ends[1] - ends[0], sqrt(sum([doubt * doubt for doubt in doubts])))


Part = Number | Words


@dataclass(frozen=True, slots=True)
class Effects:
    """What is known of the arguments of a script, for one figure."""

    figure: Figure
    parts: Mapping[str, Part]  # of arguments that matter, the one that explains most first
    explained: Mapping[str, float]  # the share of what varied that each of them explains
    tried: Mapping[str, int]  # of each argument, how many values were seen
    apart: Mapping[str, float]  # of those that do not matter, how far apart numbers were: squares
    tied: Mapping[str, str]  # numbers that always went along with another
    noise: float
    runs: int
    counting: str = ""  # a number that the figure is in proportion to

    # Steps that were asked for: the same few values stand in most runs.
    _known: dict[tuple[str, str, str], Step] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls, rows: Sequence[Row], figure: Figure, *, counting: Collection[str] = ()
    ) -> "Effects":
        """counting: arguments that say how many steps there are, each of them alike."""
        return _fitted(tuple(rows[-FITTED_MAX:]), figure, frozenset(counting))

    def step(self, seen: Arguments, asked: Arguments) -> Step:
        """What to make of a run with some arguments, for a job with others."""
        if seen == asked:
            return Step()
        steps = [step for _, step in self.steps(seen, asked)]
        shift = sum([step.shift for step in steps])
        return Step(shift, sqrt(sum([step.doubt * step.doubt for step in steps])))

    def steps(self, seen: Arguments, asked: Arguments) -> Iterator[tuple[str, Step]]:
        """The same, argument by argument."""
        before, then = dict(seen), dict(asked)
        other = {name for name, _ in {*seen} ^ {*asked}}
        for name in sorted(other.union(self.tied)):
            values = before.get(name, ABSENT), then.get(name, ABSENT)
            if name == self.counting:
                apart = _moved(*values)
                yield name, Step(apart, COUNTED * abs(apart))
            elif (first := self.tied.get(name)) is not None:
                # Which of the two counts was not seen: that matters where they go apart.
                apart = _moved(*values) - _moved(before.get(first, ""), then.get(first, ""))
                yield name, Step(0.0, abs(self.figure.slope_doubt * apart))
            else:
                yield name, self._kept(name, *values)

    def _kept(self, name: str, one: str, other: str) -> Step:
        known, asked = self._known, (name, one, other)
        if (step := known.get(asked)) is None:
            if len(known) >= STEPS_MAX:
                known.clear()
            step = known[asked] = self._step(name, one, other)
        return step

    def _step(self, name: str, one: str, other: str) -> Step:
        part = self.parts.get(name)
        if part is not None:
            return part.step(one, other, self.noise)
        if name not in self.apart:
            return _untried(one, other, self.figure)
        # It was varied, and did not show that it matters.
        before, then = _log(one), _log(other)
        if before is not None and then is not None and self.apart[name] > 0:
            off = (self.noise / self.figure.slope_doubt) ** 2
            return Step(0.0, self.noise / sqrt(self.apart[name] + off) * abs(then - before))
        doubt = self.noise / sqrt(self.tried[name] - 1)
        return Step(0.0, min(self.figure.word_doubt, doubt))


@lru_cache(maxsize=512)  # Several figures of every job of a sweep rest on the same runs.
def _fitted(rows: tuple[Row, ...], figure: Figure, counting: frozenset[str]) -> Effects:
    columns = _columns([arguments for arguments, _ in rows])
    tried = {name: len({*column.values}) for name, column in columns.items()}
    varied = {name: column for name, column in columns.items() if tried[name] > 1}
    tied = _tied(varied)
    varied = {name: column for name, column in varied.items() if name not in tied}
    found = [log(seen) for _, seen in rows]
    by = next((name for name in columns if name in counting), "")
    known = [each for each in columns[by].logs if each is not None] if by else []
    if len(known) == len(rows):
        varied.pop(by, None)
        found = _less(found, known)
    else:
        by = ""
    parts, explained = _chosen(varied, found, figure)
    left = _left(parts, varied, found)
    before = NOISE_RUNS * figure.noise**2
    noise = sqrt((before + _squares(left)) / (NOISE_RUNS + len(rows)))
    apart = {name: _apart(varied, name, parts) for name in varied if name not in parts}
    return Effects(figure, parts, explained, tried, apart, tied, noise, len(rows), by)


def _untried(one: str, other: str, figure: Figure) -> Step:
    """An argument that had one value in all runs."""
    before, then = _log(one), _log(other)
    if before is not None and then is not None:
        apart = then - before
        return Step(figure.slope * apart, figure.slope_doubt * abs(apart))
    if without_numbers(one) == without_numbers(other):
        return Step(0.0, RENAMED)
    return Step(0.0, OTHER_PATH if is_path(one) and is_path(other) else figure.word_doubt)


def _tied(varied: Mapping[str, _Column]) -> dict[str, str]:
    """Numbers that were in proportion to another in all runs, and the first of these."""
    tied: dict[str, str] = {}
    firsts: dict[tuple[float, ...], str] = {}
    for name, column in varied.items():
        logs = [each for each in column.logs if each is not None]
        if len(logs) == len(column.logs):
            first = firsts.setdefault(tuple(round(each - logs[0], 6) for each in logs), name)
            if first != name:
                tied[name] = first
    return tied


def _moved(one: str, other: str) -> float:
    """How far a number goes, in powers of e; a word goes nowhere."""
    before, then = _log(one), _log(other)
    return 0.0 if before is None or then is None else then - before


def _columns(runs: Sequence[Arguments]) -> dict[str, _Column]:
    """The values of each argument, in the order of runs."""
    found: dict[str, list[str]] = {}
    for place, arguments in enumerate(runs):
        for name, value in arguments:
            found.setdefault(name, [ABSENT] * len(runs))[place] = value
    return {name: _Column(found[name], [*map(_log, found[name])]) for name in sorted(found)}


def _chosen(
    varied: Mapping[str, _Column], found: Sequence[float], figure: Figure
) -> tuple[dict[str, Part], dict[str, float]]:
    """The parts of arguments that matter, and how much of what varied each explains."""
    parts: dict[str, Part] = {}
    explained: dict[str, float] = {}
    whole = _squares(found) if found else 0.0
    while varied and len(parts) < MATTER_MAX:
        left = _left(parts, varied, found)
        enough = _score(left, figure) + log(BAYES_FACTOR)
        best = max(
            (
                (_score(_less(left, part.of(column)), figure) - part.penalty, name, part)
                for name, column in varied.items()
                if name not in parts
                for part in _candidates(column, left, figure)
            ),
            key=lambda one: one[0],
            default=None,
        )
        if best is None or best[0] <= enough:
            break
        _, name, part = best
        parts[name] = part
        _agree(parts, varied, found, figure)
        explained[name] = (_squares(left) - _squares(_left(parts, varied, found))) / whole
    return parts, explained


def _candidates(column: _Column, left: Sequence[float], figure: Figure) -> Iterator[Part]:
    if column.numbers:
        yield Number(column, left, figure, PROPORTIONAL)
        yield Number(column, left, figure, ANY)
    if 3 * len({*column.values}) <= 2 * len(left):  # Words that hardly repeat explain anything.
        yield Words(column, left, figure)


def _agree(
    parts: dict[str, Part], varied: Mapping[str, _Column], found: Sequence[float], figure: Figure
) -> None:
    """Fit every part to what the others leave, some times over."""
    for _ in range(PASSES if len(parts) > 1 else 0):
        for name, part in list(parts.items()):
            left = _left({each: parts[each] for each in parts if each != name}, varied, found)
            if isinstance(part, Words):
                parts[name] = Words(varied[name], left, figure)
            else:
                parts[name] = Number(varied[name], left, figure, part.form)


def _left(
    parts: Mapping[str, Part], varied: Mapping[str, _Column], found: Sequence[float]
) -> list[float]:
    """What the parts do not explain, around 0."""
    left = list(found)
    for name, part in parts.items():
        left = _less(left, part.of(varied[name]))
    middle = sum(left) / max(1, len(left))
    return [each - middle for each in left]


def _less(found: Sequence[float], part: Sequence[float]) -> list[float]:
    return [each - one for each, one in zip(found, part, strict=True)]


def _score(left: Sequence[float], figure: Figure) -> float:
    """How likely so much noise is, as a logarithm, if its size is hardly known."""
    runs, squares = NOISE_RUNS + len(left), NOISE_RUNS * figure.noise**2 + _squares(left)
    return -0.5 * runs * log(squares)


def _squares(found: Sequence[float]) -> float:
    middle = sum(found) / max(1, len(found))
    return sum([(each - middle) ** 2 for each in found])


def _apart(varied: Mapping[str, _Column], name: str, parts: Mapping[str, Part]) -> float:
    """How much a number varied by itself, and not along with one that matters."""
    own = [each for each in varied[name].logs if each is not None]
    least = _squares(own) if len(own) == len(varied[name].logs) else 0.0
    for other in parts if least else ():
        theirs = [each for each in varied[other].logs if each is not None]
        if len(theirs) == len(own):
            x, y = sum(own) / len(own), sum(theirs) / len(own)
            together = sum([(a - x) * (b - y) for a, b in zip(own, theirs, strict=True)])
            least = min(least, _squares(own) - together**2 / max(_squares(theirs), 1e-12))
    return max(0.0, least)


@lru_cache(maxsize=8192)
def _log(value: str) -> float | None:
    read = number(value)
    return log(read) if read is not None and read > 0 else None
