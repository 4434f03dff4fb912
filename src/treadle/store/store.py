"""The store: everything that must survive a crash.

Writes go through `Writer`, one transaction for each batch. Reads see committed data only, have
connections of their own and may come from any thread. One process at a time has a store open.
"""

from collections.abc import Sequence
from itertools import islice
from threading import Lock
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Executable, bindparam, delete, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from treadle.store import identity, queries, schema
from treadle.store.address import backend_of
from treadle.store.backend import Backend
from treadle.store.check import findable
from treadle.store.deadline import Deadline
from treadle.store.errors import StoreError, first_line
from treadle.store.rows import (
    AttemptRow,
    Batch,
    HistoryRow,
    JobFilter,
    JobRow,
    JournalRow,
    KeyRow,
    OutputRow,
    ProfileRow,
    TokenRow,
    UsageSum,
)
from treadle.store.segments import SegmentRow, Segments, closing, rewriting
from treadle.store.statements import Group
from treadle.store.writer import Hook, Writer

PATIENCE_S = 15.0  # how long a write waits for a lock or a server that restarts
LOCK_WAIT_S = 1.0  # a controller that was just killed releases its lock within that time
IDS_MAX = 500  # in one query; databases limit the number of its parameters
HIGHEST = "highest_number"  # the setting: of jobs whose records may be gone
PRUNE_ROWS_MAX = 500  # in one transaction, so that other writes never wait long

_DROP_PROFILES = delete(schema.profiles).where(schema.profiles.c.key == bindparam("gone_0"))
_DROP_TOKENS = delete(schema.tokens).where(schema.tokens.c.id == bindparam("gone_0"))
_DROP_KEYS = (
    delete(schema.keys)
    .where(schema.keys.c.owner == bindparam("gone_0"))
    .where(schema.keys.c.key == bindparam("gone_1"))
)

# Everything that is kept of one job.
_DROP_JOB = tuple(
    delete(table).where(column == bindparam("gone_0"))
    for table, column in (
        (schema.journal, schema.journal.c.job),
        (schema.jobs, schema.jobs.c.id),
        (schema.attempts, schema.attempts.c.job),
        (schema.secrets, schema.secrets.c.job),
        (schema.history, schema.history.c.job),
        (schema.outputs, schema.outputs.c.job),
    )
)


