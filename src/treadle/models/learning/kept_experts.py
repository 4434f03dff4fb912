"""The forecasts of each kind, kept until something is learned of the kind."""

from treadle.models.fitted import Point
from treadle.models.learning.curves import Curve, FittedCurve
from treadle.models.learning.even_users import EvenUsers
from treadle.models.learning.experts import Expert
from treadle.models.learning.kind_experts import close_experts, far_experts, memory
from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import EVERYTHING, FAR, Kind, Source, closeness
from treadle.models.learning.known_kinds import KnownKinds

ASKED_MAX = 16  # sizes and numbers for which the forecasts of one kind are kept
USERS_MAX = 256  # of those whose jobs ended last, for newcomers

# A size, the numbers of a command line, and the speeds that lengths are converted by.
_Asked = tuple[int, tuple[float, ...], tuple[Point, ...]]
_PLAIN: _Asked = (0, (), ())  # what far kinds say depends on none of these
_EVEN: _Asked = (-1, (), ())  # nor does what newcomers are told


class KeptExperts:
    """Forecasts by kind and by what was asked."""

    def __init__(self) -> None:
        self._kept: dict[Kind, dict[_Asked, list[Expert]]] = {}
        self._even: dict[Kind, EvenUsers] = {}  # of kinds of everything

    def forget(self, kind: Kind) -> None:
        """Something was learned of this kind, or it is not remembered any more."""
        self._kept.pop(kind, None)
        if closeness(kind) is Source.SAME_USER:
            # All of a user's jobs are part of all jobs; those of one size, of all of that size.
            _, size, devices = kind.rpartition("#") if "#" in kind else ("", "", "")
            if (even := self._even.get(f"{EVERYTHING}{size}{devices}")) is not None:
                even.forget(kind)

    def of(
        self,
        kind: Kind,
        history: History | None,
        asked: int,
        numbers: tuple[float, ...],
        curve: Curve | None,
    ) -> list[Expert]:
        """What a kind says by itself."""
        if history is None or not history.ended:
            return []
        far = closeness(kind) in FAR
        # A curve changes with the kind.
        points = curve.points if isinstance(curve, FittedCurve) else ()
        asking: _Asked = _PLAIN if far else (asked, numbers, points)
        known = self._kept.setdefault(kind, {})
        found = known.get(asking)
        if found is None:
            if len(known) >= ASKED_MAX:
                known.clear()
            label = _label(kind)
            found = known[asking] = (
                far_experts(label, history)
                if far
                else close_experts(label, history, asked, numbers, curve)
            )
        return found

    def of_all(self, kind: Kind, kinds: KnownKinds, *, even: bool) -> list[Expert]:
        """What everything here says; `even`: with no user counting for more than another."""
        history = kinds.get(kind)
        if history is None or not history.ended:
            return []
        known = self._kept.setdefault(kind, {})
        asking = _EVEN if even else _PLAIN
        found = known.get(asking)
        if found is None:
            found = known[asking] = self._all(kind, history, kinds, even=even)
        return found

    def _all(self, kind: Kind, history: History, kinds: KnownKinds, *, even: bool) -> list[Expert]:
        label, size = _label(kind), kind.removeprefix(EVERYTHING)
        named = ((user + size, kinds.get(user + size)) for user in kinds.users(USERS_MAX))
        users = {name: user for name, user in named if user is not None and user.ended}
        if len(users) == 1:
            (name, user), *_ = users.items()
            if user.histograms == history.histograms:
                # The only user's forecasts are those of all: a third of what a run takes to learn.
                return [
                    expert._replace(label=f"{label} {memory(expert)}")
                    for expert in self.of(name, user, 0, (), None)
                ]
        found = self._even.setdefault(kind, EvenUsers()).experts(label, users) if even else []
        return found or far_experts(label, history)


def _label(kind: Kind) -> str:
    close = closeness(kind)
    return f"{close.value}{'#' if close in FAR and '#' in kind else ''}"
