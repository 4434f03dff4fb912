"""The learner: observations of jobs in, seconds of a unit of work by size out.

It is deterministic and reads no clock: the same observations in the same order give the same
state, so that replaying a journal's ends rebuilds what was learned. Its state is `by_size` of each
kind, plain numbers that the live controller stores as one row for each kind.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treadle.models.learning.kinds import Kind
from treadle.models.learning.observations import Observation
from treadle.models.learning.rules import Rules
from treadle.models.learning.speeds import Speeds

Stored = tuple[Kind, dict[int, list[float]]]  # a kind and its `Speeds.by_size`


class Known(NamedTuple):
    """What was learned of one kind."""

    kind: Kind
    speeds: Speeds
    version: int  # above 0; changes with the answers, and no two kinds ever have the same


class Learner:
    """Speeds by kind of job."""

    def __init__(self, rules: Rules, stored: Iterable[Stored] = ()) -> None:
        """`stored`: what an earlier learner knew, the kind that changed last at the end."""
        self.rules = rules
        self._versions = 0
        self._known: dict[Kind, Known] = {}  # the kind that changed last stands last
        for kind, by_size in stored:
            self._keep(kind, Speeds(rules, by_size))
        self._changed: dict[Kind, None] = {}

    def observe(self, kinds: Sequence[Kind], seen: Observation) -> None:
        """Take in what a job of these kinds was seen to do."""
        if not seen.counts:
            return
        for kind in kinds:
            known = self._known.get(kind)
            speeds = Speeds(self.rules) if known is None else known.speeds
            if speeds.add(seen.size, seen.seconds):
                self._keep(kind, speeds)
                self._changed[kind] = None

    def closest(self, kinds: Sequence[Kind]) -> Known | None:
        """What is known of the first of these kinds that was seen; None if none was."""
        for kind in kinds:
            known = self._known.get(kind)
            if known is not None:
                return known
        return None

    def changes(self) -> list[Stored]:
        """Kinds that changed since this was last asked, as they are now."""
        changed = [
            (kind, self._known[kind].speeds.by_size)
            for kind in self._changed
            if kind in self._known
        ]
        self._changed = {}
        return changed

    def _keep(self, kind: Kind, speeds: Speeds) -> None:
        self._versions += 1
        self._known.pop(kind, None)
        self._known[kind] = Known(kind, speeds, self._versions)
        while len(self._known) > self.rules.kinds_max:
            del self._known[next(iter(self._known))]
