"""Reports of running jobs about themselves: checked, then heard."""

import asyncio
import logging
from collections.abc import Callable

from treadle.control.api.accounts import may_touch
from treadle.control.api.context import Context
from treadle.control.learning import ProgressWatch
from treadle.core.job import JobId
from treadle.core.job_report import STAGES, JobReport, Report
from treadle.core.lifecycle import Phase
from treadle.wire.machine import Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    NotKnownError,
    RequestError,
)

logger = logging.getLogger("treadle")

EARLY_S = 1.0  # a start that was told is on record by then, or the report is heard later
SECONDS_MAX = 1e6
STEPS_MAX = 1e15  # up to here a step more can be told from a step less


class Reporting:
    """Takes reports in."""

    def __init__(
        self,
        context: Context,
        progress: ProgressWatch,
        who_of_token: Callable[[str], Who | None],
    ) -> None:
        self._context = context
        self._progress = progress
        self._who_of_token = who_of_token
        self._early: dict[JobId, JobReport] = {}  # of jobs whose start is not on record yet
        self._again: asyncio.TimerHandle | None = None

    async def report(self, who: Who, identity: str, report: Report) -> None:
        """A job says how far it is."""
        self._take(who, identity, report)

    def hear(self, given: JobReport) -> None:
        """The same through the engine: what is wrong with it can only be written to the log."""
        row = self._context.row(given.job)
        if row is not None and row.phase is Phase.STARTING:
            self._early[given.job] = given
            if self._again is None:
                self._again = asyncio.get_running_loop().call_later(EARLY_S, self._hear_early)
            return
        try:
            who = self._who_of_token(given.token)
            if who is None or not who.job:
                raise NotKnownError("it does not come with the token of a job")  # noqa: TRY301
            self._take(who, given.job, given.report, given.at)
        except RequestError as error:
            logger.info("a report of job %s was refused: %s", given.job, error)
        except Exception:  # What one job says must not cost its node the others.
            logger.exception("a report of job %s", given.job)

    def _hear_early(self) -> None:
        early, self._early, self._again = self._early, {}, None
        for given in early.values():
            self.hear(given)

    def _take(self, who: Who, identity: str, report: Report, at: float | None = None) -> None:
        if who.job and who.job != identity:
            raise NotAllowedError(f"this token reports on job {who.job}, not on {identity}")
        record = self._context.jobs.records.get(identity)
        if record is None:
            raise NotFoundError(f"there is no active job {identity!r}")
        if not who.job:
            may_touch(who, record)
        _check(report)
        row = self._context.row(identity)
        if row is None or row.phase is not Phase.RUNNING:
            raise ConflictError(f"job {identity} is not running")
        before = self._context.learner.progress(identity)
        total = report.total if report.total is not None else before.total if before else None
        if total is not None and report.step > total:
            raise InvalidRequestError(
                f"step is {report.step:g} of {total:g}; expected no more than the total"
            )
        checkpoint = None
        if report.checkpoint is not None and total:
            checkpoint = min(report.step, report.checkpoint) / total
        self._progress.hear(
            row,
            report.step,
            total,
            loss=report.loss,
            source="report",
            at=at,
            checkpoint=checkpoint,
            stages=None if report.stages is None else tuple(sorted(report.stages.items())),
        )


def _check(report: Report) -> None:
    for name in ("step", "total", "checkpoint"):
        value = getattr(report, name)
        if value is not None and not 0 <= value <= STEPS_MAX:
            raise InvalidRequestError(
                f"{name} is {value:g}; expected a number from 0 to {STEPS_MAX:g}"
            )
    for name, seconds in (report.stages or {}).items():
        if name not in (known := (*STAGES, "step")):
            raise InvalidRequestError(f"there is no stage {name!r}; expected {', '.join(known)}")
        if not 0 <= seconds < SECONDS_MAX:
            raise InvalidRequestError(
                f"stage {name} takes {seconds:g} s; expected 0 to {SECONDS_MAX:g}"
            )
    if report.loss is not None and report.loss != report.loss:  # not a number
        raise InvalidRequestError("loss is not a number")
