"""The engine's side of the fork server: start it, and have supervisors forked.

Whatever may have to wait for the server is called in a thread, because a server that hangs would
otherwise stop the engine's loop.
"""

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from treadle.engines.node.open_files import restore_limit

SEND_WITHIN_S = 5  # a server that takes no order for so long is replaced
LEAVE_WITHIN_S = 2.0


class Sent(NamedTuple):
    """An order that was sent."""

    report: int  # the end of the pipe on which its supervisor reports
    server: int  # which server it was sent to


class ForkServer:
    """A process that forks supervisors. It starts when it is needed, and again if it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._number = 0  # of servers that were started

    def start(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limit = struct.pack("ll", SEND_WITHIN_S, 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        program = str(Path(__file__).with_name("fork_server.py"))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )
            restore_limit(self._process.pid)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        self._number += 1
        return ours

    def launch(self, order: Mapping[str, Any], more: int | None = None) -> Sent:
        """Have an attempt launched; a server that takes no orders is replaced.

        more: a file that goes with the order.
        """
        with self._lock:
            return self._launch(order, [] if more is None else [more])

    def _launch(self, order: Mapping[str, Any], more: list[int]) -> Sent:
        document = _nameless_file(json.dumps(order).encode())
        try:
            report, theirs = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(report, False)
            try:
                self._send([document, theirs, *more])
            except OSError:
                os.close(report)
                raise
            finally:
                os.close(theirs)
        finally:
            os.close(document)
        return Sent(report, self._number)

    def _send(self, files: Sequence[int]) -> None:
        if self._closed:  # By an engine that leaves: a launch that was under way comes too late.
            raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
        try:
            socket.send_fds(self.start(), [b"launch"], files)
        except OSError:  # It was killed, or it hangs: try once more with a fresh one.
            self._kill()
            socket.send_fds(self.start(), [b"launch"], files)

    def wake(self) -> None:
        """Continue it, if it was stopped (SIGSTOP)."""
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGCONT)  # Not sent if it has ended.

    def give_up(self, server: int) -> None:
        """Replace the server, unless another call did: it does not answer.

        Orders that it has not read are lost. Their pipes end, and they are launched again.
        """
        with self._lock:
            if server == self._number:
                self._kill()

    def close(self) -> None:
        """End it; the supervisors that it forked run on."""
        with self._lock:
            self._closed = True
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            if self._process is not None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(LEAVE_WITHIN_S)
            self._kill()

    def _kill(self) -> None:
        """End it at once, with the orders that it has not read."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _nameless_file(data: bytes) -> int:
    """A file in memory without a name, never on a disk."""
    file = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    except OSError:
        os.close(file)
        raise
    return file
