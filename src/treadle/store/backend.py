"""What differs between the two databases, as one port; `sqlite.py` and `postgresql.py` are it."""

from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from treadle.store.deadline import Deadline


class Backend(Protocol):
    kind: str  # "sqlite" or "postgresql"
    name: str  # as people know it, without a password
    writing: Engine  # begins its transactions so that they cannot fail half-way for a lock
    reading: Engine  # each statement by itself

    def hold(self, connection: Connection, deadline: Deadline) -> None:
        """Become the only controller of this store, or raise a StoreError that names the other."""

    def let_go(self, connection: Connection) -> None:
        """Make room for the next controller at once; the connection may be dead."""

    def set_aside(self, revision: str) -> None:
        """Keep a copy of what is there before it is brought to that revision."""

    def waits(self, error: DBAPIError) -> bool:
        """Whether the trouble is known to pass: somebody's lock, a server that restarts."""

    def retryable(self, error: DBAPIError) -> bool:
        """Whether the same may work later, once somebody has made room, say."""

    def release(self) -> None:
        """Let go of everything: connections and the lock."""
