"""The fork server: a process that forks one supervisor for each attempt.

It runs as a program of its own (`python -I -S fork_server.py <socket>`) and imports the supervisor
once, without the rest of Treadle. A fork of it takes 0.6 ms; a new interpreter takes 40 ms.
"""

import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from errno import ENOMEM
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
    with suppress(FileNotFoundError):
        tempfile.gettempdir()  # Found by writing a file: once, not in every supervisor.
    serve(socket.socket(fileno=number), supervisor.supervise, supervisor.tell)


def serve(
    engine: socket.socket,
    supervise: Callable[..., None],
    tell: Callable[[int, dict[str, object]], None],
) -> None:
    """Fork a supervisor for every order, until the engine is gone."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        if signal.getsignal(number) is signal.SIG_IGN:  # A parent did, with nohup perhaps.
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps supervisors.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
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
                sentence = f"no process could be forked: {error.strerror}"
                tell(files[1], {"failed": sentence, "errno": error.errno})
                pid = -1
            if pid == 0:
                engine.close()
                _leave(files, supervise, tell)
        for file in files:
            os.close(file)


def _leave(
    files: list[int],
    supervise: Callable[..., None],
    tell: Callable[[int, dict[str, object]], None],
) -> NoReturn:
    """In the new process: supervise one attempt in a session of its own, and end."""
    code = 0
    try:
        os.setsid()
        os.chdir("/")
        supervise(*files)
    except BaseException as error:  # nothing may unwind into the loop of the fork server
        number = ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)
        tell(files[1], {"failed": f"the supervisor failed: {error}", "errno": number})
        code = 1
    os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
