"""The store: everything that must survive a crash.

Writes go through `Writer`, one transaction for each batch. Reads see committed data only, have
connections of their own and may come from any thread. One process at a time has a store open.
"""

from collections.abc import Sequence
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
    JobFilter,
    JobRow,
    JournalRow,
    KeyRow,
    ProfileRow,
    TokenRow,
    UsageSum,
)
from treadle.store.statements import Group
from treadle.store.writer import Hook, Writer

PATIENCE_S = 15.0  # how long a write waits for a lock or a server that restarts
LOCK_WAIT_S = 1.0  # a controller that was just killed releases its lock within that time
PRUNE_ROWS_MAX = 500  # in one transaction, so that other writes never wait long

_DROP_TOKENS = delete(schema.tokens).where(schema.tokens.c.id == bindparam("gone_0"))
_DROP_KEYS = (
    delete(schema.keys)
    .where(schema.keys.c.owner == bindparam("gone_0"))
    .where(schema.keys.c.key == bindparam("gone_1"))
)


class Store:
    def __init__(self, backend: Backend, writer: Writer) -> None:
        self._backend = backend
        self._writer = writer
        self._closed = False

    @classmethod
    def open(
        cls,
        url: str,
        *,
        hook: Hook | None = None,
        patience_s: float = PATIENCE_S,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> Self:
        """Open, make or upgrade the store at the URL and become its only controller.

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
        """Where it is, without a password."""
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

    def prune(self, *, keys_before_at: float, tokens_before_at: float) -> int:
        """Delete idempotency keys made, and tokens expired, before these moments; the row count.

        Many small transactions, so that other writes get their turn between them.
        """
        keys = queries.old_keys(keys_before_at, limit=PRUNE_ROWS_MAX)
        tokens = queries.old_tokens(tokens_before_at, limit=PRUNE_ROWS_MAX)
        return self._prune(_DROP_KEYS, keys) + self._prune(_DROP_TOKENS, tokens)

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

    def next_number(self) -> int:
        """One more than the highest job number; 1 in an empty store."""
        return self._number(select(func.max(schema.jobs.c.number))) + 1

    def attempts(self, job: str) -> list[AttemptRow]:
        return [AttemptRow._make(row) for row in self._rows(queries.attempts(job), job)]

    def attempt(self, job: str, number: int) -> AttemptRow | None:
        rows = self._rows(queries.attempt(job, number), job)
        return AttemptRow._make(rows[0]) if rows else None

    def open_attempts(self) -> list[AttemptRow]:
        """Attempts that have not ended, in the order of the actions that started them."""
        return [AttemptRow._make(row) for row in self._rows(queries.open_attempts())]

    def secret(self, job: str) -> bytes | None:
        query = select(schema.secrets.c.sealed).where(schema.secrets.c.job == job)
        rows = self._rows(query, job)
        return bytes(rows[0][0]) if rows else None

    # -- history

    def lines(
        self, after: int, *, job: str = "", kinds: Sequence[str] = (), limit: int = 1000
    ) -> list[JournalRow]:
        """Journal lines after an id, ascending; only of one job or of some kinds if given."""
        query = queries.lines(after=after, job=job, kinds=kinds, limit=limit)
        return [JournalRow._make(row) for row in self._rows(query, job, *kinds)]

    def lines_last(
        self, *, job: str = "", kinds: Sequence[str] = (), limit: int = 100
    ) -> list[JournalRow]:
        """The newest lines, ascending."""
        query = queries.lines(after=0, job=job, kinds=kinds, limit=limit, last=True)
        return [JournalRow._make(row) for row in reversed(self._rows(query, job, *kinds))]

    def last_line(self) -> int:
        """The highest id ever given to a journal line; 0 before the first."""
        return self._number(select(schema.writer.c.line))

    def usage(self, since_at: float, until_at: float | None, now_at: float) -> list[UsageSum]:
        """Device-seconds between two moments; running attempts count up to now."""
        rows = self._rows(queries.usage(since_at, until_at, now_at=now_at))
        return [UsageSum._make(row) for row in rows]

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
            ) from error
        except NoConnectionError as error:
            raise StoreError(
                f"cannot read the store {self._backend.name}: all read connections are busy",
                retryable=True,
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
        """Delete the rows that the query finds, until it finds none."""
        count = 0
        while rows := self._rows(old):
            self._writer.clear(Group("prune", drop, [_gone(row) for row in rows]))
            count += len(rows)
        return count


def _gone(key: Sequence[Any]) -> dict[str, Any]:
    return {f"gone_{place}": value for place, value in enumerate(key)}
