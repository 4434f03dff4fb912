"""Looks at running jobs every little while: what they print about their progress.

A job that reports for itself (treadle.report) is not read; its word is better than a guess.
"""

from dataclasses import replace

from treadle.control.api.accounts import may_touch
from treadle.control.jobs.desk import Desk
from treadle.control.jobs.records import JobRecord
from treadle.control.learning import progress_lines
from treadle.control.learning.metering import Gauge
from treadle.core.events import JobProgressed, JobUpdated
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.engines.node import output as logs
from treadle.engines.node.folders import Folders
from treadle.wire.jobs import Progress, Report
from treadle.wire.machine import Who
from treadle.wire.problems import ConflictError, InvalidRequestError, NotAllowedError, NotFoundError

EVERY_S = 2.0
TELL_S = 5.0  # the scheduler hears of a job's progress at most so often
DRIFT = 0.2  # a length that turns out so much different is believed anew
READ_MAX = 256  # jobs whose output is looked at in one round


class Watching:
    """Reports and printed progress, on their way to records and to the scheduler."""

    def __init__(self, desk: Desk, folders: Folders) -> None:
        self._desk = desk
        self._folders = folders
        self._told_at: dict[JobId, float] = {}
        self._turn = 0

    async def report(self, who: Who, identity: str, report: Report) -> None:
        """A job says how far it is."""
        if who.job and who.job != identity:
            raise NotAllowedError(f"this token reports on job {who.job}, not on {identity}")
        record = self._desk.records.get(identity)
        if record is None:
            raise NotFoundError(f"there is no job {identity!r} that runs")
        if not who.job:
            may_touch(who, record)
        _check(report)
        row = self._desk.row(identity)
        if row is None or row.phase is not Phase.RUNNING:
            raise ConflictError(f"job {identity} does not run")
        total = report.total
        if total is None and record.progress is not None:
            total = record.progress.total
        if total is not None and report.step > total:
            raise InvalidRequestError(
                f"step is {report.step:g} of {total:g}; expected no more than the total"
            )
        if report.checkpoint is not None and total:
            record.checkpoint = min(report.step, report.checkpoint) / total
        self._heard(record, row, report.step, total, report.loss, "report")

    def look(self) -> None:
        """Read the newest progress of jobs that only print it."""
        running = [job for job in self._desk.scheduler.jobs.values() if job.phase is Phase.RUNNING]
        self._turn = self._turn + READ_MAX if self._turn + READ_MAX < len(running) else 0
        for job in running[self._turn : self._turn + READ_MAX]:
            record = self._desk.records.get(job.id)
            if record is None or (record.progress and record.progress.source == "report"):
                continue
            folder = self._folders.path(job.id, record.attempts)
            end = logs.read(
                folder, 0, offset=-progress_lines.TAIL_BYTES, limit=progress_lines.TAIL_BYTES
            )
            seen = progress_lines.read(end.data.decode("utf-8", errors="replace"))
            if seen is not None:
                self._heard(record, job, seen.step, seen.total, seen.loss, "log")
        gone = [name for name in self._told_at if name not in self._desk.scheduler.jobs]
        for name in gone:
            del self._told_at[name]

    def _heard(
        self,
        record: JobRecord,
        row: Job,
        step: float,
        total: float | None,
        loss: float | None,
        source: str,
    ) -> None:
        now = self._desk.clock.now()
        gauge = self._desk.meter.see(record.id, step, total, now) if total else None
        share_per_s = None if gauge is None else gauge.share_per_s()
        per_s = share_per_s * total if share_per_s is not None and total else None
        before = record.progress
        if per_s is None and before is not None and before.total == total:
            per_s = before.per_s
        record.progress = Progress(step=step, total=total, per_s=per_s, loss=loss, source=source)
        record.known = record.known or share_per_s is not None
        if gauge is None or now - self._told_at.get(record.id, 0.0) < TELL_S:
            return
        self._told_at[record.id] = now
        self._tell(row, gauge, share_per_s)

    def _tell(self, row: Job, gauge: Gauge, share_per_s: float | None) -> None:
        """Let the scheduler know, in seconds at the asked size."""
        spec = self._desk.spec(row)
        if share_per_s is None:
            speed = row.iterations_per_s
        else:
            alone = self._desk.belief.alone
            relative = alone(spec, row.size) / alone(spec, spec.asked)
            work = relative / share_per_s  # seconds at the asked size, for all of it
            if abs(work / spec.iterations - 1.0) > DRIFT:
                spec = replace(spec, iterations=work)
                self._desk.tell(JobUpdated(spec))
            speed = share_per_s * spec.iterations
        done = gauge.seen_share * spec.iterations
        self._desk.tell(JobProgressed(row.id, row.action, done, speed))


def _check(report: Report) -> None:
    for name in ("step", "total", "checkpoint"):
        value = getattr(report, name)
        if value is not None and not 0 <= value < 1e15:
            raise InvalidRequestError(f"{name} is {value:g}; expected a number from 0")
    if report.loss is not None and report.loss != report.loss:  # not a number
        raise InvalidRequestError("loss is not a number")
