"""Go on from where a live scheduler stands, by arithmetic: what would happen if nothing else came.

The policy is the live one and the scheduler a twin of it; what is left of each job is taken as it
is believed, or stretched, since nobody knows it for certain.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from treadle.core.actions import Action, Start
from treadle.core.events import Event, JobStarted, JobStopped
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel
from treadle.core.scheduler import Scheduler
from treadle.sim.engine import Running, SimulatedEngine
from treadle.sim.run import Simulation

OVERDUE = 0.05  # share of its work that a job which should have ended is taken to have left


class LiveStateEngine(SimulatedEngine):
    """Runs what a scheduler says is running."""

    def __init__(
        self, scheduler: Scheduler, truth: PerformanceModel, *, now: float, stretch: float = 1.0
    ) -> None:
        super().__init__((), truth)
        self._now = now
        for job in scheduler.jobs.values():
            self._take_over(job, now, stretch)
        for run in self._runs.values():
            if scheduler.jobs[run.spec.id].phase is Phase.RUNNING:
                run.speed = self._speed(run)
                self._expect_end(run, now)

    def _take_over(self, job: Job, now: float, stretch: float) -> None:
        done = job.iterations_at(now)
        left = max(job.remaining_at(now), OVERDUE * job.spec.iterations) * stretch
        spec = replace(job.spec, iterations=done + left)
        self._specs[job.id] = spec
        if job.allocation is None:
            self._paused[job.id] = (done, job.starts)
            if job.phase is not Phase.WAITING:
                self._reports.append(JobStopped(job.id, job.action, done))
            return
        run = Running(spec, job.allocation, job.action, job.starts, done, 0.0, now, done)
        self._runs[job.id] = run
        self._occupy(job.id, run)
        if job.phase is Phase.STARTING:
            run.speed = self._truth.alone(spec, job.allocation.size)
            self._expect_end(run, now)
            self._reports.append(JobStarted(job.id, job.action, done, run.speed))


class _Found(Exception):  # noqa: N818  # It is no error.
    """What was looked for has happened."""


def starts_in(
    scheduler: Scheduler,
    truth: PerformanceModel,
    job: JobId,
    *,
    now: float,
    stretch: float,
    horizon_s: float,
    steps_max: int,
) -> float | None:
    """Seconds until that waiting job would start; None if not within the horizon or the steps."""
    twin = scheduler.fork()
    engine = LiveStateEngine(twin, truth, now=now, stretch=stretch)
    started_at = inf
    steps = 0

    def watch(
        at: float,
        events: Sequence[Event],  # noqa: ARG001
        actions: Sequence[Action],
        scheduler: Scheduler,  # noqa: ARG001
    ) -> None:
        nonlocal started_at, steps
        steps += 1
        if any(isinstance(action, Start) and action.job == job for action in actions):
            started_at = at
            raise _Found
        if steps >= steps_max:
            raise _Found

    with contextlib.suppress(_Found):
        Simulation(twin, engine, observers=(watch,)).run(until=now + horizon_s)
    return started_at - now if started_at < inf else None
