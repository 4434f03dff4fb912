"""One cell of the league: a policy on a workload with a seed, and its figures."""

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.league.lower_bounds import ROUNDING, lower_bounds
from treadle.reports.metrics import Summary
from treadle.reports.recorder import Recorder
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

_RESAMPLES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one cell; seconds, over finished jobs."""

    jobs: int
    finished: int
    failed: int  # as the trace or its faults have it, under every policy
    unfinished: int  # or never started
    mean_s: float
    p99_s: float
    longest_s: float  # of any job
    makespan_s: float
    unfairness: float  # the 99th percentile of finish-time fairness; 1 is an equal share
    moves: int  # restarts, resizes and moves
    decide_cpu_s: float
    cpu_s: float  # of the simulation
    peak_mb: float  # memory of its process until then
    bound_alone_s: float
    bound_shared_s: float
    # Means of jobs drawn again. The draws depend on the seed alone, so that of two policies on
    # the same jobs the ratios of these means have what both share cancelled.
    resampled_s: tuple[float, ...]

    @property
    def doubt(self) -> str:
        """Why the figures must not be ranked; empty if they may."""
        if self.unfinished:
            return f"{self.unfinished:,} of {self.jobs:,} jobs did not finish"
        if not self.finished:
            return "no job finished"
        if self.mean_s < self.bound_shared_s * (1 - ROUNDING):
            return (
                f"its mean of {self.mean_s:.6g} s is below the lower bound of "
                f"{self.bound_shared_s:.6g} s: the simulation or the bound is wrong"
            )
        return ""


def run_cell(workload: Workload, cluster: Cluster, settings: Settings) -> Figures:
    """Simulate, measure, and compute the bounds for the jobs that finished."""
    begun_s = time.process_time()
    experiment = prepare(workload, cluster, settings, stopwatch=time.process_time)
    summary = experiment.finish()
    spent = time.process_time() - begun_s, _peak_mb()
    return _figures(summary, experiment.recorder, experiment.jobs, cluster, settings, spent)


def _figures(
    summary: Summary,
    recorder: Recorder,
    jobs: Sequence[JobSpec],
    cluster: Cluster,
    settings: Settings,
    spent: tuple[float, float],
) -> Figures:
    ended = {
        identity: history.ended_at - history.submitted_at
        for identity, history in recorder.histories.items()
        if history.status == "finished" and history.ended_at is not None
    }
    bounds = lower_bounds([job for job in jobs if job.id in ended], cluster, settings)
    return Figures(
        jobs=summary.jobs,
        finished=summary.finished,
        failed=summary.failed,
        unfinished=summary.jobs - summary.finished - summary.failed,
        mean_s=summary.jct_mean_s or 0.0,
        p99_s=summary.jct_p99_s or 0.0,
        longest_s=max(ended.values(), default=0.0),
        makespan_s=summary.makespan_s or 0.0,
        unfairness=summary.fairness_p99 or 0.0,
        moves=summary.restarts + summary.resizes + summary.moves,
        decide_cpu_s=summary.decide_cpu_s,
        cpu_s=spent[0],
        peak_mb=spent[1],
        bound_alone_s=bounds.alone_s,
        bound_shared_s=bounds.shared_s,
        resampled_s=tuple(_resampled(list(ended.values()), settings.seed)),
    )


def _peak_mb() -> float:
    """The most memory that this process has had; Linux counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resampled(values: Sequence[float], seed: int) -> list[float]:
    """Means by bootstrap over jobs; they say how much a few jobs weigh."""
    if not values:
        return []
    import numpy as np  # noqa: PLC0415  # loads slowly

    generator = np.random.default_rng(seed)
    drawn = np.asarray(values)
    return [float(generator.choice(drawn, size=len(drawn)).mean()) for _ in range(_RESAMPLES)]
