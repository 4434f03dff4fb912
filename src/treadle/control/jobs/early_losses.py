"""Jobs whose attempts are lost within seconds of their start: they wait a little longer each time.

An attempt that is lost through no fault of its job is run again at once, and not charged. But where
what lost it is still there, such as a node that kills whatever is launched on it, a job would be
started and lost many times a second. So the second loss in a row is followed by a pause, and each
one after that by a longer one.

How many there were, and until when the job waits, is in its record and follows from facts: a
restart and a replay of the journal give the same.
"""

from collections.abc import Iterable, Mapping

from treadle.control.jobs.records import JobRecord
from treadle.control.jobs.refusals import HOLDING, pause_after
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, JobHeld, JobReleased
from treadle.core.job import Job, JobId

LOST = "lost"  # the reason for which such a job is blocked
EARLY_S = 30.0  # an attempt that ran for so long has begun well; longer than a node's lease
# Nothing ran of an attempt that ended so.
_NOTHING_RAN = frozenset({How.REPLACED, How.MACHINE_ERROR})


def count_losses(record: JobRecord, ended: AttemptEnded) -> None:
    """Note how the newest attempt of a job ended."""
    if _is_early(ended):
        record.early_losses += 1
    elif ended.attempt and ended.how not in _NOTHING_RAN:
        record.early_losses = 0


def note_pause(record: JobRecord, fact: JobHeld | JobReleased, now: float) -> None:
    """Note until when a job waits; now: by the run's own clock."""
    if fact.reason == LOST:
        held = isinstance(fact, JobHeld)
        record.again_s = now + pause_after(record.early_losses - 1) if held else None


class EarlyLosses:
    """The jobs that wait because their attempts were lost."""

    def __init__(self) -> None:
        self._paused: set[JobId] = set()

    def judge(
        self, ended: AttemptEnded, record: JobRecord | None, row: Job | None
    ) -> list[JobHeld]:
        """Block the job for a while, if its attempt before was lost early as well.

        record, row: before this end is taken. A repeated report, of an attempt that is over, must
        not stop the next one.
        """
        if record is None or row is None or not record.early_losses or not _is_early(ended):
            return []
        if row.phase not in HOLDING or ended.action < row.attempt:
            return []
        self._paused.add(ended.job)
        return [JobHeld(ended.job, LOST)]

    def over(self, records: Mapping[JobId, JobRecord], now: float) -> list[JobReleased]:
        """The jobs whose pause is over."""
        done = [job for job in self._paused if job in records and _is_over(records[job], now)]
        self._paused.difference_update(done)
        return [JobReleased(job, LOST) for job in sorted(done)]

    def restore(self, jobs: Iterable[JobId]) -> None:
        """Those that waited when the last controller left."""
        self._paused.update(jobs)

    def forget(self, job: JobId) -> None:
        self._paused.discard(job)


def _is_early(ended: AttemptEnded) -> bool:
    return ended.how is How.LOST and ended.node_lost and (ended.ran_s or 0.0) < EARLY_S


def _is_over(record: JobRecord, now: float) -> bool:
    """Not while the fact that blocks it is only on its way: until when is not known yet."""
    return record.again_s is not None and record.again_s <= now
