"""Progress reports from a running job: `treadle.report(step, total, loss=...)`.

Standard library only, so that it works in any job's environment. A thread sends the newest value
at most once a second, and again later if nothing took it; training never waits for it, and never
fails because of it. Outside Treadle, and on ranks other than 0, nothing happens.
"""

import atexit
import http.client
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import ModuleType
from typing import SupportsFloat
from urllib.parse import quote, urlsplit

EVERY_S = 1.0
FLUSH_S_MAX = 1.0
CALL_S_MAX = 5.0
AGAIN_S_MAX = 60.0


def report(
    step: SupportsFloat,
    total: SupportsFloat | None = None,
    *,
    loss: SupportsFloat | None = None,
    checkpoint: SupportsFloat | None = None,
    stages: Mapping[str, float] | None = None,
) -> None:
    """Report that this job has done `step` of `total` steps, and its newest checkpoint.

    stages: seconds of a step in `load`, `prepare`, `compute` and `sync`, and of a whole `step`;
    empty: what was said of them counts no more.

    Cheap enough to call after every step.
    """
    with suppress(Exception):  # not even when no thread can be started any more
        sender = _sender()
        if sender is not None:
            given = {"step": step, "total": total, "loss": loss, "checkpoint": checkpoint}
            said = {name: value for name, value in given.items() if value is not None}
            sender.put(said, None if stages is None else dict(stages))


class _Sender:
    """Keeps the newest values and sends them from a thread of its own."""

    def __init__(self, address: str, token: str, job: str) -> None:
        self.pid = os.getpid()
        self._address = address
        self._token = token
        self._path = f"/api/v1/jobs/{quote(job, safe=':')}/report"
        self._newest: tuple[dict[str, SupportsFloat], dict[str, float] | None] = ({}, None)
        self._changed = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="treadle-report", daemon=True)
        self._thread.start()
        atexit.register(self.flush)

    def put(self, values: dict[str, SupportsFloat], stages: dict[str, float] | None) -> None:
        # A value that is not given keeps its last one: a checkpoint is not forgotten because the
        # next step does not repeat it. One assignment, so that no lock is needed.
        before, timed = self._newest
        newest = {**before, **{name: _loose(each) for name, each in values.items()}}
        self._newest = (newest, timed if stages is None else stages)
        self._changed.set()

    def flush(self) -> None:
        """Send what is left, but do not hold up the end of the program for long."""
        if self.pid == os.getpid():
            self._ending.set()
            self._changed.set()
            self._thread.join(FLUSH_S_MAX)

    def _run(self) -> None:
        sent: object = None
        again_s: float | None = None  # what was not taken is sent again after so long
        while True:
            self._changed.wait(again_s)
            self._changed.clear()
            ending = self._ending.is_set()
            newest = self._newest
            if newest[0] and newest is not sent:
                taken = self._send(*newest)
                sent = newest if taken else None
                again_s = None if taken else min(2.0 * (again_s or EVERY_S), AGAIN_S_MAX)
            if ending:
                return
            self._ending.wait(EVERY_S)

    def _send(self, values: dict[str, SupportsFloat], stages: dict[str, float] | None) -> bool:
        """Whether it was taken, or refused for good."""
        connection = None
        try:
            # Numbers of other libraries (tensors, arrays) become plain ones here, off the path
            # of the training loop.
            numbers = {name: float(value) for name, value in values.items()}
            # NaN and infinities are not JSON; a loss that has become one is left out.
            said: dict[str, object] = {n: v for n, v in numbers.items() if v - v == 0}
            body = json.dumps(said if stages is None else {**said, "stages": stages})
            connection = _connection(self._address)
            connection.request(
                "POST",
                self._path,
                body=body.encode(),
                headers={
                    "Authorization": f"Bearer {self._token}",
                    "Content-Type": "application/json",
                },
            )
            answer = connection.getresponse()
            answer.read()
            taken = answer.status < 500 and answer.status != 429  # too many requests, for now
        except OSError:
            taken = False  # Nothing listens now: a daemon or an agent is being started again.
        except Exception:
            taken = True  # What cannot be said is no reason to disturb a job.
        finally:
            if connection is not None:
                connection.close()
        return taken


def _loose(value: SupportsFloat) -> SupportsFloat:
    """A tensor without the graph that made it, which would otherwise be kept alive."""
    detach = getattr(value, "detach", None)
    found: SupportsFloat = detach() if callable(detach) else value
    return found


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("treadle", timeout=CALL_S_MAX)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if not self._path.startswith("@"):
            self.sock.connect(self._path)
            return
        self.sock.connect(f"\0{self._path[1:]}")
        # A name that is no file: anyone may take it while it is free.
        peer = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("3i", peer)[1] not in (0, os.getuid()):
            raise PermissionError(f"{self._path} is another user's")


def _connection(address: str) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return _UnixConnection(address.removeprefix("unix:"))
    parts = urlsplit(address)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=CALL_S_MAX)


_made: _Sender | None = None


def _sender() -> _Sender | None:
    """The sender of this process; a forked child makes none, its parent reports."""
    global _made  # noqa: PLW0603  (one for each process is the point)
    if _made is not None:
        return _made if _made.pid == os.getpid() else None
    env = os.environ
    names = ("TREADLE_API_URL", "TREADLE_JOB_TOKEN", "TREADLE_JOB_ID")
    if not all(env.get(name) for name in names) or env.get("RANK", "0") != "0":
        return None
    _made = _Sender(*(env[name] for name in names))
    return _made


class _CallableModule(ModuleType):
    """`treadle.report` names this module once it is imported, and is to be called all the same."""

    def __call__(
        self,
        step: SupportsFloat,
        total: SupportsFloat | None = None,
        *,
        loss: SupportsFloat | None = None,
        checkpoint: SupportsFloat | None = None,
        stages: Mapping[str, float] | None = None,
    ) -> None:
        report(step, total, loss=loss, checkpoint=checkpoint, stages=stages)


sys.modules[__name__].__class__ = _CallableModule
