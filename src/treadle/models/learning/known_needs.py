"""What jobs were seen to need: how fast they are, what they use, how many steps they have.

Asked about a job by what it has in common with others. Answers are kept until something new is seen
of a kind.
"""

from collections.abc import Callable, Iterator
from math import exp
from typing import NamedTuple, TypeVar

from treadle.models.fitted import Point
from treadle.models.learning.commands import Arguments, number
from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.effects import TOTAL
from treadle.models.learning.kind_history import Costs, History
from treadle.models.learning.kinds import FAR, Kind, Likeness, Source, closeness, of_commands
from treadle.models.learning.known_kinds import KnownKinds
from treadle.models.learning.measured import Measured, measured
from treadle.models.learning.near import Use, near, use_of
from treadle.models.learning.speeds import REPEATS_MAX, median
from treadle.models.learning.spread import Apart, apart_of, tight
from treadle.models.learning.unlike import Factors, by_type

ASKED_MAX = 64  # arguments for which the answers about one kind are kept
STEPS_DOUBT = 0.1  # in powers of e: so far off, several numbers of steps are as likely

Answer = TypeVar("Answer")


class Pace(NamedTuple):
    """Seconds of a step by size, of one kind."""

    points: tuple[Point, ...]  # that were measured
    curve: FittedCurve
    version: int  # above 0; changes with the answers, and no two kinds ever have the same
    doubt: float  # in powers of e


class Steps(NamedTuple):
    """How many steps a job has: several numbers where that is not sure, none if it is not known."""

    counts: tuple[float, ...] = ()
    source: Source = Source.NOTHING
    runs: int = 0  # that ended, of those that say it


class KnownNeeds:
    """Speeds, uses and steps of the kinds that are remembered."""

    def __init__(self, kinds: KnownKinds) -> None:
        self._kinds = kinds
        self._measured: dict[Kind, dict[Arguments, Measured]] = {}
        self._uses: dict[Kind, dict[Arguments, Use]] = {}
        self._steps: dict[Kind, dict[Arguments, Steps]] = {}
        self._paces: dict[Kind, dict[Arguments, Pace]] = {}  # also while they are measured again
        self._versions = 0

    def changed(self, kind: Kind) -> None:
        """Something was seen of jobs of this kind besides a length."""
        for table in (self._measured, self._uses, self._steps):
            table.pop(kind, None)

    def forget(self, kind: Kind) -> None:
        self.changed(kind)
        self._paces.pop(kind, None)

    def measured(self, kind: Kind, arguments: Arguments) -> Measured:
        """Speeds of a kind, or a guess of those in tight placements."""
        return self._kept(
            self._measured, kind, arguments, lambda history: tight(measured(history, arguments))
        )

    def pace(self, likeness: Likeness) -> Pace | None:
        """How fast jobs of the closest kind are that was measured; None: none was."""
        for kind in self._close(likeness):
            found = self.measured(kind, likeness.arguments)
            if found.steps:
                return self._pace(kind, likeness.arguments, found)
        return None

    def apart(self, likeness: Likeness) -> Apart:
        """How fast such jobs are on more nodes or racks than they need, by the closest kinds."""
        nodes = racks = 0.0
        for kind in self._close(likeness):
            found = apart_of(self.measured(kind, likeness.arguments))
            nodes, racks = nodes or found.nodes, racks or found.racks
        return Apart(nodes, racks)

    def by_type(self, likeness: Likeness) -> Factors:
        """How fast such jobs are on each type of device, by the closest kind."""
        found = (by_type(self.measured(kind, likeness.arguments)) for kind in self._close(likeness))
        return next((factors for factors in found if factors), ())

    def use(self, likeness: Likeness) -> Use:
        """What such jobs use of a device and of the host."""
        asked = likeness.arguments
        kind = next((kind for kind in self._close(likeness) if _same_script(kind)), None)
        if kind is None:
            return Use()
        return self._kept(self._uses, kind, asked, lambda history: use_of(history, asked))

    def costs(self, likeness: Likeness) -> Costs:
        """What starts and changes cost, by the closest kind that knows each of them."""
        found = Costs()
        for kind in self._close(likeness):
            found = found.filled(self._kinds[kind].costs)
        return found

    def steps(self, likeness: Likeness) -> Steps:
        """How many steps the whole job has."""
        asked = likeness.arguments
        kind = next((kind for kind in self._close(likeness) if _same_script(kind)), None)
        if kind is None:
            return Steps()
        return self._kept(self._steps, kind, asked, lambda history: _steps(kind, history, asked))

    def _close(self, likeness: Likeness) -> Iterator[Kind]:
        """The kinds of its script that are remembered, and not the same runs again."""
        counts: tuple[int, ...] | None = None
        for kind in likeness.kinds:
            history = None if closeness(kind) in FAR else self._kinds.get(kind)
            if history is not None and counts != (found := _counts(history)):
                counts = found
                yield kind

    def _kept(
        self,
        table: dict[Kind, dict[Arguments, Answer]],
        kind: Kind,
        arguments: Arguments,
        ask: Callable[[History], Answer],
    ) -> Answer:
        known = table.setdefault(kind, {})
        if arguments not in known:
            if len(known) >= ASKED_MAX:
                known.clear()
            known[arguments] = ask(self._kinds.get(kind) or History())
        return known[arguments]

    def _pace(self, kind: Kind, arguments: Arguments, found: Measured) -> Pace:
        """The same as before while what was measured comes to the same."""
        known = self._paces.setdefault(kind, {})
        points = tuple(sorted(found.steps.items()))
        before = known.get(arguments)
        if before is None or before.points != points or before.doubt != found.doubt:
            if len(known) >= ASKED_MAX:
                known.clear()
            self._versions += 1
            before = Pace(points, FittedCurve.through(points), self._versions, found.doubt)
            known[arguments] = before
        return before


def _counts(history: History) -> tuple[int, ...]:
    return len(history.looks), len(history.seen), history.ended


def _same_script(kind: Kind) -> bool:
    return closeness(kind) is Source.ALIKE


def _steps(kind: Kind, history: History, asked: Arguments) -> Steps:
    """As many as others had; as an argument says; or as runs with other arguments suggest."""
    rows = [(run.arguments, run.total) for run in history.rows if run.total is not None]
    if not rows:
        return Steps()
    same = of_commands(kind) and any(arguments == asked for arguments, _ in rows)
    ended = [run for run in history.seen if run.whole and (not same or run.arguments == asked)]
    source = Source.SAME_COMMAND if same else Source.ALIKE
    counting = history.counting  # After `--batch 64 --steps 64`, either may be it.
    stated = {number(value) for name, value in asked if name in counting} - {None}
    if stated:
        return Steps(tuple(sorted(each for each in stated if each)), source, len(ended))
    nearest = near(rows, asked, TOTAL)
    middle = median(nearest.figures[-REPEATS_MAX:])
    if nearest.doubt <= STEPS_DOUBT:
        return Steps((middle,), source, len(ended))
    off = exp(nearest.doubt)
    return Steps((middle / off, middle, middle * off), source, len(ended))
