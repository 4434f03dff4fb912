"""How far a job is: one figure, wherever it is shown."""

from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.jobs import JobRecord
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.wire.jobs import Progress


def progress_of(context: Context, record: JobRecord, row: Job) -> Progress | None:
    """What the job said; or an estimate, where there is one."""
    said, now = _newest(context, record), context.clock.now()
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


def _newest(context: Context, record: JobRecord) -> Progress | None:
    """What it said a moment ago, which the record follows every few seconds."""
    said = context.learner.progress(record.id)
    if said is None:
        return record.progress
    return Progress(
        step=said.step, total=said.total, per_s=said.per_s, loss=said.loss, source=said.source
    )
