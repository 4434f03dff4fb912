"""For whom a job was stopped or shrunk, and when: in its record until it has devices again."""

from treadle.control.jobs.records import JobRecord
from treadle.core.actions import Action, Change, Stop


def note_preemption(record: JobRecord, action: Action, at: float, *, asked: bool) -> None:
    """at: seconds since 1970. asked: its user stopped it, or it was blocked otherwise."""
    record.preempted_at, record.preempted_for, record.shrunk_for = None, "", ""
    if isinstance(action, Stop) and not asked:
        record.preempted_at, record.preempted_for = at, action.for_job
    elif isinstance(action, Change) and len(action.allocation.devices) < record.size:
        record.shrunk_for = action.for_job
