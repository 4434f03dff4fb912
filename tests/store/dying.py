"""Processes that die while they write, hold a lock, or write until they are killed.

They are forked from a server that has loaded the store before (tests/forked.py), so that hundreds
cost seconds.
"""

import os
import signal
import sqlite3
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.forked import context
from tests.store.made import LINE
from treadle.store.rows import Batch
from treadle.store.store import Store

JOIN_S = 60
GROUPS = (
    "journal",
    "jobs",
    "attempts",
    "profiles",
    "histories",
    "tokens",
    "keys",
    "settings",
    "secrets",
    "forgotten",
)
POINTS = ("begin", "writer", *GROUPS, "commit", "committed")


def die_while_writing(url: str, batch: Batch, point: str) -> bool:
    """Write in a process that is killed at that point; whether the batch got that far."""
    child = context.Process(target=_write_and_die, args=(url, batch, point))
    child.start()
    assert joined(child) in (0, -signal.SIGKILL)
    died = child.exitcode != 0
    child.close()
    return died


def joined(child: ForkServerProcess) -> int | None:
    child.join(JOIN_S)
    if child.exitcode is None:
        child.kill()
        child.join()
    return child.exitcode


def _write_and_die(url: str, batch: Batch, point: str) -> None:
    def hook(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with Store.open(url, hook=hook, lock_wait_s=20) as store:
        store.write(batch)


def write_until_killed(url: str, pipe: Connection) -> None:
    """Count up: each number in a setting and in two lines of the journal."""
    with Store.open(url, lock_wait_s=20) as store:
        number = int(store.setting("number") or "0")
        while True:
            number += 1
            lines = [LINE._replace(at=float(number))] * 2
            store.write(Batch(journal=lines, settings={"number": str(number)}))
            pipe.send(number)


def hold_locked(path: Path, pipe: Connection) -> None:
    """Lock the file as another program would, until asked to release it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    pipe.send("locked")
    pipe.recv()
    connection.execute("ROLLBACK")
    connection.close()


def hold_open(url: str, pipe: Connection) -> None:
    """Be the controller of that store until asked to stop."""
    with Store.open(url):
        pipe.send(os.getpid())
        pipe.recv()
