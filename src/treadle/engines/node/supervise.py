"""From an order to a process that carries it out: a supervisor, a warm interpreter, or a trial.

The fork server calls `supervise` in a new process. Part of the supervisor: it imports the standard
library alone.
"""

import json
import os
import socket
from typing import Any

from treadle.engines.node import machine_probe
from treadle.engines.node.plain_files import read_open
from treadle.engines.node.processes import start_of
from treadle.engines.node.ranks import prctl
from treadle.engines.node.supervisor import Attempt
from treadle.engines.node.supervisor_files import OwnFiles, has_ended, take_lock, tell
from treadle.engines.node.warm_launch import become_template

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
ABOUT = (
    *("job", "attempt", "nonce", "action", "tag", "devices", "turn"),
    *("scope", "workdir", "grace_s", "time_limit_s", "part"),
)


def supervise(orders: int, report: int, control: int | None = None) -> None:
    """Carry out the order in a file to its end.

    control: the socket of a warm interpreter; of one that is to begin, its own end.
    """
    order: dict[str, Any] = json.loads(read_open(orders))
    os.close(orders)
    if order.get("probe"):
        return _probe(report)
    if order.get("warm"):
        assert control is not None
        become_template(order, report, control)
    warm = None if control is None else socket.socket(fileno=control)
    folder, own = order["folder"], os.getpid()
    prctl(PR_SET_NAME, f"treadle:{order['job']}".encode()[:15], 0, 0, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    lock = take_lock(folder)
    if lock is None:
        return tell(report, '{"taken": true}')
    if has_ended(folder, order["nonce"], order["action"]):
        return tell(report, '{"ended": true}')
    order["supervisor"], start = own, start_of(own)
    files = OwnFiles(folder, lock)
    attempt = Attempt(order, report, files, warm)  # from here on it takes the stop signal
    about = {"pid": own, "start": start} | {key: order[key] for key in ABOUT}
    files.add_line(json.dumps(about))
    tell(report, f'{{"pid": {own}, "start": {start}}}')
    return attempt.run()


def tell_failure(report: int, what: str, error: BaseException) -> None:
    said = {"failed": f"{what}: {machine_probe.sentence(error)}"}
    tell(report, json.dumps({**said, "errno": machine_probe.errno_of(error)}))


def _probe(report: int) -> None:
    """A trial launch: all that a supervisor needs, and no job."""
    machine_probe.check_memory()
    machine_probe.check_descriptors()
    machine_probe.check_processes()
    tell(report, '{"probe": true}')
