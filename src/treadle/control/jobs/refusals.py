"""Jobs that a machine could not launch: they wait a little longer each time, and are not charged.

Where the whole machine is in trouble, its devices are closed and no job is started. This is for
trouble of one job or one user, such as a limit of processes: without a pause the job would be
started again at once, for ever.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from treadle.core.attempt import NOT_LAUNCHED_CODE, How
from treadle.core.events import AttemptEnded, JobHeld, JobReleased, JobStarted
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase

MACHINE = "machine"  # the reason for which such a job is blocked
FIRST_PAUSE_S = 1.0
PAUSE_MAX_S = 60.0
# In a row, over about a quarter of an hour: then it is taken for a fault of the job's own program
# or folder, whose errors cannot be told from the machine's, and counts as a failure.
REFUSALS_MAX = 20
HOLDING = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})


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

    def bounded(self, ended: AttemptEnded) -> AttemptEnded:
        """The end, as a failure if the machine has refused the job very often in a row."""
        before = self._refused.get(ended.job)
        if ended.how is not How.MACHINE_ERROR or before is None or before.number < REFUSALS_MAX:
            return ended
        return replace(ended, how=How.ENGINE_ERROR, code=NOT_LAUNCHED_CODE)

    def judge(self, ended: AttemptEnded, row: Job | None, now: float) -> list[JobHeld]:
        """Block the job for a while, if the machine refused what was ordered last.

        row: of the job, before the scheduler takes the end. A repeated report, of an attempt that
        is over, must not stop the next one.
        """
        if ended.how is not How.MACHINE_ERROR or row is None or ended.action < row.attempt:
            return []
        if row.phase not in HOLDING:
            return []
        self._refused[ended.job] = self._next(ended, now)
        return [JobHeld(ended.job, MACHINE)]

    def started(self, facts: Iterable[object]) -> None:
        """Forget the jobs that run by these facts."""
        for fact in facts:
            if isinstance(fact, JobStarted):
                self._refused.pop(fact.job, None)

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
        return Refusal(ended.error, now + pause_after(number), number)


def pause_after(number: int) -> float:
    """Seconds until a job is tried again that could not run that many times in a row."""
    return min(PAUSE_MAX_S, FIRST_PAUSE_S * 2.0 ** min(number - 1, 10))
