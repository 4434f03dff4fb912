"""The forecasts of each kind, kept until a share of what is known of the kind is new.

One more run of many changes little and a forecast takes a millisecond. What forecasts rest on
follows from what was learned alone, not from when they were asked for: a replay learns the same.
"""

from collections.abc import Iterator, Sequence

from treadle.models.fitted import Point
from treadle.models.learning.commands import Arguments
from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.effects import LENGTH, Effects
from treadle.models.learning.even_users import EvenUsers
from treadle.models.learning.experts import Expert
from treadle.models.learning.kind_experts import Group, close_group, far_experts, memory
from treadle.models.learning.kind_history import RUNS_MAX, Evidence, History, Run, counting
from treadle.models.learning.kinds import (
    EVERYTHING,
    FAR,
    Kind,
    Likeness,
    Source,
    closeness,
    of_commands,
    with_sizes,
)
from treadle.models.learning.known_kinds import KnownKinds
from treadle.models.learning.speeds import REPEATS_MAX, median

ASKED_MAX = 16  # sizes and numbers for which the forecasts of one kind are kept
GROWN = 0.05  # the share of runs that are new, from which on forecasts are made again
USERS_MAX = 256  # of those whose jobs ended last, for newcomers

# A size, arguments, and the speeds that lengths are converted by.
_Asked = tuple[int, Arguments, tuple[Point, ...]]
_PLAIN: _Asked = (0, (), ())  # what far kinds say depends on none of these
_EVEN: _Asked = (-1, (), ())  # nor does what newcomers are told
_NOTHING = History().evidence()


