"""The history of a job, also after it has ended: what it used and said, over time.

What a job said is in the journal, so it is there after a restart of the daemon too; of jobs that
ended long ago old lines are thinned (journal_thinning.py), and their last words are left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.jobs import JobRecord
from treadle.control.learning import Point, unpacked
from treadle.control.loop import wall
from treadle.core.attempt import LastProgress
from treadle.core.events import JobProgressed
from treadle.core.job_report import STAGES, bottleneck
from treadle.core.sighting import Load
from treadle.core.wording import share
from treadle.journal.codec import decode
from treadle.store.rows import JournalRow
from treadle.store.store import Store
from treadle.wire.history import AttemptHistory, HistoryPoint, JobHistory, LoadView, ProgressPoint

LINES_MAX = 3000
POINTS_MAX = 300


async def job_history(context: Context, record: JobRecord) -> JobHistory:
    """What all its attempts used, and what the job said of itself."""

    def read(store: Store) -> list[ProgressPoint]:
        kinds = (JobProgressed.__name__,)
        return _points(store.lines_last(job=record.id, kinds=kinds, limit=LINES_MAX))

    points = await context.reads.ask(read)
    said = context.learner.progress(record.id)
    if said is not None and (not points or points[-1].step != said.step):
        now = ProgressPoint(at=wall(), step=said.step, per_s=said.per_s, loss=said.loss)
        points.append(now)
    stages = {} if record.progress is None else dict(record.progress.stages)
    return JobHistory(
        id=record.id,
        attempts=await _measured(context, record),
        progress=tuple(points),
        stages=stages,
        bottleneck=_bottleneck(stages),
        observed_per_s=_observed(record, said, points),
        observed_size=record.size,
        predicted_per_s=record.predicted_per_s,
        predicted_size=record.predicted_size,
    )


def _observed(
    record: JobRecord, said: LastProgress | None, points: Sequence[ProgressPoint]
) -> float | None:
    """Steps a second: of a job that runs now, else the last that were measured."""
    if record.running:
        return None if said is None else said.per_s
    return next((point.per_s for point in reversed(points) if point.per_s is not None), None)


def _points(lines: Sequence[JournalRow]) -> list[ProgressPoint]:
    found: list[ProgressPoint] = []
    for line in lines:
        fact = decode(line.body)[1]
        assert isinstance(fact, JobProgressed)
        said = fact.progress
        if said is not None and (not found or found[-1].step != said.step):
            point = ProgressPoint(at=line.wall_at, step=said.step, per_s=said.per_s, loss=said.loss)
            found.append(point)
    while len(found) > POINTS_MAX:
        found = [*found[:-1:2], found[-1]]  # The newest stays.
    return found


def _bottleneck(stages: Mapping[str, float]) -> str:
    """What takes most of a step, with its share; empty if that is not known."""
    step_s, most = stages.get("step", 0.0), bottleneck(stages)
    if step_s <= 0 or not most:
        return ""
    return f"{STAGES[most]} takes {share(min(1.0, stages[most] / step_s))} of a step"


async def _measured(context: Context, record: JobRecord) -> tuple[AttemptHistory, ...]:
    """All attempts of a job that were measured: from memory, else from the store."""
    stored = await context.reads.ask(lambda store: store.histories(record.id))
    found = {row.attempt: (row.started_at, unpacked(row.body)) for row in stored}
    for attempt, history in context.learner.seen.running():
        if attempt.job == record.id:
            found[attempt.number] = (history.started_at, history.points())
    attempts = [_attempt(number, *found[number]) for number in sorted(found)]
    if attempts and attempts[-1].attempt == record.running:
        first_s = context.learner.seen.first_step_s(record.id)
        attempts[-1] = replace(attempts[-1], first_step_s=first_s)
    return tuple(attempts)


def _attempt(number: int, started_at: float, points: Sequence[Point]) -> AttemptHistory:
    powers = [(point.mean.power_w, point.span_s) for point in points]
    known = [watts * span_s for watts, span_s in powers if watts is not None]
    return AttemptHistory(
        attempt=number,
        points=tuple(
            HistoryPoint(
                at=started_at + point.at,
                span_s=point.span_s,
                mean=_view(point.mean),
                most=_view(point.most),
                alone=point.alone,
            )
            for point in points
        ),
        mean=_view(_mean(points)),
        most=_view(_most(points)),
        energy_j=round(sum(known), 1) if known else None,
    )


def _mean(points: Sequence[Point]) -> Load:
    means = []
    for place in range(len(Load._fields)):
        pairs = [(point.mean[place], point.span_s) for point in points]
        seconds = sum(span_s for value, span_s in pairs if value is not None)
        total = sum(value * span_s for value, span_s in pairs if value is not None)
        means.append(round(total / seconds, 4) if seconds else None)
    return Load(*means)


def _most(points: Sequence[Point]) -> Load:
    columns = zip(*(point.most for point in points), strict=True) if points else ()
    known = [[value for value in column if value is not None] for column in columns]
    return Load(*(max(values) if values else None for values in known))


def _view(load: Load) -> LoadView:
    return LoadView(**load._asdict())
