"""Jobs that a machine could not launch: they wait a little longer each time, and are not charged.

Where the whole machine is in trouble, its devices are closed and no job is started. This is for
trouble of one job or one user, such as a limit of processes: without a pause the job would be
started again at once, for ever.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, JobHeld, JobReleased, JobStarted
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase

MACHINE = "machine"  # the reason for which such a job is blocked
FIRST_PAUSE_S = 1.0
PAUSE_MAX_S = 60.0


class Refusal(NamedTuple):
    """What the machine said, and when the job is tried again."""

    sentence: str
    until_s: float
    number: int  # refusals in a row
    blocks: bool = True


class Refusals:
    """The jobs that were refused since they last ran."""

    def __init__(self) -> None:
        self._refused: dict[JobId, Refusal] = {}

    def taken(
        self, facts: Iterable[object], jobs: Mapping[JobId, Job], now: float
    ) -> list[JobHeld]:
        """The scheduler has taken these facts; which jobs are blocked for a while."""
        held: list[JobHeld] = []
        for fact in facts:
            if isinstance(fact, JobStarted):
                self._refused.pop(fact.job, None)
            elif isinstance(fact, AttemptEnded) and fact.how is How.MACHINE_ERROR:
                row = jobs.get(fact.job)
                if row is not None and row.phase is Phase.WAITING:
                    self._refused[fact.job] = self._next(fact, now)
                    held.append(JobHeld(fact.job, MACHINE))
        return held

    def over(self, now: float) -> list[JobReleased]:
        """The jobs whose pause is over."""
        done = [job for job, each in self._refused.items() if each.blocks and each.until_s <= now]
        for job in done:
            self._refused[job] = self._refused[job]._replace(blocks=False)
        return [JobReleased(job, MACHINE) for job in done]

    def forget(self, job: JobId) -> None:
        self._refused.pop(job, None)

    def of(self, job: JobId) -> Refusal | None:
        return self._refused.get(job)

    def _next(self, ended: AttemptEnded, now: float) -> Refusal:
        before = self._refused.get(ended.job)
        number = 1 if before is None else before.number + 1
        pause_s = min(PAUSE_MAX_S, FIRST_PAUSE_S * 2.0 ** min(number - 1, 10))
        return Refusal(ended.error, now + pause_s, number)
