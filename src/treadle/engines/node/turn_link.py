"""The engine's side of the turn server: start it, and what a job needs to reach it."""

import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from treadle.engines.node.turn_server import proof

PAUSE_S, PAUSE_S_MAX = 0.5, 300.0  # before a server that died at once is started again
LIVED_S = 10.0
KINDS = ("device", "cpu", "storage", "network")  # that the jobs on one device share


class TurnLink:
    """Has the server started when the first job calls it, and again if it died.

    Most jobs never call. Its address is a name, not a file: the ranks of other users could not
    reach a file in the engine's folder.
    """

    def __init__(self, way: str = "") -> None:
        self._way = way  # "free", "turns" or "strict" instead of what was tried to be better
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._engine: int | None = None  # the server ends some time after this is closed
        self._closing: tuple[int, int] | None = None
        self._address = f"treadle-turns-{secrets.token_hex(8)}"
        self._key = secrets.token_bytes(32)

    def environment(self, job: str, attempt: int, devices: Sequence[int]) -> dict[str, str]:
        """What the ranks of an attempt need to take turns; empty if that is not possible."""
        with self._lock:
            if self._listener is None:
                try:
                    self._listen()
                except OSError:
                    return {}  # They share freely.
        resources = [f"{kind}:{number}" for number in devices for kind in KINDS]
        return {
            "TREADLE_TURNS": self._address,
            "TREADLE_TURNS_RESOURCES": " ".join(resources),
            "TREADLE_TURNS_PROOF": proof(self._key, job, attempt, resources),
        }

    def close(self) -> None:
        """The engine leaves; jobs keep the server as long as they need it."""
        with self._lock:
            if self._closing is not None:
                os.close(self._closing[1])
            if self._engine is not None:
                os.close(self._engine)
            self._closing = self._engine = None

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(f"\0{self._address}")
            listener.listen(64)
            self._closing = os.pipe2(os.O_CLOEXEC)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        args = (listener, self._closing[0])
        threading.Thread(target=self._serve, args=args, name="turn server", daemon=True).start()

    def _serve(self, listener: socket.socket, closing: int) -> None:
        """Start the server at the first call, and wait for its end; again and again."""
        pause_s = PAUSE_S
        with listener:
            while closing not in select.select([listener.fileno(), closing], [], [])[0]:
                begun = time.monotonic()
                with suppress(OSError):  # Without a server, jobs share freely.
                    self._start(listener).wait()
                # One that cannot live is not started all the time.
                lived = time.monotonic() - begun > LIVED_S
                pause_s = PAUSE_S if lived else min(PAUSE_S_MAX, 2 * pause_s)
                if not lived and select.select([closing], [], [], pause_s)[0]:
                    break
        os.close(closing)

    def _start(self, listener: socket.socket) -> "subprocess.Popen[bytes]":
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        try:
            os.write(ours, self._key)
            files = (listener.fileno(), theirs)
            program = str(Path(__file__).with_name("turn_server.py"))
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", program, *map(str, files), self._way],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=files,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        with self._lock:
            if self._engine is not None:
                os.close(self._engine)
            self._process, self._engine = process, ours
            if self._closing is None:  # The engine left meanwhile.
                os.close(ours)
                self._engine = None
        return process
