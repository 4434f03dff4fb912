"""The only writer of a store: each batch is one transaction, written once or not at all.

Every transaction first advances the row of the table `writer`, but only from the value that this
writer left there. That one statement does three things: it takes the database's lock, it refuses a
writer that another one has replaced, and it shows whether a commit whose answer was lost has
happened. A retry is therefore always safe, and `write` retries by itself while a database is locked
or restarts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from threading import Lock
from uuid import uuid4

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from treadle.store import identity, schema
from treadle.store.backend import Backend
from treadle.store.check import check
from treadle.store.deadline import Deadline
from treadle.store.errors import StoreError, first_line
from treadle.store.revision import make_or_check
from treadle.store.rows import Batch
from treadle.store.statements import CLAIM, Group, Statements

# Called with "begin", "writer", the name of each group of statements, "commit" and "committed".
Hook = Callable[[str], None]


@dataclass(slots=True)
class _Pending:
    """A transaction that has been tried and whose outcome is not known yet."""

    sequence: int
    line: int  # the last journal id once it is written
    batch: Batch | None  # None for deletions, whose outcome needs no report
    committing: bool = False  # the commit was sent, so it may have been written


class Writer:
    def __init__(self, backend: Backend, *, patience_s: float, hook: Hook | None) -> None:
        self._backend = backend
        self._patience_s = patience_s
        self._hook: Hook = hook or _nothing
        self.statements = Statements(backend.writing.dialect)
        self._lock = Lock()
        self._connection: Connection | None = None
        self._holder = uuid4().hex
        self.identity = ""  # of the store: made once, random
        self._sequence = 0  # number of our last committed transaction
        self._tried = 0  # the highest number given to a transaction so far
        self._line = 0
        self._pending: _Pending | None = None
        self._closed = False

    def open(self, deadline: Deadline) -> None:
        """Become the only writer, make the tables, and find where the journal ends."""
        while True:
            try:
                self._take_over(self._connected(deadline))
            except DBAPIError as error:
                self._drop_if_lost(error)
                if not (self._backend.waits(error) and deadline.pause()):
                    raise self._failure("open", error) from error
            else:
                return

    def write(self, batch: Batch) -> tuple[int, ...]:
        """Write a batch; returns the ids of its journal rows once everything is on disk."""
        check(batch)
        with self._lock:
            pending = self._begin(batch)
            first = pending.line - len(batch.journal) + 1
            self._land(pending, self.statements.groups(batch, first))
            return tuple(range(first, pending.line + 1))

    def clear(self, *groups: Group) -> None:
        """Run a transaction that deletes rows or moves them, and that may be repeated."""
        with self._lock:
            self._land(self._begin(None), groups)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._backend.let_go(self._connection)
            self._drop()

    def _begin(self, batch: Batch | None) -> _Pending:
        """The transaction to try: the pending one if it has this batch, otherwise a new one."""
        if self._closed:
            raise StoreError(f"the store {self._backend.name} is closed", retryable=False)
        if self._pending is not None:
            if batch is not None and self._pending.batch == batch:
                return self._pending
            self._settle(self._pending)
        self._tried += 1
        lines = 0 if batch is None else len(batch.journal)
        copy = None if batch is None else _copy(batch)
        self._pending = _Pending(self._tried, self._line + lines, copy)
        return self._pending

    def _land(self, pending: _Pending, groups: Iterable[Group]) -> None:
        """Try until the transaction is written or the time is up."""
        deadline = Deadline(self._patience_s)
        # A second try needs the statements again.
        groups = tuple(groups)
        while True:
            try:
                self._try(self._connected(deadline), pending, groups)
            except DBAPIError as error:
                self._drop_if_lost(error)
                if self._backend.waits(error) and deadline.pause():
                    continue
                if self._ask(pending, error):
                    return
                raise self._failure("write to", error) from error
            else:
                return

    def _try(self, connection: Connection, pending: _Pending, groups: tuple[Group, ...]) -> None:
        self._hook("begin")
        self._backend.verify(written=False)
        with connection.begin():
            if self._claim(connection, pending):
                # We hold the row, so an earlier try was not written and will not be.
                pending.committing = False
                self._hook("writer")
                for group in groups:
                    self.statements.run(connection, group.statement, group.values)
                    self._hook(group.name)
                self._hook("commit")
                pending.committing = True
        # What was written to a file that has lost its name is lost, and must not be confirmed.
        self._backend.verify(written=True)
        self._settled(pending)
        self._hook("committed")

    def _claim(self, connection: Connection, pending: _Pending) -> bool:
        """Advance our row; False if this transaction did so in an earlier try."""
        values = {
            "held_by": self._holder,
            "left_at": self._sequence,
            "reached": pending.sequence,
            "last_line": pending.line,
        }
        if self.statements.run(connection, CLAIM, [values]).rowcount == 1:
            return True
        if self._written(connection, pending):
            return False
        raise self._replaced()

    def _written(self, connection: Connection, pending: _Pending) -> bool:
        row = connection.execute(select(schema.writer)).one()
        if row.holder != self._holder:
            raise self._replaced()
        return bool(row.sequence == pending.sequence)

    def _settle(self, pending: _Pending) -> None:
        """Find out whether the pending transaction was written before a new one begins."""
        if pending.committing:
            try:
                with self._connected(Deadline(self._patience_s)).begin() as transaction:
                    written = self._written(transaction.connection, pending)
            except DBAPIError as error:
                self._drop_if_lost(error)
                raise self._failure("ask", error) from error
            if written and pending.batch is not None:
                raise StoreError(
                    f"the store {self._backend.name} has a batch that was reported as lost; "
                    "restart the controller, which then reads the present state",
                    retryable=False,
                )
            if written:
                self._settled(pending)
        self._pending = None

    def _ask(self, pending: _Pending, error: DBAPIError) -> bool:
        """Whether the transaction was written despite the error; raise if that is unknown."""
        if not pending.committing:
            self._pending = None
            return False
        try:
            with self._connected(Deadline(0)).begin() as transaction:
                written = self._written(transaction.connection, pending)
        except DBAPIError as silence:
            self._drop_if_lost(silence)
            raise StoreError(
                f"cannot say whether the store {self._backend.name} has the last batch: "
                f"{first_line(error.orig or error)}; write the same batch again",
                retryable=True,
                fate_unknown=True,
            ) from error
        if written:
            self._settled(pending)
        self._pending = None
        return written

    def _settled(self, pending: _Pending) -> None:
        self._sequence, self._line = pending.sequence, pending.line
        self._pending = None

    def _take_over(self, connection: Connection) -> None:
        with connection.begin():
            make_or_check(connection, self._backend.name)
            self.identity = identity.found(connection) or identity.make(connection)
            given = connection.execute(select(schema.writer.c.line)).scalar() or 0
            found = connection.execute(select(func.max(schema.journal.c.id))).scalar() or 0
            self._line = max(given, found)
            values = {"one": 1, "holder": self._holder, "sequence": 0, "line": self._line}
            connection.execute(self.statements.take_over, [values])

    def _connected(self, deadline: Deadline) -> Connection:
        if self._connection is None:
            connection = self._backend.writing.connect()
            try:
                self._backend.hold(connection, deadline)
                if self.identity:
                    identity.check(connection, self.identity, self._backend.name)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _drop_if_lost(self, error: DBAPIError) -> None:
        if error.connection_invalidated:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _failure(self, doing: str, error: DBAPIError) -> StoreError:
        return StoreError(
            f"cannot {doing} the store {self._backend.name}: {first_line(error.orig or error)}",
            retryable=self._backend.retryable(error),
            unreached=self._backend.unreached(error),
        )

    def _replaced(self) -> StoreError:
        return StoreError(
            f"another controller has taken over the store {self._backend.name}; this one can no "
            "longer write",
            retryable=False,
        )


def _copy(batch: Batch) -> Batch:
    """A copy, since the caller may add to its lists later."""
    return Batch(**{part.name: getattr(batch, part.name).copy() for part in fields(batch)})


def _nothing(point: str) -> None:
    """The default hook."""
