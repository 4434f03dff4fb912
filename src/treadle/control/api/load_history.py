"""The history of what a job used, also after it has ended: from memory, else from the store."""

from collections.abc import Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.jobs import JobRecord
from treadle.control.learning import Point, unpacked
from treadle.core.sighting import Load
from treadle.wire.history import AttemptHistory, HistoryPoint, JobHistory, LoadView


async def job_history(context: Context, record: JobRecord) -> JobHistory:
    """All attempts of a job that were measured."""
    stored = await context.reads.ask(lambda store: store.histories(record.id))
    found = {row.attempt: (row.started_at, unpacked(row.body)) for row in stored}
    for attempt, history in context.learner.seen.running():
        if attempt.job == record.id:
            found[attempt.number] = (history.started_at, history.points())
    attempts = [_attempt(number, *found[number]) for number in sorted(found)]
    if attempts and attempts[-1].attempt == record.running:
        first_s = context.learner.seen.first_step_s(record.id)
        attempts[-1] = replace(attempts[-1], first_step_s=first_s)
    return JobHistory(id=record.id, attempts=tuple(attempts))


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
