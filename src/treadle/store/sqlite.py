"""SQLite: one file, a lock file beside it, one connection that writes and several that read.

The write-ahead log (WAL) lets readers work without waiting for the writer. Each commit is flushed
to the disk (`synchronous = FULL`): a job whose submission was confirmed survives a power cut.
"""

import os
import sqlite3
import stat
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from treadle.core.errors import InvalidInputError
from treadle.store.deadline import Deadline
from treadle.store.errors import StoreError
from treadle.store.filelock import FileLock

READERS_MAX = 8
READ_WAIT_MS = 5_000  # readers wait only while the log is recovered after a crash
# The store itself retries when another process has a lock: it knows its deadline.
WRITE_WAIT_MS = 100
LOG_BYTES_MAX = 64 * 2**20  # a longer log is truncated to this

_WAITS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# A full, broken or read-only disk, no memory: these can be repaired while we run.
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
        # One file must have one lock, however its path is written.
        self._path = path.resolve()
        self.name = str(self._path)
        self._lock = FileLock(self._path.with_name(self._path.name + ".lock"))
        self._opened: tuple[int, int] | None = None  # the file that we opened
        self._log: tuple[int, int] | None = None  # its write-ahead log, once we have written to it
        self.writing = self._engine(wait_ms=WRITE_WAIT_MS)
        self.reading = self._engine(wait_ms=READ_WAIT_MS, reads=True)

    def hold(self, connection: Connection, deadline: Deadline) -> None:  # noqa: ARG002
        """The file lock was taken before the first connection. A fresh connection has a new log."""
        self._log = None

    def let_go(self, connection: Connection) -> None:
        """Nothing: `release` gives the file lock back."""

    def take(self, deadline: Deadline) -> None:
        """Lock the store; create the file, readable by its owner only, if it does not exist."""
        if not self._path.parent.is_dir():
            raise InvalidInputError(
                f"the store {self.name} is in a folder that does not exist; create it first"
            )
        self._lock.take(self.name, deadline)
        try:
            self._make()
            self._opened = _mark(self._path)
        except BaseException:
            self._lock.release()
            raise

    def verify(self, *, written: bool) -> None:
        """Notice that the file was removed or replaced: SQLite would write to the old one for ever.

        The same of its log, without which the newest transactions are lost.
        """
        log = self._path.with_name(f"{self._path.name}-wal")
        gone = self._path if _mark(self._path) != self._opened else None
        if gone is None and self._log is not None and _mark(log) != self._log:
            gone = log
        if gone is not None:
            raise StoreError(
                f"{gone} was removed or replaced while Treadle uses it, so nothing more is "
                "written; put the same file back, or run treadle down and start again with what is "
                "there",
                retryable=True,
                fate_unknown=written,
            )
        if written and self._log is None:
            self._log = _mark(log)

    def waits(self, error: DBAPIError) -> bool:
        return _code(error) in _WAITS

    def retryable(self, error: DBAPIError) -> bool:
        return _code(error) in _RETRYABLE

    def unreached(self, error: DBAPIError) -> bool:  # noqa: ARG002
        return False  # A file needs no connection.

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
            # The owner of the file could run commands as any user of the store.
            raise InvalidInputError(
                f"the store {self.name} belongs to user id {status.st_uid}, "
                f"not to {os.geteuid()}, which runs Treadle; name another one"
            )
        if stat.S_IMODE(status.st_mode) != 0o600:
            self._path.chmod(0o600)

    def _engine(self, *, wait_ms: int, reads: bool = False) -> Engine:
        def connect() -> sqlite3.Connection:
            if self._opened is not None and _mark(self._path) != self._opened:
                self.verify(written=False)
            # The log and its index get the file's own mode. mode=rw: a file that was removed
            # while we hold the lock must not be created again, empty.
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
                pool_timeout=READ_WAIT_MS / 1000,
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
            f"SQLite cannot keep a write-ahead log on this file system (it offers {mode}); "
            "put the store on a local disk",
            retryable=False,
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_MAX}")
    # Deleted secrets are overwritten, if that needs no further page.
    connection.execute("PRAGMA secure_delete = FAST")
    if reads:
        connection.execute("PRAGMA query_only = ON")


def _mark(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _leave_begin_to_us(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:  # noqa: ARG001
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    # Take the lock first: a transaction that reads and then writes could lose it in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _code(error: DBAPIError) -> int:
    """SQLite's primary error code; the upper bits are the extended code."""
    return int(getattr(error.orig, "sqlite_errorcode", 0) or 0) & 0xFF
