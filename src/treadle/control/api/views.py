"""Jobs as people see them, from the record and, while it has not ended, the core's row."""

from collections.abc import Iterable
from dataclasses import replace

from treadle.control.api.reasons import ENDING, brief, reason
from treadle.control.jobs.desk import Desk
from treadle.control.jobs.records import JobRecord, attempt_of
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.wire.jobs import JobDetail, JobView, Progress, State


def job_view(desk: Desk, record: JobRecord) -> JobView:
    """One job, with the policy's own reason why it waits."""
    row = desk.row(record.id)
    if row is None:
        return _ending(desk, record)
    told = reason(desk, record, row)
    return _view(desk, record, row, told.cause, told.because)


def listed(desk: Desk, records: Iterable[JobRecord]) -> list[JobView]:
    """Many jobs, with the reason as far as it costs little."""
    places = desk.places()
    views = []
    for record in records:
        row = desk.row(record.id)
        if row is None:
            views.append(_ending(desk, record))
        else:
            told = brief(desk, record, row, places.get(record.id))
            views.append(_view(desk, record, row, *told))
    return views


def _ending(desk: Desk, record: JobRecord) -> JobView:
    """One that has ended, or that will have once it is on disk."""
    view = ended_view(record)
    state = desk.shown(record)
    if state.ended:
        return view
    return replace(view, state=state, cause=ENDING[0], because=ENDING[1], ended_at=None, code=None)


def _view(desk: Desk, record: JobRecord, row: Job, cause: str, because: str) -> JobView:
    devices = () if row.allocation is None else tuple(map(str, row.allocation.devices))
    held_s = 0.0 if record.began_s is None else max(0.0, desk.clock.now() - record.began_s)
    return JobView(
        id=record.id,
        name=record.name,
        user=record.owner,
        tenant=record.tenant,
        state=record.state,
        cause=cause,
        because=because,
        devices=devices,
        sizes=row.spec.sizes,
        priority=row.spec.priority,
        guaranteed=row.spec.guaranteed,
        resumable=row.spec.resumable,
        progress=progress_of(record, row, desk.clock.now()),
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        running_s=record.ran_s + held_s,
        device_s=record.device_s + held_s * len(devices),
        attempts=record.attempts,
        resizes=record.resizes,
        failures=record.failures,
        array=record.array,
        index=record.member,
        command=record.command,
        model=record.model,
    )


def ended_view(record: JobRecord) -> JobView:
    failure = record.failure if record.state is State.FAILED else None  # It may have been retried.
    return JobView(
        id=record.id,
        name=record.name,
        user=record.owner,
        tenant=record.tenant,
        state=record.state,
        cause=str(record.state).lower() if failure is None else failure.rule,
        because="" if failure is None else failure.sentence,
        sizes=record.sizes,
        priority=record.priority,
        resumable=record.resumable,
        progress=record.progress,
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        running_s=record.ran_s,
        device_s=record.device_s,
        attempts=record.attempts,
        resizes=record.resizes,
        failures=record.failures,
        code=record.exit,
        array=record.array,
        index=record.member,
        command=record.command,
        model=record.model,
    )


def progress_of(record: JobRecord, row: Job, now: float) -> Progress | None:
    """What it said itself; or what is believed of it, where anything is."""
    said = record.progress
    runs = row.phase is Phase.RUNNING and row.iterations_per_s > 0
    left_s = row.remaining_at(now) / row.iterations_per_s if runs and record.known else None
    if said is not None:
        if runs and said.total and said.per_s:
            left_s = (said.total - said.step) / said.per_s
        return replace(said, per_s=said.per_s if runs else None, eta_s=left_s)
    if not runs or not record.known:
        return None
    share = row.iterations_at(now) / row.spec.iterations
    return Progress(step=round(100 * share, 1), total=100.0, eta_s=left_s, source="estimate")


def job_detail(desk: Desk, record: JobRecord) -> JobDetail:
    attempts = {a.number: attempt_of(a.body) for a in desk.store.attempts(record.id)}
    attempts |= {
        number: attempt_of(a.body) for (job, number), a in desk.open.items() if job == record.id
    }
    view = job_view(desk, record)
    return JobDetail(
        job=view,
        workdir=record.workdir,
        env=record.env,
        secrets=record.secrets,
        time_limit_s=record.time_limit_s,
        grace_s=record.grace_s,
        retries=record.retries,
        after=record.after,
        after_any=record.after_any,
        code=None
        if record.code is None
        else replace(record.code, diff=desk.diffs.read(record.diff)),
        attempts=tuple(attempts[number] for number in sorted(attempts)),
        failure=record.failure,
        ranks=record.size or 1,
    )
