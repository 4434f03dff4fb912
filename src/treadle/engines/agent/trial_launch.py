"""A trial launch: everything that the launch of a job needs, and no job."""

import asyncio
import errno
import json
import os
import select
from pathlib import Path
from typing import Any

from treadle.engines.node import machine_probe
from treadle.engines.node.fork_client import ForkServer

ANSWER_WITHIN_S = 5.0
ANSWER_BYTES = 4096


class TrialLaunch:
    """Raises OSError for what the machine lacks."""

    def __init__(self, root: Path, fork_server: ForkServer) -> None:
        self._root = root
        self._fork_server = fork_server

    async def __call__(self) -> None:
        # In one piece: a thread goes on when the caller gives up, and closes what it opened.
        await asyncio.to_thread(self._launch)

    def _launch(self) -> None:
        machine_probe.check_descriptors()
        machine_probe.check_disk(self._root)
        sent = self._fork_server.launch({"probe": True})
        _hear(sent.report)


def _hear(report: int) -> None:
    """Wait for the answer of the process that was forked."""
    try:
        poll = select.poll()
        poll.register(report, select.POLLIN | select.POLLHUP)
        if not poll.poll(ANSWER_WITHIN_S * 1000):
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        said = os.read(report, ANSWER_BYTES).partition(b"\n")[0]
    finally:
        os.close(report)
    answer: dict[str, Any] = json.loads(said) if said else {}
    if not answer.get("probe"):
        number = answer.get("errno") or errno.ECHILD
        raise OSError(number, os.strerror(number))
