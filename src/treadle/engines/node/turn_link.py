"""The engine's side of the turn server: start it, and what a job needs to reach it."""

import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from treadle.engines.node.turn_server import proof

MACHINE = ("cpu", "storage", "network")  # resources that all jobs of a machine share


class TurnLink:
    """Starts the server when the first job may share, and again if it died.

    Its address is a name, not a file: the ranks of other users could not reach a file in the
    engine's folder.
    """

    def __init__(self, way: str = "") -> None:
        self._way = way  # "free", "turns" or "strict" instead of what was tried to be better
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._engine: int | None = None
        self._address = ""
        self._key = b""

    def environment(
        self, job: str, attempt: int, devices: Sequence[int], *, weight: float = 1.0
    ) -> dict[str, str]:
        """What the ranks of an attempt need to take turns; empty if no server can be started."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                try:
                    self._start()
                except OSError:
                    return {}  # They share freely.
        resources = [*MACHINE, *(f"device:{number}" for number in devices)]
        return {
            "TREADLE_TURNS": self._address,
            "TREADLE_TURNS_RESOURCES": " ".join(resources),
            "TREADLE_TURNS_WEIGHT": f"{weight:g}",
            "TREADLE_TURNS_PROOF": proof(self._key, job, attempt, resources),
        }

    def close(self) -> None:
        """The engine leaves; jobs keep the server as long as they need it."""
        with self._lock:
            if self._engine is not None:
                os.close(self._engine)
            self._engine = self._process = None

    def _start(self) -> None:
        self._key = secrets.token_bytes(32)
        name = f"treadle-turns-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"\0{name}")
            listener.listen(64)
            theirs, ours = os.pipe2(os.O_CLOEXEC)
            try:
                os.write(ours, self._key)
                files = (listener.fileno(), theirs)
                program = str(Path(__file__).with_name("turn_server.py"))
                self._process = subprocess.Popen(
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
        threading.Thread(target=self._process.wait, name="turn server", daemon=True).start()
        if self._engine is not None:
            os.close(self._engine)
        self._engine, self._address = ours, name
