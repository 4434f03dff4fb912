"""Follows how far running jobs are: from their reports, or from what they print.

A job that reports for itself (treadle.report) is not read: its word is better than a guess.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from treadle.control.learning import progress_lines
from treadle.control.learning.job_learner import JobLearner
from treadle.control.learning.loss_watch import LossWatch
from treadle.control.learning.metering import Gauge
from treadle.control.learning.output_tail import output_tail
from treadle.core.attempt import LastProgress
from treadle.core.events import Event, JobProgressed, JobUpdated
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.ports import Clock, Engine, PerformanceModel
from treadle.core.scheduler import Scheduler
from treadle.core.sighting import WATCHED_S

logger = logging.getLogger("treadle")

TELL_S = 5.0  # the scheduler hears of a job's progress at most so often
DRIFT = 0.2  # a length that turns out so much different replaces the estimate
GROWN = 1.02  # a peak of memory that is so much higher is told at once
READ_MAX = 256  # jobs whose output is read in one round

# What else it needs to know of a job: its newest attempt, and its spec as it will be once all
# facts on their way have arrived.
Attempt = Callable[[JobId], AttemptId | None]
Spec = Callable[[Job], JobSpec]
Tell = Callable[[Event], None]


class ProgressWatch:
    """Progress on its way to the learner and to the scheduler."""

    def __init__(
        self,
        learner: JobLearner,
        scheduler: Scheduler,
        belief: PerformanceModel,
        clock: Clock,
        *,
        engine: Engine,
        attempt: Attempt,
        spec: Spec,
        tell: Tell,
    ) -> None:
        self._learner = learner
        self._scheduler = scheduler
        self._belief = belief
        self._clock = clock
        self._engine = engine
        self._attempt = attempt
        self._spec = spec
        self._tell = tell
        self._told_at: dict[JobId, float] = {}
        self._untold: set[JobId] = set()  # have said something since
        self._losses = LossWatch()
        # What was told: of which attempt, whether it was seen alone, and the peak of its memory.
        self._sighted: dict[JobId, tuple[AttemptId | None, bool, float]] = {}
        self._from = 0

    async def look(self) -> None:
        """Read the newest progress of jobs that only print it."""
        running = self._running()
        self._from = self._from + READ_MAX if self._from + READ_MAX < len(running) else 0
        for job in running[self._from : self._from + READ_MAX]:
            attempt = self._attempt(job.id)
            heard = self._learner.progress(job.id)
            if attempt is not None and (heard is None or heard.source != "report"):
                await self._read(job, attempt)
        rows = self._scheduler.jobs
        for name in [name for name in self._told_at if name not in rows]:
            del self._told_at[name]
            self._untold.discard(name)
        # A job may say nothing for long after this, or be paused: it must outlive this process.
        now = self._clock.now()
        for fact in self._untold_of(
            n
            for n in self._untold
            if now - self._told_at.get(n, -TELL_S) >= TELL_S or _rests(rows, n)
        ):
            self._tell(fact)
        self._losses.keep(self._scheduler.jobs)

    def _running(self) -> list[Job]:
        return [job for job in self._scheduler.jobs.values() if job.phase is Phase.RUNNING]

    def sight(self) -> None:
        """Tell what running jobs were seen to use."""
        for job in self._running():
            if (attempt := self._attempt(job.id)) is not None:
                self._sight(job.id, attempt)
        self._sighted = {
            job: at for job, at in self._sighted.items() if job in self._scheduler.jobs
        }

    def _sight(self, job: JobId, attempt: AttemptId) -> None:
        """What a job was seen to use: others like it wait to know.

        Once, and again when it needs more memory than before, e.g. in its first evaluation.
        """
        row, seen = self._scheduler.jobs.get(job), self._learner.sighting(attempt)
        if row is None or seen is None:
            return
        alone = seen.alone_s >= WATCHED_S
        if not alone and seen.busy_beside is None:
            return
        peak_gib = seen.device_memory_peak_gib or 0.0
        before, knew_alone, known_gib = self._sighted.get(job, (None, False, 0.0))
        more = before != attempt or alone > knew_alone or peak_gib > GROWN * known_gib
        if more and self._attempt(job) == attempt:
            self._sighted[job] = (attempt, alone, peak_gib)
            done, speed = row.iterations_at(self._clock.now()), row.iterations_per_s
            self._tell(
                JobProgressed(job, row.action, done, speed, self._learner.progress(job), seen)
            )

    async def _read(self, job: Job, attempt: AttemptId) -> None:
        data, _ = await output_tail(self._engine, attempt, 0, progress_lines.TAIL_BYTES)
        seen = progress_lines.read(data.decode("utf-8", errors="replace"))
        row = self._scheduler.jobs.get(job.id)
        # While its output was read, the job may have ended or been started again.
        if seen is not None and row is not None and self._attempt(job.id) == attempt:
            self.hear(row, seen.step, seen.total, loss=seen.loss, source="log")

    def hear(
        self,
        row: Job,
        step: float,
        total: float | None,
        *,
        loss: float | None,
        source: str,
        at: float | None = None,
        checkpoint: float | None = None,
        stages: tuple[tuple[str, float], ...] | None = None,
    ) -> None:
        """A running job is so far.

        at: when it said so; None: now. checkpoint: the share of the work that is safe, if it said.
        stages: seconds of a step; None: as it said before.
        """
        now, gauge_before = self._before(row.id, at)
        if loss is not None:
            self._losses.see(row.id, step, loss)
        # What is shown needs a total that the job said. What policies go by may be predicted.
        whole = total or self._losses.end(row.id)
        company = _company(self._scheduler, row)
        gauge = self._learner.meter.see(row.id, step, whole, now, company) if whole else None
        share_per_s = None if gauge is None else gauge.share_per_s()
        before = self._learner.progress(row.id)
        per_s = share_per_s * whole if share_per_s is not None and whole else None
        if before is not None:
            if per_s is None and before.total == total and before.alone is not bool(company):
                per_s = before.per_s
            checkpoint = before.checkpoint if checkpoint is None else checkpoint
            stages = before.stages if stages is None else stages
        if self._learner.seen.had_company(row.id, company):
            stages = ()  # They are means over all of its time, and not those of a job alone.
        said = LastProgress(
            step,
            total,
            per_s,
            loss,
            source,
            checkpoint=checkpoint,
            alone=not company,
            stages=stages or (),
        )
        if gauge is not None:
            said = replace(
                said,
                share=gauge.seen_share,
                share_per_s=share_per_s,
                measured_s=gauge.seen_at - gauge.from_at,
                speeds=gauge.speeds(),
            )
        try:
            facts = self._facts(row, said, gauge)
        except Exception:  # A report that is refused was not heard: no later one builds on it.
            self._learner.meter.put_back(row.id, gauge_before)
            raise
        self._learner.hear(row.id, said)
        self._learner.seen.progressed(row.id, now)
        # Later ones follow every few seconds.
        news = checkpoint is not None and (before is None or before.checkpoint is None)
        # The first speed at a size: policies have gone by an assumption until now.
        news |= share_per_s is not None and (before is None or before.share_per_s is None)
        self._untold.add(row.id)
        if news or now - self._told_at.get(row.id, -TELL_S) >= TELL_S:
            self._told_at[row.id] = now
            self._untold.discard(row.id)
            for fact in facts:
                self._tell(fact)

    def _before(self, job: JobId, at: float | None) -> tuple[float, Gauge | None]:
        """The moment of a report, and a copy of what was seen before it."""
        now, gauge = self._clock.now(), self._learner.gauge(job)
        if gauge is None:
            return now, None
        # A moment that was told does not go back: its output may have been read since then.
        moment = now if at is None else max(min(now, at), gauge.seen_at)
        return moment, replace(gauge)

    def untold(self) -> list[Event]:
        """What jobs have said that the scheduler has not heard: for one who leaves."""
        return self._untold_of(self._untold)

    def _untold_of(self, names: Iterable[JobId]) -> list[Event]:
        facts: list[Event] = []
        for name in sorted(names):
            self._untold.discard(name)
            self._told_at[name] = self._clock.now()
            row, said = self._scheduler.jobs.get(name), self._learner.progress(name)
            if row is None or row.phase not in {Phase.RUNNING, Phase.PAUSED} or said is None:
                continue
            try:
                facts += self._facts(row, said, self._learner.gauge(name))
            except Exception:  # What one job said must not cost the others their progress.
                logger.exception("the last progress of job %s is lost", name)
        return facts

    def _facts(self, row: Job, said: LastProgress, gauge: Gauge | None) -> list[Event]:
        """What the scheduler is to know, in seconds at the asked size."""
        facts: list[Event] = []
        spec, now = self._spec(row), self._clock.now()
        done, speed = row.iterations_at(now), row.iterations_per_s
        if gauge is not None and said.share_per_s is not None:
            alone = self._belief.alone
            relative = alone(spec, row.attempt_size) / alone(spec, spec.asked)
            work = relative / said.share_per_s  # seconds at the asked size, for all of it
            if abs(work / spec.iterations - 1.0) > DRIFT:
                spec = replace(spec, iterations=work)
                facts.append(JobUpdated(spec))
            speed = said.share_per_s * spec.iterations
        if gauge is not None:
            done = gauge.seen_share * spec.iterations
        return [*facts, JobProgressed(row.id, row.action, done, speed, said)]


def _company(scheduler: Scheduler, row: Job) -> tuple[JobId, ...]:
    """The other jobs on its devices."""
    tenants = scheduler.tenancy.tenants
    held = () if row.allocation is None else row.allocation.devices
    names = {name for device in held for name in tenants.get(device, {}).values()}
    return tuple(sorted(names - {row.id}))


def _rests(rows: Mapping[JobId, Job], job: JobId) -> bool:
    return job in rows and rows[job].phase is Phase.PAUSED
