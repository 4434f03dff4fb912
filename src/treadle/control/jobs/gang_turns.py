"""How often jobs of several devices were overtaken, from the store: a restart costs no turn.

What a policy remembers is not stored. That a later job started first is: the jobs that run or have
ended say it. A job that joined others overtakes none; that is known of jobs that began once and
kept their devices. Nor does one on nodes that the gang may not use, if they are still here. Any
other is counted, so a gang may get its reservation a little sooner than without the restart.
"""

from collections.abc import Mapping, Sequence
from heapq import nsmallest

from treadle.control.jobs.records import JobRecord, record_of
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.policies.base.suited import usable_by
from treadle.policies.live.patience import COUNTED_MAX, Count, in_pieces
from treadle.store.rows import JobFilter, JobRow
from treadle.store.store import Store

ENDED_MAX = 1000  # the newest jobs that have ended


def overtakings(
    store: Store, active: Sequence[JobRow], scheduler: Scheduler
) -> Mapping[JobId, Count]:
    """Of each gang that never ran: how many later jobs of no higher priority started before it."""
    held = scheduler.blocked  # They wait anew from their release on.
    waiting = [job for job in scheduler.jobs.values() if _counts(job) and job.id not in held]
    gangs = nsmallest(COUNTED_MAX, waiting, key=lambda job: job.sequence)
    if not gangs:
        return {}
    rows = {row.id: row for row in active}
    started = [rows[job.id] for job in scheduler.jobs.values() if job.starts and job.id in rows]
    ended = store.jobs(JobFilter(ended=True), limit=ENDED_MAX)
    started += [row for row in ended if record_of(row).attempts]
    joined = _joiners([record_of(row) for row in started])
    alone = [(row, _nodes(row)) for row in started if row.id not in joined]
    here = scheduler.cluster
    found = {}
    for gang in gangs:
        if gang.id not in rows:
            continue
        barred = here.names - usable_by(gang.spec, here, gang.only_on)
        times = sum(
            _overtook(row, rows[gang.id], gang) and not (nodes and nodes <= barred)
            for row, nodes in alone
        )
        found[gang.id] = Count(times, gang.since_at)
    return found


def _counts(job: Job) -> bool:
    return job.phase is Phase.WAITING and in_pieces(job)


def _nodes(row: JobRow) -> frozenset[str]:
    """Those on which a job was last."""
    return frozenset(device.rpartition(":")[0] for device in record_of(row).devices)


def _joiners(records: Sequence[JobRecord]) -> set[JobId]:
    """Those that began on devices that others held before and after."""
    once = [each for each in records if each.attempts == 1 and not each.resizes]
    here: dict[str, list[JobRecord]] = {}
    for record in once:
        for device in record.devices:
            here.setdefault(device, []).append(record)
    return {
        record.id
        for record in once
        if record.devices
        and all(any(_holds(other, record) for other in here[each]) for each in record.devices)
    }


def _holds(other: JobRecord, record: JobRecord) -> bool:
    """Whether a job had begun before another, and went on."""
    if other.started_at is None or record.started_at is None:
        return False
    gone = other.ended_at is not None and other.ended_at <= record.started_at
    return other.started_at < record.started_at and not gone


def _overtook(row: JobRow, gang: JobRow, job: Job) -> bool:
    return _order(row) > _order(gang) and row.priority <= job.spec.priority


def _order(row: JobRow) -> tuple[int, int]:
    """In order of submission."""
    return row.number, -1 if row.member is None else row.member
