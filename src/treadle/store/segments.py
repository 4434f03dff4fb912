"""Closed segments of the journal: runs of old lines, each compressed into one row.

The journal's table has the newest lines. A run of the oldest is closed: its lines move into one
row here, compressed about ten-fold, in one transaction. Ids stay as they were. Later a segment may
be written again with fewer lines; readers then find gaps, and go on behind them.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Executable, bindparam, delete, func, insert, select

from treadle.store import schema
from treadle.store.rows import JournalRow
from treadle.store.statements import Group

COMPRESSION = 6  # zlib's; 9 takes four times as long for 2 % less

Query = Callable[[Executable], Sequence[Sequence[Any]]]
_lines = msgspec.msgpack.Decoder(list[tuple[float, float, str, str, bytes, int]])
_encoder = msgspec.msgpack.Encoder()
_columns = [schema.segments.c[name] for name in ("first", "last", "lines", "first_at", "last_at")]


class SegmentRow(NamedTuple):
    """What there is to know of a segment without opening it."""

    first: int  # id of its first line when it was closed
    last: int
    lines: int  # that it has now
    first_at: float  # seconds since 1970
    last_at: float


def packed(rows: Sequence[JournalRow]) -> bytes:
    return zlib.compress(_encoder.encode(rows), COMPRESSION)


def unpacked(body: bytes) -> list[JournalRow]:
    return [JournalRow._make(row) for row in _lines.decode(zlib.decompress(body))]


class Segments:
    """Reads lines of closed segments, one segment at a time."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def upto(self) -> int:
        """The id of the last line that is closed; 0 if none is."""
        found = self._query(select(func.max(schema.segments.c.last)))
        return int(found[0][0] or 0) if found else 0

    def listed(self, *, thinned: bool | None = None) -> list[SegmentRow]:
        """All segments, the oldest first."""
        query = select(*_columns).order_by(schema.segments.c.first)
        if thinned is not None:
            query = query.where(schema.segments.c.thinned.is_(thinned))
        return [SegmentRow._make(row) for row in self._query(query)]

    def of_jobs(self, jobs: Sequence[str]) -> list[int]:
        """The segments that have lines of any of these jobs."""
        table = schema.segment_jobs
        query = select(table.c.segment).where(table.c.job.in_(list(jobs))).distinct()
        return sorted(int(row[0]) for row in self._query(query))

    def read(self, first: int) -> list[JournalRow]:
        query = select(schema.segments.c.body).where(schema.segments.c.first == first)
        found = self._query(query)
        return unpacked(bytes(found[0][0])) if found else []

    def lines(
        self, after: int, before: int | None, *, job: str, kinds: Sequence[str], last: bool
    ) -> Iterator[JournalRow]:
        """Lines between two ids, ascending; or descending for `last`. None: up to the last one."""
        for first in self._between(after, before, job=job, last=last):
            rows = self.read(first)
            for row in reversed(rows) if last else rows:
                inside = row.id > after and (before is None or row.id < before)
                if inside and job in {"", row.job} and (not kinds or row.kind in kinds):
                    yield row

    def _between(self, after: int, before: int | None, *, job: str, last: bool) -> list[int]:
        table = schema.segments
        query = select(table.c.first).where(table.c.last > after)
        if before is not None:
            query = query.where(table.c.first < before)
        if job:
            jobs = schema.segment_jobs
            query = query.join(jobs, jobs.c.segment == table.c.first).where(jobs.c.job == job)
        order = table.c.first.desc() if last else table.c.first
        return [int(row[0]) for row in self._query(query.order_by(order))]


_OUT_OF_JOURNAL = delete(schema.journal).where(
    schema.journal.c.id >= bindparam("from_line"), schema.journal.c.id <= bindparam("to_line")
)
_DROP_JOBS = delete(schema.segment_jobs).where(
    schema.segment_jobs.c.segment == bindparam("of_segment")
)
_PUT = insert(schema.segments)
_PUT_JOBS = insert(schema.segment_jobs)
_DROP = delete(schema.segments).where(schema.segments.c.first == bindparam("of_segment"))


def closing(rows: Sequence[JournalRow]) -> Iterator[Group]:
    """Statements that move these lines, all between two ids, from the journal into a segment."""
    first, last = rows[0].id, rows[-1].id
    span = SegmentRow(first, last, len(rows), rows[0].wall_at, rows[-1].wall_at)
    yield from _written(span, rows, thinned=False)
    yield Group("prune", _OUT_OF_JOURNAL, [{"from_line": first, "to_line": last}])


def rewriting(segment: SegmentRow, rows: Sequence[JournalRow], *, thinned: bool) -> Iterator[Group]:
    """Statements that leave only these lines in a segment; an empty one keeps its range."""
    yield Group("prune", _DROP_JOBS, [{"of_segment": segment.first}])
    yield Group("prune", _DROP, [{"of_segment": segment.first}])
    yield from _written(segment._replace(lines=len(rows)), rows, thinned=thinned)


def _written(span: SegmentRow, rows: Sequence[JournalRow], *, thinned: bool) -> Iterator[Group]:
    values = {**span._asdict(), "thinned": thinned, "body": packed(rows)}
    yield Group("prune", _PUT, [values])
    jobs = _jobs_of(rows)
    if jobs:
        yield Group("prune", _PUT_JOBS, [{"job": job, "segment": span.first} for job in jobs])


def _jobs_of(rows: Iterable[JournalRow]) -> list[str]:
    return sorted({row.job for row in rows if row.job})
