"""Daemons and commands forked from a process that has loaded what they need, in a second or two.

A process of the tests has one such server. For each daemon it forks a keeper, which forks the
daemon, says its pid and, when it has ended, its exit code. It leaves when the tests do: its input
is closed then.
"""

import atexit
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import IO, NoReturn

ROOT = Path(__file__).parents[2]
LOADED = (
    *("treadle.cli.entry", "treadle.cli.live.up", "treadle.server.daemon", "treadle.server.run"),
    *("treadle.engines.clusters.here", "sqlalchemy.dialects.sqlite"),
    *("uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on"),
)
MESSAGE_BYTES_MAX = 1 << 17
FILES_MAX = 256


class Started:
    """A process that is not a child of this one, with the methods of `subprocess.Popen`."""

    def __init__(
        self,
        words: Sequence[str],
        output: IO[bytes],
        errors: IO[bytes] | None = None,
        given: IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._keeper.connect(_server())
        order = {
            "words": words,
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        }
        files = [output.fileno(), (errors or output).fileno()]
        files += [] if given is None else [given.fileno()]
        socket.send_fds(self._keeper, [json.dumps(order).encode()], files)
        self.pid = int(self._keeper.recv(MESSAGE_BYTES_MAX))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._keeper], [], [], 0)[0]:
            self._hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._keeper], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("treadle up", timeout or 0.0)
            self._hear()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        self._keeper.close()

    def _hear(self) -> None:
        self.returncode = int(self._keeper.recv(MESSAGE_BYTES_MAX))
        self._keeper.close()


def ran(
    *words: str,
    given: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 180.0,
) -> "subprocess.CompletedProcess[str]":
    """What a command printed, and its exit code; like `subprocess.run`."""
    with ExitStack() as files:
        output, errors, entered = (files.enter_context(TemporaryFile()) for _ in range(3))
        entered.write(given.encode())
        entered.seek(0)
        code = Started(words, output, errors, entered, env, cwd).wait(timeout)
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *said)


@cache
def _server() -> str:
    """Where it listens; the first call starts it."""
    path = str(Path(mkdtemp(prefix="warm-")) / "s")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    code = f"from tests.control.warm_start import serve; serve({listener.fileno()})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        cwd=ROOT,
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )
    listener.close()
    atexit.register(_end, process, Path(path), os.getpid())
    return path


def _end(process: "subprocess.Popen[bytes]", path: Path, owner: int) -> None:
    if os.getpid() != owner:  # A fork of the tests ends.
        return
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
    path.unlink()
    path.parent.rmdir()


def serve(descriptor: int) -> None:
    for module in LOADED:
        importlib.import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody asks how keepers end.
    listener = socket.socket(fileno=descriptor)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        link, _ = listener.accept()
        if os.fork() == 0:
            _keep(link)
        link.close()


def _keep(link: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(link, MESSAGE_BYTES_MAX, 3)
    pid = os.fork()
    if pid == 0:
        _become(json.loads(message), *files)
    link.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    link.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(
    order: dict[str, object], output: int, errors: int, given: int | None = None
) -> NoReturn:
    """`treadle` with these words, as if it had been started just now."""
    os.setsid()
    given = os.open(os.devnull, os.O_RDONLY) if given is None else given
    for descriptor, source in enumerate((given, output, errors)):
        os.dup2(source, descriptor)
    os.closerange(3, FILES_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, order["files"])  # type: ignore[arg-type]
    os.chdir(str(order["folder"]))
    os.environ.clear()
    os.environ.update(order["environment"])  # type: ignore[call-overload]
    sys.argv = ["treadle", *order["words"]]  # type: ignore[misc]
    code: object = 1
    try:
        sys.modules["treadle.cli.entry"].main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