class Store:
    def __init__(self, backend: Backend, writer: Writer) -> None:
        self._backend = backend
        self._writer = writer
        self._closed = False
        self._segments = Segments(self._rows)
        # The last line that is not in the journal; None until someone asks for old lines.
        self._closed_upto: int | None = None
        self._closing = Lock()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        hook: Hook | None = None,
        patience_s: float = PATIENCE_S,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> Self:
        """Open or make the store at the URL and become its only controller.

        The hook is for tests: it is called with the name of each point of a transaction.
        """
        deadline = Deadline(lock_wait_s)
        backend = backend_of(url, deadline)
        writer = Writer(backend, patience_s=patience_s, hook=hook)
        try:
            writer.open(deadline)
        except BaseException:
            writer.close()
            backend.release()
            raise
        return cls(backend, writer)

    @property
    def kind(self) -> str:
        """The database: "sqlite" or "postgresql"."""
        return self._backend.kind

    @property
    def identity(self) -> str:
        """The store's own id, made with it. A copy or a restored backup has the same."""
        return self._writer.identity

    @property
    def name(self) -> str:
        """For messages, without a password."""
        return self._backend.name

    def close(self) -> None:
        """Release the store for the next controller; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._writer.close()
            self._backend.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, batch: Batch) -> tuple[int, ...]:
        """Write a batch in one transaction; returns the ids of its journal rows.

        A row replaces the one with the same key; secrets of forgotten jobs are deleted last. Waits
        for locks and for a server that restarts. A StoreError means that nothing was written,
        unless its `fate_unknown` is set.
        """
        return self._writer.write(batch)

    def prune(self, *, keys_before_at: float, tokens_before_at: float, profiles: int) -> int:
        """Delete idempotency keys made, and tokens expired, before these moments, and the profiles
        that changed longest ago, beyond so many; the row count.

        Only some of them, so that other writes get their turn; the caller goes on until it is 0.
        """
        keys = queries.old_keys(keys_before_at, limit=PRUNE_ROWS_MAX)
        tokens = queries.old_tokens(tokens_before_at, limit=PRUNE_ROWS_MAX)
        known = queries.old_profiles(profiles, limit=PRUNE_ROWS_MAX)
        pairs = ((_DROP_KEYS, keys), (_DROP_TOKENS, tokens), (_DROP_PROFILES, known))
        return sum(self._prune(drop, old) for drop, old in pairs)

    # -- jobs

    def active(self) -> list[JobRow]:
        """Jobs that have not ended, in order of submission."""
        return [JobRow._make(row) for row in self._rows(queries.active())]

    def job(self, identity: str) -> JobRow | None:
        rows = self._rows(queries.job(identity), identity)
        return JobRow._make(rows[0]) if rows else None

    def jobs(
        self, wanted: JobFilter, *, before: tuple[int, int] | None = None, limit: int = 100
    ) -> list[JobRow]:
        """Newest first; `before` is the number and member of the last job on the previous page.

        A job outside an array counts as member -1.
        """
        words = (wanted.owner, wanted.tenant, wanted.array, wanted.name, *wanted.states)
        rows = self._rows(queries.jobs(wanted, before=before, limit=limit), *words)
        return [JobRow._make(row) for row in rows]

    def jobs_by_id(self, identities: Sequence[str]) -> list[JobRow]:
        """Those that there are, in no order."""
        wanted = [identity for identity in identities if findable(identity)]
        rows: list[JobRow] = []
        for start in range(0, len(wanted), IDS_MAX):
            query = queries.jobs_by_id(wanted[start : start + IDS_MAX])
            rows += [JobRow._make(row) for row in self._rows(query)]
        return rows

    def next_number(self) -> int:
        """One more than the highest job number there ever was; 1 in an empty store."""
        here = self._number(select(func.max(schema.jobs.c.number)))
        return max(here, int(self.setting(HIGHEST) or 0)) + 1

    def attempts(self, job: str) -> list[AttemptRow]:
        return [AttemptRow._make(row) for row in self._rows(queries.attempts(job), job)]

    def attempt(self, job: str, number: int) -> AttemptRow | None:
        rows = self._rows(queries.attempt(job, number), job)
        return AttemptRow._make(rows[0]) if rows else None

    def histories(self, job: str) -> list[HistoryRow]:
        """What was measured of its attempts, in their order."""
        table = schema.history
        query = select(table).where(table.c.job == job).order_by(table.c.attempt)
        return [HistoryRow._make(row) for row in self._rows(query, job)]

    def open_attempts(self) -> list[AttemptRow]:
        """Attempts that have not ended, in the order of the actions that started them."""
        return [AttemptRow._make(row) for row in self._rows(queries.open_attempts())]

    def attempts_between(self, since_at: float, until_at: float, *, limit: int) -> list[AttemptRow]:
        """Attempts that ran between two moments, those that began last first."""
        query = queries.attempts_between(since_at, until_at, limit=limit)
        return [AttemptRow._make(row) for row in self._rows(query)]

    def secret(self, job: str) -> bytes | None:
        query = select(schema.secrets.c.sealed).where(schema.secrets.c.job == job)
        rows = self._rows(query, job)
        return bytes(rows[0][0]) if rows else None

    # -- history

    def lines(
        self, after: int, *, job: str = "", kinds: Sequence[str] = (), limit: int = 1000
    ) -> list[JournalRow]:
        """Journal lines after an id, ascending; only of one job or of some kinds if given."""
        return self._lines(after, job=job, kinds=kinds, limit=limit, last=False)

    def lines_last(
        self, *, job: str = "", kinds: Sequence[str] = (), limit: int = 100
    ) -> list[JournalRow]:
        """The newest lines, ascending."""
        return self._lines(0, job=job, kinds=kinds, limit=limit, last=True)[::-1]

    def _lines(
        self, after: int, *, job: str, kinds: Sequence[str], limit: int, last: bool
    ) -> list[JournalRow]:
        """From the journal and, for what is closed, from segments.

        The journal is read first: lines that are being closed meanwhile are then in both.
        """
        query = queries.lines(after=after, job=job, kinds=kinds, limit=limit, last=last)
        live = [JournalRow._make(row) for row in self._rows(query, job, *kinds)]
        enough = last and len(live) >= queries.bounded(limit)
        if enough or not findable(job, *kinds) or after >= self._last_closed():
            return live
        limit = queries.bounded(limit)
        oldest = min(live[0].id, live[-1].id) if live else None
        wanted = limit - len(live) if last else limit
        older = self._segments.lines(
            queries.in_range(after), oldest, job=job, kinds=kinds, last=last
        )
        found = list(islice(older, wanted))
        return (live + found if last else found + live)[:limit]

    def lines_since(self, at: float, *, kinds: Sequence[str], limit: int) -> list[JournalRow]:
        """The newest lines of some kinds down to a moment, ascending; segments that are older are
        not opened."""
        query = queries.lines_since(at, kinds=kinds, limit=limit)
        found = [JournalRow._make(row) for row in self._rows(query, *kinds)]
        before = found[-1].id if found else None
        for segment in reversed(self.segments()):
            if len(found) >= limit or segment.last_at < at:
                break
            rows = [row for row in self.segment_lines(segment) if row.kind in kinds]
            found += [
                row
                for row in reversed(rows)
                if row.wall_at >= at and (before is None or row.id < before)
            ]
        return found[:limit][::-1]

    def _last_closed(self) -> int:
        with self._closing:
            if self._closed_upto is None:
                self._closed_upto = self._segments.upto()
            return self._closed_upto

    def ready_segment(self, *, lines: int, keep: int) -> tuple[Group, ...] | None:
        """The oldest lines, ready to be closed, if at least `keep` others stay."""
        table = schema.journal
        count = self._number(select(func.count()).select_from(table))
        if count < lines + keep:
            return None
        query = select(table).order_by(table.c.id).limit(lines)
        return tuple(closing([JournalRow._make(row) for row in self._rows(query)]))

    def close_segment(self, ready: tuple[Group, ...]) -> None:
        """Move the lines that `ready_segment` found out of the journal."""
        # Told to readers first: they look into segments for nothing rather than miss a line.
        with self._closing:
            self._closed_upto = int(str(ready[-1].values[0]["to_line"]))
        self._writer.clear(*ready)

    def segments(self, *, thinned: bool | None = None) -> list[SegmentRow]:
        """Closed segments, the oldest first; only those thinned, or not, if given."""
        return self._segments.listed(thinned=thinned)

    def segment_lines(self, segment: SegmentRow) -> list[JournalRow]:
        return self._segments.read(segment.first)

    def rewrite_segment(
        self, segment: SegmentRow, rows: Sequence[JournalRow], *, thinned: bool
    ) -> None:
        """Leave only these lines in a segment."""
        self._writer.clear(*rewriting(segment, rows, thinned=thinned))

    def last_line(self) -> int:
        """The highest id ever given to a journal line; 0 before the first."""
        return self._number(select(schema.writer.c.line))

    def usage(self, since_at: float, until_at: float | None, now_at: float) -> list[UsageSum]:
        """Device-seconds between two moments; running attempts count up to now."""
        rows = self._rows(queries.usage(since_at, until_at, now_at=now_at))
        return [UsageSum._make(row) for row in rows]

    # -- what ended jobs left on disk

    def output(self, job: str) -> OutputRow | None:
        rows = self._rows(select(schema.outputs).where(schema.outputs.c.job == job), job)
        return OutputRow._make(rows[0]) if rows else None

    def unmeasured(
        self, limit: int, *, after: tuple[int, int] | None = None
    ) -> tuple[list[OutputRow], tuple[int, int] | None]:
        """Ended jobs of which it is not known what they left, the oldest first, and where to go
        on; None: there are no more."""
        found = self._rows(queries.unmeasured(after, limit=limit))
        rows = [OutputRow(job, owner, ended_at, 0) for job, owner, ended_at, *_ in found]
        number, member = found[-1][3:] if len(found) == limit else (None, None)
        return rows, None if number is None else (
            number,
            schema.NO_MEMBER if member is None else member,
        )

    def outputs(
        self, *, owner: str = "", after: tuple[float, str] | None = None, limit: int = 1000
    ) -> list[OutputRow]:
        """What ended jobs left and was not pruned, the oldest first; of one owner if given."""
        query = queries.outputs(owner=owner, after=after, limit=limit)
        return [OutputRow._make(row) for row in self._rows(query, owner)]

    def output_bytes(self, owner: str = "") -> int:
        """The sum of what was not pruned."""
        return self._number(queries.output_bytes(owner))

    def put_outputs(self, rows: Sequence[OutputRow]) -> None:
        if rows:
            values = [row._asdict() for row in rows]
            self._writer.clear(Group("prune", self._writer.statements.outputs, values))

    def ended_before(self, at: float, *, owner: str = "", limit: int = 1000) -> list[JobRow]:
        """Ended jobs, the oldest first."""
        query = queries.ended_before(at, owner=owner, limit=limit)
        return [JobRow._make(row) for row in self._rows(query, owner)]

    def names_diff(self, digest: str) -> bool:
        """Whether a job's record names this difference of its code; all records are looked at."""
        return bool(self._rows(queries.with_diff(digest), digest))

    def forget_jobs(self, jobs: Sequence[str]) -> int:
        """Delete the records, attempts and journal lines of ended jobs; the count of lines.

        Lines of an array go with the last of its jobs.
        """
        arrays = self._arrays_left_empty(jobs)
        names = [*jobs, *arrays]
        count = self._number(
            select(func.count()).select_from(schema.journal).where(schema.journal.c.job.in_(names))
        )
        groups: list[Group] = []
        found = {row.first: row for row in self._segments.listed()}
        for first in self._segments.of_jobs(names):
            rows = self._segments.read(first)
            kept = [row for row in rows if row.job not in frozenset(names)]
            count += len(rows) - len(kept)
            groups += rewriting(found[first], kept, thinned=False)
        # Numbers are not given again: folders and people know jobs by them.
        highest = [{"key": HIGHEST, "value": str(self.next_number() - 1)}]
        groups.append(Group("prune", self._writer.statements.settings, highest))
        gone = [{"gone_0": name} for name in names]
        self._writer.clear(*groups, *(Group("prune", drop, gone) for drop in _DROP_JOB))
        return count

    def _arrays_left_empty(self, jobs: Sequence[str]) -> list[str]:
        table = schema.jobs
        members = select(table.c.array).where(table.c.id.in_(list(jobs)), table.c.array != "")
        others = select(table.c.array).where(table.c.id.not_in(list(jobs)), table.c.array != "")
        query = members.distinct().where(table.c.array.not_in(others))
        return [str(row[0]) for row in self._rows(query)]

    # -- settings, profiles, keys and tokens

    def settings(self) -> dict[str, str]:
        """How the controller runs; who the store is has keys of its own."""
        table = schema.settings
        query = select(table).where(table.c.key.not_like(f"{identity.PREFIX}%"))
        return {row[0]: row[1] for row in self._rows(query)}

    def setting(self, key: str) -> str | None:
        query = select(schema.settings.c.value).where(schema.settings.c.key == key)
        rows = self._rows(query, key)
        return str(rows[0][0]) if rows else None

    def profiles(self, limit: int) -> list[ProfileRow]:
        """The profiles that changed last, newest first."""
        table = schema.profiles
        query = select(table).order_by(table.c.changed_at.desc(), table.c.key.desc())
        return [ProfileRow._make(row) for row in self._rows(query.limit(queries.bounded(limit)))]

    def key(self, owner: str, key: str) -> KeyRow | None:
        table = schema.keys
        query = select(table).where(table.c.owner == owner, table.c.key == key)
        rows = self._rows(query, owner, key)
        return KeyRow._make(rows[0]) if rows else None

    def key_names(self, *, limit: int) -> list[tuple[str, str]]:
        """The owners and names of idempotency keys, in any order."""
        query = select(schema.keys.c.owner, schema.keys.c.key).limit(queries.bounded(limit))
        return [(row[0], row[1]) for row in self._rows(query)]

    def tokens(self) -> list[TokenRow]:
        """All tokens, expired ones too, in order of creation."""
        table = schema.tokens
        rows = self._rows(select(table).order_by(table.c.created_at, table.c.id))
        return [TokenRow._make(row) for row in rows]

    # -- reading and pruning

    def _rows(self, query: Executable, *words: str) -> Sequence[Sequence[Any]]:
        """Run a query; no rows, without asking, if one of the words cannot be in the store."""
        if self._closed:
            raise StoreError(f"the store {self._backend.name} is closed", retryable=False)
        if not findable(*words):
            return []
        try:
            return self._answer(query)
        except DBAPIError as error:
            raise StoreError(
                f"cannot read the store {self._backend.name}: {first_line(error.orig or error)}",
                retryable=self._backend.retryable(error),
                unreached=self._backend.unreached(error),
            ) from error
        except NoConnectionError as error:
            raise StoreError(
                f"cannot read the store {self._backend.name}: all read connections are busy",
                retryable=True,
                unreached=True,
            ) from error

    def _answer(self, query: Executable) -> Sequence[Sequence[Any]]:
        try:
            with self._backend.reading.connect() as connection:
                return connection.execute(query).all()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        # A server that restarted has closed all connections; the pool has dropped the others.
        with self._backend.reading.connect() as connection:
            return connection.execute(query).all()

    def _number(self, query: Executable) -> int:
        rows = self._rows(query)
        return int(rows[0][0] or 0) if rows else 0

    def _prune(self, drop: Executable, old: Executable) -> int:
        """Delete the rows that the query finds; how many."""
        rows = self._rows(old)
        if rows:
            self._writer.clear(Group("prune", drop, [_gone(row) for row in rows]))
        return len(rows)


def _gone(key: Sequence[Any]) -> dict[str, Any]:
    return {f"gone_{place}": value for place, value in enumerate(key)}
