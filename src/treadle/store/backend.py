"""The port for a database: what `sqlite.py` and `postgresql.py` each do their own way."""

from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from treadle.store.deadline import Deadline


class Backend(Protocol):
    kind: str  # "sqlite" or "postgresql"
    name: str  # for messages, without a password
    writing: Engine  # its transactions take their lock at the start
    reading: Engine  # each statement is a transaction of its own

    def hold(self, connection: Connection, deadline: Deadline) -> None:
        """Become the only controller of this store, or raise a StoreError that names the other."""

    def let_go(self, connection: Connection) -> None:
        """Release the lock at once for the next controller; the connection may be dead."""

    def verify(self, *, written: bool) -> None:
        """Raise a StoreError if the store's address does not lead to what was opened any more.

        written: a transaction was committed just now.
        """

    def waits(self, error: DBAPIError) -> bool:
        """Whether the error passes by itself: a lock, a server that restarts."""

    def retryable(self, error: DBAPIError) -> bool:
        """Whether the same operation may work later, after a full disk was cleared for example."""

    def unreached(self, error: DBAPIError) -> bool:
        """Whether the connection was refused, timed out or lost."""

    def release(self) -> None:
        """Close all connections and release the lock."""
