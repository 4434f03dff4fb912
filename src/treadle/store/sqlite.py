"""SQLite: one file, a lock beside it, a connection that writes and some that read.

The log is written ahead (WAL), so that readers never wait for the writer. Each commit is flushed
to the disk (`synchronous = FULL`): a job that was answered for survives a power cut.
"""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from treadle.core.errors import InvalidInputError
from treadle.files import replacing
from treadle.store.deadline import Deadline
from treadle.store.errors import StoreError
from treadle.store.filelock import FileLock

READERS_MAX = 8
READ_WAIT_MS = 5_000  # a reader waits only while the log is repaired after a crash
# A lock of somebody else is waited for by the store, which knows its deadline.
WRITE_WAIT_MS = 100
LOG_BYTES_MAX = 64 * 2**20  # what a log that grew is cut back to

_WAITS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# A full, broken or read-only disk, no memory: somebody can mend these while we run.
_RETRYABLE = _WAITS | {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
}


class SqliteBackend:
    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        # Two ways to write one path must not give two locks.
        self._path = path.resolve()
        self.name = str(self._path)
        self._lock = FileLock(self._path.with_name(self._path.name + ".lock"))
        self.writing = self._engine(wait_ms=WRITE_WAIT_MS)
        self.reading = self._engine(wait_ms=READ_WAIT_MS, reads=True)

    def hold(self, connection: Connection, deadline: Deadline) -> None:
        """The file lock was taken before the first connection and cannot be lost."""

    def let_go(self, connection: Connection) -> None:
        """The file lock goes with the last connection, in `release`."""

    def take(self, deadline: Deadline) -> None:
        """Make the file if it is not there, readable by its owner only, and lock it."""
        if not self._path.parent.is_dir():
            raise InvalidInputError(
                f"the store {self.name} is in a folder that does not exist; make it first"
            )
        self._lock.take(self.name, deadline)
        try:
            self._make()
        except BaseException:
            self._lock.release()
            raise

    def set_aside(self, revision: str) -> None:
        """Copy the file, log included, under a name of its own; complete or not at all."""
        copy = self._path.with_name(f"{self._path.name}.before-{revision}")
        unfinished = copy.with_name(copy.name + ".unfinished")
        try:
            with (
                replacing(copy, mode=0o600, sync=True, draft=unfinished.name),
                closing(sqlite3.connect(self._path)) as source,
                closing(sqlite3.connect(unfinished)) as target,
            ):
                source.backup(target)
        except sqlite3.Error as error:
            raise StoreError(
                f"cannot copy the store {self.name} before its upgrade: {error}", retryable=True
            ) from error

    def waits(self, error: DBAPIError) -> bool:
        return _code(error) in _WAITS

    def retryable(self, error: DBAPIError) -> bool:
        return _code(error) in _RETRYABLE

    def release(self) -> None:
        self.reading.dispose()
        self.writing.dispose()
        self._lock.release()

    def _make(self) -> None:
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            self._inspect()
        except OSError as error:
            raise StoreError(
                f"cannot make the store {self.name}: {error.strerror}", retryable=False
            ) from error

    def _inspect(self) -> None:
        status = self._path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInputError(f"the store {self.name} is not a file; name another one")
        if status.st_uid != os.geteuid():
            # Whoever can write to it could have commands run in the name of others.
            raise InvalidInputError(
                f"the store {self.name} belongs to the user with number {status.st_uid}, "
                f"not to {os.geteuid()}, who is running Treadle; name another one"
            )
        if stat.S_IMODE(status.st_mode) != 0o600:
            self._path.chmod(0o600)

    def _engine(self, *, wait_ms: int, reads: bool = False) -> Engine:
        def connect() -> sqlite3.Connection:
            # The log and its index get the file's own mode. A file that vanished must not be
            # made again, empty, behind the back of the lock.
            connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode=rw",
                uri=True,
                check_same_thread=False,
                isolation_level=None,
                timeout=wait_ms / 1000,
            )
            try:
                _set_up(connection, reads=reads)
            except BaseException:
                connection.close()
                raise
            return connection

        if reads:
            return create_engine(
                "sqlite://",
                creator=connect,
                poolclass=QueuePool,
                pool_size=READERS_MAX,
                max_overflow=0,
                isolation_level="AUTOCOMMIT",
                hide_parameters=True,
            )
        engine = create_engine(
            "sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True
        )
        event.listen(engine, "begin", _begin)
        event.listen(engine, "connect", _leave_begin_to_us)
        return engine


def _set_up(connection: sqlite3.Connection, *, reads: bool) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(
            f"SQLite cannot keep a log ahead on this file system (it offers {mode}); "
            "put the store on a local disk",
            retryable=False,
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_MAX}")
    # Sealed secrets that are deleted are overwritten where that costs no further page.
    connection.execute("PRAGMA secure_delete = FAST")
    if reads:
        connection.execute("PRAGMA query_only = ON")


def _leave_begin_to_us(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:  # noqa: ARG001
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later may find somebody else in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _code(error: DBAPIError) -> int:
    """SQLite's primary code; the rest of the number says where it arose."""
    return int(getattr(error.orig, "sqlite_errorcode", 0) or 0) & 0xFF
