"""From an order to a process that carries it out: a supervisor, a warm interpreter, or a trial.

The fork server calls `supervise` in a new process. Part of the supervisor: it imports the standard
library alone.
"""

import json
import os
import socket
from pathlib import Path

from treadle.engines.node import machine_probe
from treadle.engines.node.output_capture import open_new
from treadle.engines.node.processes import start_of
from treadle.engines.node.ranks import libc
from treadle.engines.node.supervisor import Attempt, tell
from treadle.engines.node.supervisor_files import (
    SPARE_BYTES,
    has_ended,
    take_lock,
    write_all,
)
from treadle.engines.node.warm_launch import become_template

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36


def supervise(orders: int, report: int, control: int | None = None) -> None:
    """Read an order and carry it out to its end.

    control: the socket of a warm interpreter; of one that is to begin, its own end.
    """
    with os.fdopen(orders, "rb") as file:
        file.seek(0)
        order = json.load(file)
    if order.get("probe"):
        return _probe(report)
    if order.get("warm"):
        assert control is not None
        become_template(order, report, control)
    warm = None if control is None else socket.socket(fileno=control)
    folder = Path(order["folder"])
    libc.prctl(PR_SET_NAME, f"treadle:{order['job']}".encode()[:15], 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    lock = take_lock(folder)
    if lock is None:
        return tell(report, {"taken": True})
    if has_ended(folder, order["nonce"]):
        return tell(report, {"ended": True})
    order["supervisor"] = os.getpid()
    attempt = Attempt(order, report, warm)  # from here on it takes the stop signal
    keys = ("job", "attempt", "nonce", "action", "tag", "devices", "turn")
    about = {key: order[key] for key in keys}
    about |= {"pid": os.getpid(), "start": start_of(os.getpid())}
    about |= {key: order[key] for key in ("scope", "workdir", "grace_s", "time_limit_s", "part")}
    write_all(lock, json.dumps(about).encode())
    spare = open_new(folder / "status.spare")
    os.posix_fallocate(spare, 0, SPARE_BYTES)
    os.close(spare)
    tell(report, {"pid": about["pid"], "start": about["start"]})
    return attempt.run()


def _probe(report: int) -> None:
    """A trial launch: all that a supervisor needs, and no job."""
    machine_probe.check_memory()
    machine_probe.check_descriptors()
    machine_probe.check_processes()
    tell(report, {"probe": True})
