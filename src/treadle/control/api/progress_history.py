"""A job's steps, speed and losses over time, and where the time of a step goes.

What a job said is in the journal, so it is there after a restart of the daemon too; of jobs that
ended long ago old lines are thinned (journal_thinning.py), and their last words are left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.jobs import JobRecord
from treadle.control.loop import wall
from treadle.core.attempt import LastProgress
from treadle.core.events import JobProgressed
from treadle.core.wording import share
from treadle.journal.codec import decode
from treadle.store.rows import JournalRow
from treadle.store.store import Store
from treadle.wire.history import JobHistory, ProgressPoint

LINES_MAX = 3000
POINTS_MAX = 300
STAGES = {
    "load": "loading data",
    "prepare": "preparing data",
    "compute": "computing",
    "sync": "the network",
}


async def with_progress(context: Context, record: JobRecord, found: JobHistory) -> JobHistory:
    """The history, and what the job said of itself."""

    def read(store: Store) -> list[ProgressPoint]:
        kinds = (JobProgressed.__name__,)
        return _points(store.lines_last(job=record.id, kinds=kinds, limit=LINES_MAX))

    points = await context.reads.ask(read)
    said = context.learner.progress(record.id)
    if said is not None and (not points or points[-1].step != said.step):
        now = ProgressPoint(at=wall(), step=said.step, per_s=said.per_s, loss=said.loss)
        points.append(now)
    stages = {} if record.progress is None else dict(record.progress.stages)
    return replace(
        found,
        progress=tuple(points),
        stages=stages,
        bottleneck=bottleneck(stages),
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


def bottleneck(stages: Mapping[str, float]) -> str:
    """The stage that takes most of a step, with its share; empty if none is known."""
    step_s = stages.get("step", 0.0)
    known = {name: stages[name] for name in STAGES if stages.get(name, 0.0) > 0}
    if step_s <= 0 or not known:
        return ""
    most = max(known, key=lambda name: known[name])
    return f"{STAGES[most]} takes {share(min(1.0, known[most] / step_s))} of a step"
