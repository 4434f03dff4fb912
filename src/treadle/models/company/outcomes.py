"""Is the company worse than predicted? A pure judge of measured speeds, fed every few seconds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.core.job import JobId
from treadle.models.company.predictor import doubt

PATIENCE_S = 20.0  # so long it must be bad before jobs are parted
SUM_MIN = 1.0  # below it, one after the other gets more done


class Outcome(NamedTuple):
    """One measurement of a group: for each member the share of its speed alone."""

    predicted: Mapping[JobId, float]
    measured: Mapping[JobId, float]  # of those among them whose speed is known
    mps: bool = False


class CompanyWatch:
    """How long each group has been worse than it may be."""

    def __init__(self, *, floor: float, patience_s: float = PATIENCE_S) -> None:
        self._floor = floor
        self._patience_s = patience_s
        self._bad_since: dict[frozenset[JobId], float] = {}

    def part(self, outcome: Outcome, now: float) -> str | None:
        """Why these jobs are to be parted now, or None."""
        group = frozenset(outcome.predicted)
        wrong = worse(outcome, self._floor)
        if wrong is None:
            self._bad_since.pop(group, None)
            return None
        since = self._bad_since.setdefault(group, now)
        return wrong if now - since >= self._patience_s else None

    def forget(self, present: Sequence[frozenset[JobId]]) -> None:
        """Only these groups are still together."""
        self._bad_since = {g: at for g, at in self._bad_since.items() if g in present}


def worse(outcome: Outcome, floor: float) -> str | None:
    """What is wrong with the company at this moment, in words, or None."""
    together = sum(outcome.measured.values())
    if together < SUM_MIN and outcome.measured.keys() == outcome.predicted.keys():
        return f"together they get {together:.2f} times as much done as one alone"
    least = floor - doubt(mps=outcome.mps)
    for job, share in sorted(outcome.measured.items()):
        if share < least:
            return f"job {job} keeps {share:.2f} of its speed alone; at least {floor:.2f} was meant"
    return None
