"""The estimated remaining work of a job: the true one, unless the belief has to predict it.

A policy asks `forecaster(belief)` instead of reading the job. Most beliefs know the length of jobs,
and then both give the same answer. A belief that predicts may be wrong, and says whether its
prediction can be relied on.
"""

from typing import NamedTuple, Protocol, runtime_checkable

from treadle.core.job import Job
from treadle.core.ports import InterleavingModel, PerformanceModel
from treadle.models.model_wrapper import ModelWrapper


class Forecast(NamedTuple):
    """An estimate for one job at one moment."""

    remaining: float  # iterations
    predictable: bool  # False: only a guess, do not rely on it


@runtime_checkable
class Forecaster(Protocol):
    """Estimates the remaining work of a job."""

    def forecast(self, job: Job, now: float) -> Forecast: ...

    def trusting(self, job: Job, now: float) -> float:
        """Iterations left if one form of curve is fitted to every job and always believed."""
        ...


class Known:
    """The forecaster of jobs that say how long they are."""

    def forecast(self, job: Job, now: float) -> Forecast:
        return Forecast(job.order_at(now), predictable=True)

    def trusting(self, job: Job, now: float) -> float:
        return job.order_at(now)


_KNOWN = Known()


def forecaster(belief: PerformanceModel) -> Forecaster:
    """The forecaster of this belief."""
    return belief if isinstance(belief, Forecaster) else _KNOWN


class Forecasting(ModelWrapper):
    """A belief about speeds, with lengths from a separate forecaster."""

    def __init__(self, model: InterleavingModel, lengths: Forecaster) -> None:
        super().__init__(model)
        self._lengths = lengths

    def forecast(self, job: Job, now: float) -> Forecast:
        return self._lengths.forecast(job, now)

    def trusting(self, job: Job, now: float) -> float:
        return self._lengths.trusting(job, now)
