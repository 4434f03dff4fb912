"""Drivers as processes: one is started after another, and what the last one wrote is known.

A driver passes through Ray's own code before it can say anything, and Ray ends a process that it
cannot use: with a line that says why, between others, and a stack. The line is found here.
"""

import os
import re
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from typing import IO

from treadle.engines.clusters.ray.address import NO_TOKEN, TOKEN_HELP

LINES_MAX = 400  # that are kept of a driver
STACK = "*** StackTrace Information ***"
END_WITHIN_S = 5.0


class DriverProcess:
    """The driver of one cluster."""

    def __init__(self, address: str, environment: dict[str, str]) -> None:
        self._address, self._environment = address, environment
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._reading: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> socket.socket:
        """The socket to a fresh driver, which ends when it is closed."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "treadle.engines.clusters.ray.driver", self._address]
        with theirs:
            self._process = process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**os.environ, **self._environment},
                start_new_session=True,
                cwd="/",
            )
        assert process.stderr is not None
        self._lines = deque(maxlen=LINES_MAX)
        self._reading = threading.Thread(
            target=_passed_on,
            args=(process, process.stderr, self._lines),
            name="ray driver",
            daemon=True,
        )
        self._reading.start()
        return ours

    def kill(self) -> None:
        """End the last driver, also one that is stopped, so that it gives nothing back.

        One that only lost its socket would do so once it goes on, perhaps in the place of the next.
        """
        if self._process is not None:
            self._process.kill()

    def refusal(self) -> str:
        """Why the last driver ended, if that is the user's to mend; empty if it is not known."""
        if self._reading is not None:
            self._reading.join(END_WITHIN_S)
        return reason_in(list(self._lines), self._address)


def reason_in(lines: Iterable[str], address: str) -> str:
    """The sentence for what Ray wrote before it ended a driver; empty if none is known."""
    text = "\n".join(lines)
    return next((said.format(address) for found, said in _REASONS if found.search(text)), "")


# In the order of precedence: without a token, Ray also says that the cluster does not answer.
_REASONS = (
    (
        re.compile(r"couldn't find an authentication token|No authentication token found"),
        NO_TOKEN,
    ),
    (
        re.compile(r"(?i)unauthenticated|invalid.{0,20} token"),
        f"the Ray cluster at {{}} refused the token; {TOKEN_HELP}",
    ),
    (
        re.compile(r"[Ff]ailed to connect to socket|[Cc]ould not connect to socket"),
        (
            "Ray does not run on this machine as a node of the cluster at {0}; Treadle runs on one "
            "of its nodes: ray start --address {0}"
        ),
    ),
    (
        re.compile(r"[Ff]ailed to connect to GCS"),
        "what answers at {} is no Ray cluster; give the address that ray start --head printed",
    ),
)


def _passed_on(process: "subprocess.Popen[str]", written: IO[str], lines: "deque[str]") -> None:
    """Write on what the driver writes; a stack only if nothing says why there is one."""
    stack: list[str] = []
    with written:
        for line in written:
            lines.append(line)
            if stack or STACK in line:
                stack.append(line)
                if line.strip():
                    continue
                _write([] if reason_in(lines, "") else stack)
                stack = []
            else:
                _write([line])
    _write([] if reason_in(lines, "") else stack)
    process.wait()


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stderr.write(line)
    sys.stderr.flush()
