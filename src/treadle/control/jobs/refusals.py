"""Jobs that a machine could not launch, or lost at once: they wait longer each time, uncharged.

Where the whole machine is in trouble, its devices are closed and no job is started. This is for
trouble of one job or one user, such as a limit of processes, and for a node that kills whatever is
launched on it: without a pause the job would be started again at once, for ever. A first loss is
not followed by a pause. A restart of the daemon begins anew.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from treadle.core.attempt import NOT_LAUNCHED_CODE, How
from treadle.core.events import AttemptEnded, JobHeld, JobReleased, JobStarted
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase

MACHINE = "machine"  # the reason for which such a job is blocked
LOST = "it was lost within seconds of its start"
FIRST_PAUSE_S = 1.0
PAUSE_MAX_S = 60.0
# In a row, over about a quarter of an hour: then it is taken for a fault of the job's own program
# or folder, whose errors cannot be told from the machine's, and counts as a failure.
REFUSALS_MAX = 20
EARLY_S = 30.0  # an attempt that ran for so long has begun well; longer than a node's lease
# Nothing ran of an attempt that ended so.
_NOTHING_RAN = frozenset({How.REPLACED, How.MACHINE_ERROR})
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
        self._lost: Counter[JobId] = Counter()  # attempts in a row that were lost within seconds

    def bounded(self, ended: AttemptEnded) -> AttemptEnded:
        """The end, as a failure if the machine has refused the job very often in a row."""
        before = self._refused.get(ended.job)
        if ended.how is not How.MACHINE_ERROR or before is None or before.number < REFUSALS_MAX:
            return ended
        return replace(ended, how=How.ENGINE_ERROR, code=NOT_LAUNCHED_CODE)

    def judge(self, ended: AttemptEnded, row: Job | None, now: float) -> list[JobHeld]:
        """Block the job for a while, if the machine refused or lost what was ordered last.

        row: of the job, before the scheduler takes the end. A repeated report, of an attempt that
        is over, must not stop the next one.
        """
        if row is None or ended.action < row.attempt or row.phase not in HOLDING:
            return []
        if _is_early(ended):
            self._lost[ended.job] += 1
            before, said = self._lost[ended.job] - 1, f"{LOST} {self._lost[ended.job]} times"
        elif ended.how is How.MACHINE_ERROR:
            known = self._refused.get(ended.job)
            before, said = 1 + (0 if known is None else known.number), ended.error
        else:
            if ended.attempt and ended.how not in _NOTHING_RAN:
                del self._lost[ended.job]
            return []
        if not before:
            return []
        self._refused[ended.job] = Refusal(said, now + pause_after(before), before)
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
        del self._lost[job]

    def of(self, job: JobId) -> Refusal | None:
        return self._refused.get(job)


def _is_early(ended: AttemptEnded) -> bool:
    return ended.how is How.LOST and ended.node_lost and (ended.ran_s or 0.0) < EARLY_S


def pause_after(number: int) -> float:
    """Seconds until a job is tried again that could not run that many times in a row."""
    return min(PAUSE_MAX_S, FIRST_PAUSE_S * 2.0 ** min(number - 1, 10))
