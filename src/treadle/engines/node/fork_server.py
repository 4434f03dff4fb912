"""The fork server: a process that forks one supervisor for each attempt.

It runs as a program of its own (`python -I -S fork_server.py <socket>`) and imports the supervisor
once, without the rest of Treadle. A fork of it takes 0.6 ms; a new interpreter takes 40 ms.
"""

import os
import signal
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

# Files sent with an order: the order itself, the pipe for reports, perhaps a third for the order.
FILES_MIN, FILES_MAX = 2, 3


def main(number: int) -> None:
    """Import the supervisor and serve until the engine is gone."""
    # A bare package, so that `treadle/__init__.py` and all it imports are not loaded.
    treadle = ModuleType("treadle")
    treadle.__path__ = [str(Path(__file__).parents[2])]
    sys.modules["treadle"] = treadle
    supervisor = import_module("treadle.engines.node.supervise")
    serve(socket.socket(fileno=number), supervisor)


def serve(engine: socket.socket, supervisor: ModuleType) -> None:
    """Fork a supervisor (supervise.py) for every order, until the engine is gone."""
    _take_signals()
    while True:
        message, files, _, _ = socket.recv_fds(engine, 16, FILES_MAX)
        for file in files:
            os.set_inheritable(file, False)  # Files from a socket are inheritable by default.
        if not message:
            return
        if len(files) >= FILES_MIN:
            try:
                pid = os.fork()
            except OSError as error:
                supervisor.tell_failure(files[1], "no process could be forked", error)
                pid = -1
            if pid == 0:
                engine.close()
                _supervise(supervisor, files)
        for file in files:
            os.close(file)


def _take_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        if signal.getsignal(number) is signal.SIG_IGN:  # A parent did, with nohup perhaps.
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps supervisors.
    # What Python ignores, and what supervisors are to: a program inherits what is ignored, and not
    # what has a handler.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _nothing(*_: object) -> None:
    """Takes a signal."""


def _supervise(supervisor: ModuleType, files: Sequence[int]) -> NoReturn:
    """In the new process: supervise one attempt in a session of its own, and end."""
    code = 0
    try:
        os.setsid()
        os.chdir("/")
        supervisor.supervise(*files)
    except BaseException as error:  # nothing may unwind into the loop of the fork server
        supervisor.tell_failure(files[1], "the supervisor failed", error)
        code = 1
    os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
