"""PostgreSQL through psycopg 3: the connection that writes also holds the lock.

It is an advisory lock of the session. It ends with the connection that writes, so it cannot be lost
unnoticed; a new connection takes it again or is refused. The session's name says who holds it.
"""

import os
import socket
from contextlib import suppress
from uuid import uuid4

import psycopg
from sqlalchemy import URL, Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from treadle.store.deadline import Deadline
from treadle.store.filelock import Holder, in_use

READERS_MAX = 8
CONNECT_WAIT_S = 5
# A peer that vanished without closing its connection is noticed after about that time.
SILENCE_S = 15
READ_MS = 10_000  # a question that takes longer is ended; the one who asked has gone by then
LOCK_WAIT_MS = 1_000  # for a lock on a table; the store retries until its own deadline
LOCK_NUMBER = 0x54726561  # "Trea" in ASCII; the schema's name is the other half
NAME_BYTES_MAX = 63  # PostgreSQL truncates longer names

# Classes of SQLSTATE: connection lost, rolled back because of a conflict, server shutting down or
# starting, lock not available, too many connections.
_WAITS = ("08", "40", "57P", "55P03", "53300")
# A full or broken disk, no memory, a standby that is not the primary yet: these can be repaired.
_RETRYABLE = (*_WAITS, "53", "58", "25006", "57014")

_TRY_LOCK = text("SELECT pg_try_advisory_lock(:number, hashtext(coalesce(current_schema(), '')))")
_UNLOCK = text("SELECT pg_advisory_unlock_all()")
_HOLDER = text(
    "SELECT held.pid, activity.application_name AS name FROM pg_locks AS held"
    " JOIN pg_stat_activity AS activity ON activity.pid = held.pid"
    " WHERE held.locktype = 'advisory' AND held.granted AND held.classid::bigint = :number"
    " AND held.objid::bigint = hashtext(coalesce(current_schema(), ''))::bigint & 4294967295"
    " AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_END_SESSION = text("SELECT pg_terminate_backend(:pid)")


class PostgresqlBackend:
    kind = "postgresql"

    def __init__(self, url: URL, name: str) -> None:
        self.name = name
        mark = uuid4().hex[:8]
        self._ours = f"treadle {os.getpid()} {mark} {socket.gethostname()}"[:NAME_BYTES_MAX]
        self.writing = create_engine(
            url, connect_args=_session(url, self._ours), poolclass=NullPool, hide_parameters=True
        )
        self.reading = create_engine(
            url,
            connect_args=_session(url, f"treadle reads {mark}", f"-c statement_timeout={READ_MS}"),
            pool_size=READERS_MAX,
            max_overflow=0,
            pool_timeout=CONNECT_WAIT_S,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )

    def hold(self, connection: Connection, deadline: Deadline) -> None:
        """Take the lock; end a session of our own that was cut off and still holds it."""
        values = {"number": LOCK_NUMBER}
        while True:
            with connection.begin():
                if connection.execute(_TRY_LOCK, values).scalar():
                    return
                holder = connection.execute(_HOLDER, values).first()
                if holder is not None and holder.name == self._ours:
                    connection.execute(_END_SESSION, {"pid": holder.pid})
            if not deadline.pause():
                name = holder.name or "" if holder is not None else ""
                raise in_use(self.name, Holder(_holder(name)))

    def let_go(self, connection: Connection) -> None:
        """Unlock now: the server notices a closed connection only a moment later."""
        with suppress(DBAPIError), connection.begin():
            connection.execute(_UNLOCK)

    def verify(self, *, written: bool) -> None:
        """Nothing: a session stays with its database, and a new one looks at the store's id."""

    def waits(self, error: DBAPIError) -> bool:
        return _lost(error) or _state(error).startswith(_WAITS)

    def retryable(self, error: DBAPIError) -> bool:
        return _lost(error) or _state(error).startswith(_RETRYABLE)

    def unreached(self, error: DBAPIError) -> bool:
        return _lost(error)

    def release(self) -> None:
        self.reading.dispose()
        self.writing.dispose()


def _session(url: URL, name: str, more: str = "") -> dict[str, str | int]:
    """How to connect, so that each side notices when the other has vanished."""
    given = url.query.get("options", "")
    settings = (
        f"-c tcp_keepalives_idle={SILENCE_S // 3} -c tcp_keepalives_interval={SILENCE_S // 3}"
        f" -c tcp_keepalives_count=2 -c lock_timeout={LOCK_WAIT_MS} {more}"
    )
    return {
        "application_name": name,
        "connect_timeout": CONNECT_WAIT_S,
        "keepalives_idle": SILENCE_S // 3,
        "keepalives_interval": SILENCE_S // 3,
        "keepalives_count": 2,
        "tcp_user_timeout": SILENCE_S * 1000,
        "options": f"{given} {settings}" if isinstance(given, str) else settings,
    }


def _lost(error: DBAPIError) -> bool:
    """Whether the connection is lost or refused; a server that restarts refuses connections."""
    if error.connection_invalidated:
        return True
    return isinstance(error.orig, psycopg.OperationalError) and not _state(error)


def _state(error: DBAPIError) -> str:
    return (error.orig.sqlstate or "") if isinstance(error.orig, psycopg.Error) else ""


def _holder(session: str) -> str:
    words = session.split()
    if len(words) != 4 or words[0] != "treadle" or not words[1].isdigit():
        return ""
    here = words[3] == socket.gethostname()
    return f"process {words[1]}" if here else f"process {words[1]} on {words[3]}"
