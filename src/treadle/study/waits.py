"""How long jobs waited, by how many devices they asked for, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.reports.bookkeeping import WAIT_CAUSES
from treadle.reports.metrics import (
    SIZE_BUCKETS,
    mean,
    never_started,
    percentile,
    size_bucket,
    waited_by_cause,
)
from treadle.reports.run_history import JobHistory
from treadle.study.record import Record

ALL = "all"


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of all jobs, or of one size. Means and percentiles include waits of 0."""

    size: str
    jobs: int
    waited: int  # jobs that waited at all
    total_s: float
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    causes_s: Mapping[str, float] | None  # they add up to the total; None: not recorded

    def share(self, cause: str) -> float | None:
        """The share of the waiting time with this cause."""
        if self.causes_s is None or not sum(self.causes_s.values()):
            return None
        return self.causes_s[cause] / sum(self.causes_s.values())


def waits(record: Record) -> tuple[Waits, ...]:
    """All jobs first, then each size that occurs; jobs that never fit are left out."""
    aside = never_started(record.recorder, record.unfit)
    left_out = {history.spec.id for history in aside}
    members: dict[str, list[JobHistory]] = {}
    for identity, history in record.recorder.histories.items():
        if identity not in left_out:
            members.setdefault(size_bucket(history.spec.asked), []).append(history)
    by_cause = waited_by_cause(record.recorder, aside)
    total = {cause: sum(part[cause] for part in by_cause.values()) for cause in WAIT_CAUSES}
    known = record.has_causes
    all_jobs = [history for histories in members.values() for history in histories]
    rows = [_waits(ALL, all_jobs, total if known else None)]
    rows += [
        _waits(size, members[size], by_cause[size] if known else None)
        for size in SIZE_BUCKETS
        if size in members
    ]
    return tuple(rows)


def _waits(
    size: str, histories: Sequence[JobHistory], causes_s: Mapping[str, float] | None
) -> Waits:
    waited_s = sorted(history.waited_s for history in histories)
    return Waits(
        size,
        jobs=len(waited_s),
        waited=sum(1 for seconds in waited_s if seconds > 0),
        total_s=sum(waited_s),
        mean_s=mean(waited_s),
        p50_s=percentile(waited_s, 50),
        p90_s=percentile(waited_s, 90),
        p99_s=percentile(waited_s, 99),
        causes_s=causes_s,
    )
