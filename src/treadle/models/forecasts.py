"""What is believed to be left of a job: the truth, unless a belief says that it must predict.

A policy asks `forecaster(belief)` and not the job's row. Most beliefs know how long jobs are, and
then both say the same; a belief that forecasts has its own opinion, which may be wrong, and says
whether it stands by it.
"""

from typing import NamedTuple, Protocol, runtime_checkable

from treadle.core.job import Job
from treadle.core.ports import InterleavingModel, PerformanceModel
from treadle.models.model_wrapper import ModelWrapper


class Forecast(NamedTuple):
    """An opinion about one job at one moment."""

    remaining: float  # iterations
    predictable: bool  # False: a guess that nobody should rely on


@runtime_checkable
class Forecaster(Protocol):
    """Somebody who has an opinion on how much is left of a job."""

    def forecast(self, job: Job, now: float) -> Forecast: ...

    def trusting(self, job: Job, now: float) -> float:
        """Iterations left to somebody who fits one curve to every job and believes it."""
        ...


class _Known:
    """The forecaster of jobs that say how long they are."""

    def forecast(self, job: Job, now: float) -> Forecast:
        return Forecast(job.remaining_at(now), predictable=True)

    def trusting(self, job: Job, now: float) -> float:
        return job.remaining_at(now)


_KNOWN = _Known()


def forecaster(belief: PerformanceModel) -> Forecaster:
    """Whom to ask about lengths under this belief."""
    return belief if isinstance(belief, Forecaster) else _KNOWN


class Forecasting(ModelWrapper):
    """A belief about speeds with somebody else's opinion about lengths."""

    def __init__(self, model: InterleavingModel, lengths: Forecaster) -> None:
        super().__init__(model)
        self._lengths = lengths

    def forecast(self, job: Job, now: float) -> Forecast:
        return self._lengths.forecast(job, now)

    def trusting(self, job: Job, now: float) -> float:
        return self._lengths.trusting(job, now)