class KeptExperts:
    """Forecasts by kind and by what was asked."""

    def __init__(self, kinds: KnownKinds) -> None:
        self._kinds = kinds
        self._evidence: dict[Kind, Evidence] = {}  # what forecasts of each kind rest on
        self._newer: dict[Kind, int] = {}  # runs since then
        self._kept: dict[Kind, dict[_Asked, list[Group]]] = {}
        self._effects: dict[Kind, dict[tuple[Point, ...], Effects]] = {}
        self._curves: dict[Kind, dict[Arguments, FittedCurve | None]] = {}
        self._even: dict[Kind, EvenUsers] = {}  # of kinds of everything

    def evidence(self, kind: Kind) -> Evidence:
        """What its forecasts rest on; to be asked for before something is learned of it."""
        known, history = self._evidence.get(kind), self._kinds.get(kind)
        if history is None:
            return _NOTHING
        if known is None:
            known = self._evidence[kind] = history.evidence()
        return known

    def learned(self, kind: Kind) -> bool:
        """A run was learned of this kind; whether enough of it is new by now."""
        newer = self._newer[kind] = self._newer.get(kind, 0) + 1
        grown = newer >= GROWN * min(self._kinds[kind].ended, RUNS_MAX)
        if grown:
            self.forget(kind)
        return grown

    def forget(self, kind: Kind) -> None:
        """Make its forecasts again when they are asked for."""
        for table in (self._evidence, self._newer, self._kept, self._effects, self._curves):
            table.pop(kind, None)
        if closeness(kind) is Source.SAME_USER:
            # All of a user's jobs are part of all jobs; those of one size, of all of that size.
            _, size, devices = kind.rpartition("#") if "#" in kind else ("", "", "")
            everything = f"{EVERYTHING}{size}{devices}"
            self._kept.pop(everything, None)
            if (even := self._even.get(everything)) is not None:
                even.forget(kind)

    def curve(self, likeness: Likeness) -> FittedCurve | None:
        """Seconds of a whole run of the same command, by size.

        `sleep 10` on one device and `sleep 4` on two are no speed-up.
        """
        kind = next(filter(of_commands, likeness.kinds), "")
        if kind not in self._kinds:
            return None
        known = self._curves.setdefault(kind, {})
        if likeness.arguments not in known:
            if len(known) >= ASKED_MAX:
                known.clear()
            known[likeness.arguments] = _of_command(self.evidence(kind).runs, likeness.arguments)
        return known[likeness.arguments]

    def groups(
        self, likeness: Likeness, asked: int, curve: FittedCurve | None, *, newcomer: bool
    ) -> list[Group]:
        """What all kinds of a job say, the closest first; newcomer: of everything, evenly."""
        found: list[Group] = []
        for kind in with_sizes(likeness.kinds, asked):
            if closeness(kind) is Source.SAME_SCRIPT and found:
                continue  # Its runs say less, and some of them are those of the same file.
            if self.evidence(kind).ended:
                even = newcomer and closeness(kind) is Source.EVERYTHING
                found += self._of(kind, asked, likeness.arguments, curve, even=even)
        return found

    def _of(
        self, kind: Kind, asked: int, arguments: Arguments, curve: FittedCurve | None, *, even: bool
    ) -> list[Group]:
        evidence = self.evidence(kind)
        if all(run.size == asked for run in evidence.runs):
            curve = None  # There is nothing to convert.
        # A curve changes with the kind.
        points = () if curve is None else curve.points
        asking: _Asked = (asked, arguments, points)
        if closeness(kind) in FAR:
            asking = _EVEN if even else _PLAIN
        known = self._kept.setdefault(kind, {})
        if asking not in known:
            if len(known) >= ASKED_MAX:
                known.clear()
            if closeness(kind) in FAR:
                experts = self._far(kind, evidence, even=even)
                known[asking] = [Group(closeness(kind), evidence.ended, experts)]
            else:
                effects = self._effects_of(kind, evidence, curve, points)
                known[asking] = [
                    close_group(source, runs, asked, arguments, curve, effects)
                    for source, runs in _sources(kind, evidence, arguments)
                ]
        return known[asking]

    def _effects_of(
        self,
        kind: Kind,
        evidence: Evidence,
        curve: FittedCurve | None,
        points: tuple[Point, ...],
    ) -> Effects:
        """What arguments do to the lengths of a kind."""
        known = self._effects.setdefault(kind, {})
        if points not in known:
            known[points] = length_effects(evidence.runs, curve)
        return known[points]

    def _far(self, kind: Kind, evidence: Evidence, *, even: bool) -> list[Expert]:
        label, size = _label(kind), kind.removeprefix(EVERYTHING)
        if closeness(kind) is not Source.EVERYTHING:
            return far_experts(label, evidence.histograms)
        named = [user + size for user in self._kinds.users(USERS_MAX)]
        known = {name: self.evidence(name) for name in named if name in self._kinds}
        users = {name: user for name, user in known.items() if user.ended}
        if len(users) == 1:
            (name, user), *_ = users.items()
            if user.histograms == evidence.histograms:
                # The only user's forecasts are those of all: a third of what a run takes to learn.
                return [
                    expert._replace(label=f"{label} {memory(expert)}")
                    for group in self._of(name, 0, (), None, even=False)
                    for expert in group.experts
                ]
        found = self._even.setdefault(kind, EvenUsers()).experts(label, users) if even else []
        return found or far_experts(label, evidence.histograms)


def _of_command(runs: Sequence[Run], arguments: Arguments) -> FittedCurve | None:
    by_size: dict[int, list[float]] = {}
    for run in runs:
        if run.whole and run.arguments == arguments:
            by_size.setdefault(run.size, []).append(run.seconds or 0.0)
    points = tuple((size, median(by_size[size][-REPEATS_MAX:])) for size in sorted(by_size))
    return FittedCurve.through(points) if points else None


def length_effects(runs: Sequence[Run], curve: FittedCurve | None = None) -> Effects:
    """What arguments do to lengths at one size; curve: None: as they were at any."""
    rows = [
        (run.arguments, (run.seconds or 0.0) / (1.0 if curve is None else curve.seconds(run.size)))
        for run in runs
        if run.whole
    ]
    return Effects.of(rows, LENGTH, counting=counting(runs))


def _sources(
    kind: Kind, evidence: Evidence, arguments: Arguments
) -> Iterator[tuple[Source, list[Run]]]:
    """The runs of the same command among those of a kind, and all of them."""
    own = [run for run in evidence.runs if run.arguments == arguments]
    same = of_commands(kind) and any(run.whole for run in own)
    if same:
        yield Source.SAME_COMMAND, own
    if not same or len(own) < len(evidence.runs):
        yield closeness(kind), evidence.runs


def _label(kind: Kind) -> str:
    close = closeness(kind)
    return f"{close.value}{'#' if close in FAR and '#' in kind else ''}"
