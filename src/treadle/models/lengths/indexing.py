"""The Gittins index of a job, by what the belief knows of its length.

A policy asks `indexer(belief)` instead of reading the job. A belief that knows lengths gives one
over what is left, so the order by it is that of the shortest remaining time. A belief that has only
the distribution of jobs like it gives the index of that, at the job's age.
"""

from typing import Protocol, runtime_checkable

from treadle.core.job import Job
from treadle.core.ports import InterleavingModel, PerformanceModel
from treadle.models.forecasts import Forecast, Forecaster, Known
from treadle.models.model_wrapper import ModelWrapper

LEFT_MIN_S = 1e-3


@runtime_checkable
class Indexer(Protocol):
    """Says how soon a job may end for the time that it is given."""

    def index(self, job: Job, now: float) -> float:
        """Ends per second of running at the asked size; higher goes first."""
        ...


@runtime_checkable
class KnowsLengths(Indexer, Forecaster, Protocol):
    """Both at once: what is known of lengths."""


class KnownLengths(Known):
    """What is known of jobs that say how long they are."""

    def __init__(self, belief: PerformanceModel) -> None:
        self._belief = belief

    def index(self, job: Job, now: float) -> float:
        left_s = job.order_at(now) / self._belief.alone(job.spec, job.spec.asked)
        return 1.0 / max(LEFT_MIN_S, left_s)


class LengthAware:
    """A belief that is asked about lengths, and passes the question on."""

    lengths: KnowsLengths

    def index(self, job: Job, now: float) -> float:
        return self.lengths.index(job, now)

    def forecast(self, job: Job, now: float) -> Forecast:
        return self.lengths.forecast(job, now)

    def trusting(self, job: Job, now: float) -> float:
        return self.lengths.trusting(job, now)


class WithLengths(LengthAware, ModelWrapper):
    """A belief about speeds, with what another knows of lengths."""

    def __init__(self, model: InterleavingModel, lengths: KnowsLengths) -> None:
        super().__init__(model)
        self.lengths = lengths


def indexer(belief: PerformanceModel) -> Indexer:
    """What this belief knows of lengths."""
    return belief if isinstance(belief, Indexer) else KnownLengths(belief)
