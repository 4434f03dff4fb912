"""The forecasts of each kind, kept until a share of what is known of the kind is new.

One more run of many changes little and a forecast takes a millisecond. What forecasts rest on
follows from what was learned alone, not from when they were asked for: a replay learns the same.
"""

from treadle.models.fitted import Point
from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.even_users import EvenUsers
from treadle.models.learning.experts import Expert
from treadle.models.learning.kind_experts import close_experts, far_experts, memory
from treadle.models.learning.kind_history import RUNS_MAX, Evidence, History, Run
from treadle.models.learning.kinds import EVERYTHING, FAR, Kind, Source, closeness
from treadle.models.learning.known_kinds import KnownKinds

ASKED_MAX = 16  # sizes and numbers for which the forecasts of one kind are kept
GROWN = 0.05  # the share of runs that are new, from which on forecasts are made again
USERS_MAX = 256  # of those whose jobs ended last, for newcomers

# A size, the numbers of a command line, and the speeds that lengths are converted by.
_Asked = tuple[int, tuple[float, ...], tuple[Point, ...]]
_PLAIN: _Asked = (0, (), ())  # what far kinds say depends on none of these
_EVEN: _Asked = (-1, (), ())  # nor does what newcomers are told
_NOTHING = History().evidence()


class KeptExperts:
    """Forecasts by kind and by what was asked."""

    def __init__(self, kinds: KnownKinds) -> None:
        self._kinds = kinds
        self._evidence: dict[Kind, Evidence] = {}  # what forecasts of each kind rest on
        self._newer: dict[Kind, int] = {}  # runs since then
        self._kept: dict[Kind, dict[_Asked, list[Expert]]] = {}
        self._even: dict[Kind, EvenUsers] = {}  # of kinds of everything
        # Made last, of close kinds.
        self._newest: tuple[list[Run], _Asked, list[Expert]] | None = None

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
        for table in (self._evidence, self._newer, self._kept):
            table.pop(kind, None)
        if closeness(kind) is Source.SAME_USER:
            # All of a user's jobs are part of all jobs; those of one size, of all of that size.
            _, size, devices = kind.rpartition("#") if "#" in kind else ("", "", "")
            everything = f"{EVERYTHING}{size}{devices}"
            self._kept.pop(everything, None)
            if (even := self._even.get(everything)) is not None:
                even.forget(kind)

    def of(
        self, kind: Kind, asked: int, numbers: tuple[float, ...], curve: FittedCurve | None
    ) -> list[Expert]:
        """What a kind says by itself."""
        evidence = self.evidence(kind)
        if not evidence.ended:
            return []
        known = self._kept.setdefault(kind, {})
        if closeness(kind) in FAR:
            if _PLAIN not in known:
                known[_PLAIN] = far_experts(_label(kind), evidence.histograms)
            return known[_PLAIN]
        if all(run.size == asked for run in evidence.runs):
            curve = None  # There is nothing to convert.
        # A curve changes with the kind.
        points = () if curve is None else curve.points
        asking: _Asked = (asked, numbers, points)
        if asking not in known:
            if len(known) >= ASKED_MAX:
                known.clear()
            known[asking] = self._close(kind, evidence.runs, asking, curve)
        return known[asking]

    def _close(
        self, kind: Kind, runs: list[Run], asking: _Asked, curve: FittedCurve | None
    ) -> list[Expert]:
        """Once for kinds with the same runs: a script has mostly those of its one command."""
        if self._newest is None or self._newest[:2] != (runs, asking):
            asked, numbers, _ = asking
            self._newest = runs, asking, close_experts("", runs, asked, numbers, curve)
        label = _label(kind)
        return [one._replace(label=f"{label}{one.label}") for one in self._newest[2]]

    def of_all(self, kind: Kind, *, even: bool) -> list[Expert]:
        """What everything here says; `even`: with no user counting for more than another."""
        evidence = self.evidence(kind)
        if not evidence.ended:
            return []
        known = self._kept.setdefault(kind, {})
        asking = _EVEN if even else _PLAIN
        if asking not in known:
            known[asking] = self._all(kind, evidence, even=even)
        return known[asking]

    def _all(self, kind: Kind, evidence: Evidence, *, even: bool) -> list[Expert]:
        label, size = _label(kind), kind.removeprefix(EVERYTHING)
        named = [user + size for user in self._kinds.users(USERS_MAX)]
        known = {name: self.evidence(name) for name in named if name in self._kinds}
        users = {name: user for name, user in known.items() if user.ended}
        if len(users) == 1:
            (name, user), *_ = users.items()
            if user.histograms == evidence.histograms:
                # The only user's forecasts are those of all: a third of what a run takes to learn.
                return [
                    expert._replace(label=f"{label} {memory(expert)}")
                    for expert in self.of(name, 0, (), None)
                ]
        found = self._even.setdefault(kind, EvenUsers()).experts(label, users) if even else []
        return found or far_experts(label, evidence.histograms)


def _label(kind: Kind) -> str:
    close = closeness(kind)
    return f"{close.value}{'#' if close in FAR and '#' in kind else ''}"
