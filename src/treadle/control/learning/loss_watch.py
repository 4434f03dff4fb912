"""Where the losses of running jobs lead: the step at which each is expected to stop falling.

Of a job that counts its steps without saying how many there will be, the losses that it reports or
prints are all that tells its end. AITurbo's model is fitted to them (`models/losses.py`), and the
end counts only while the job is predictable (`models/predictability.py`). The losses are fitted
again after that many times as many, so that a job that reports each second costs a few fits.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isfinite

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId
from treadle.models.losses import fit
from treadle.models.predictability import POINTS_MIN, Evidence, Standing

POINTS_MAX = 400  # of one job; then every other is dropped
REFIT = 1.3  # times as many losses as at the last fit
# A job has converged once, three times in a row, ten reports lowered its loss by less than this.
DROP = 0.01
PATIENCE = 3
REPORTS = 10


@dataclass(slots=True)
class _Losses:
    """What one job has reported in its present attempt."""

    steps: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    every: int = 1  # of this many reports, one is kept
    seen: int = 0
    fitted: int = 0  # losses at the last fit
    epoch: float = 0.0  # steps of ten reports, as they were at the first fit
    standing: Standing = field(default_factory=Standing)


class LossWatch:
    """The losses of running jobs."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, _Losses] = {}

    def see(self, job: JobId, step: float, loss: float) -> None:
        """A job reports a loss."""
        known = self._jobs.setdefault(job, _Losses())
        if known.steps and step < known.steps[-1]:
            known = self._jobs[job] = _Losses()  # It started over.
        if not (isfinite(loss) and loss > 0 and step > 0) or step in known.steps[-1:]:
            return
        known.seen += 1
        if known.seen % known.every == 0:
            known.steps.append(step)
            known.losses.append(loss)
        if len(known.steps) > POINTS_MAX:
            del known.steps[1::2], known.losses[1::2]
            known.every *= 2
            known.fitted = min(known.fitted, len(known.steps) // 2)
        count = len(known.steps)
        if count >= max(POINTS_MIN, REFIT * known.fitted):
            known.fitted = count
            _refit(known)

    def end(self, job: JobId) -> float | None:
        """The step at which it has converged; None if that cannot be predicted."""
        known = self._jobs.get(job)
        if known is None or not known.standing.predictable:
            return None
        return max(known.standing.ends[-1], known.steps[-1])

    def keep(self, jobs: Iterable[JobId]) -> None:
        """Forget all others."""
        left = set(jobs)
        self._jobs = {job: known for job, known in self._jobs.items() if job in left}


def _refit(known: _Losses) -> None:
    try:
        found = fit(known.steps, known.losses)
    except InvalidInputError:
        return
    if not known.epoch:
        known.epoch = REPORTS * (known.steps[-1] - known.steps[0]) / (len(known.steps) - 1)
    try:
        end = found.curve.settles(drop=DROP, patience=PATIENCE, epoch=known.epoch)
    except OverflowError:  # It falls for ever.
        end = inf
    done = min(1.0, known.steps[-1] / end) if 0 < end < inf else 0.0
    evidence = Evidence.of(found, points=len(known.steps), done=done, end=end)
    known.standing = known.standing.after(evidence)
