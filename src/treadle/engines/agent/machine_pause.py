"""Pauses a machine that cannot launch anything, and opens it again when it can.

A launch that failed for want of descriptors, memory, processes or disk is not its job's fault. The
engine then probes the machine. If the probe fails too, nothing is launched until one succeeds: the
devices are closed with the cause "machine", so that every policy sees it. If the probe succeeds,
the trouble was that job's alone (its user's limit, its folder) or has passed.
"""

import asyncio
import errno
import json
import logging
import os
import select
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from treadle.core.ports import Clock
from treadle.engines.node import machine_probe
from treadle.engines.node.fork_client import ForkServer

logger = logging.getLogger("treadle")

FIRST_PAUSE_S = 0.25
PAUSE_MAX_S = 8.0
WELL_S = 30.0  # a machine that fails again within so long is probed as seldom as before
PROBE_WITHIN_S = 10.0
ANSWER_WITHIN_S = 5.0  # of the process that a trial launch forks
ANSWER_BYTES = 4096
# What Python raises where the machine lacks something: RuntimeError if it cannot start a thread.
TROUBLE = (OSError, MemoryError, RuntimeError)
NO_THREAD = "can't start new thread"  # in Python's own words


def is_lack(error: Exception) -> bool:
    """Whether the machine lacked something; any other RuntimeError is a bug of ours."""
    return isinstance(error, TROUBLE) and (
        not isinstance(error, RuntimeError) or NO_THREAD in str(error)
    )


class MachinePause:
    """Whether the machine can launch jobs, as far as is known."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        clock: Clock,
        changed: Callable[[str], None],
    ) -> None:
        """probe: raises what the machine lacks. changed: takes the reason; empty: it is over."""
        self._probe = probe
        self._clock = clock
        self._changed = changed
        self.reason = ""
        self._pause_s = FIRST_PAUSE_S
        self._well_since = -WELL_S
        self._task: asyncio.Task[None] | None = None
        self._known = asyncio.Event()  # the first probe has answered

    async def suspect(self) -> None:
        """Something failed for want of the machine; returns once a probe has judged it."""
        if self._task is None:
            self._known.clear()
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="machine")
            self._task.add_done_callback(self._over)
        await self._known.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        """Probe until it succeeds, with growing pauses."""
        if self._clock.now() - self._well_since > WELL_S:
            self._pause_s = FIRST_PAUSE_S
        while lacks := await self._lacks():
            if not self.reason:
                # The reason stays the same until it is over: every change is a journal line.
                self.reason = (
                    f"this machine cannot launch jobs: {lacks}; it is tried again by itself"
                )
                logger.error("%s", self.reason)
                self._changed(self.reason)
            self._known.set()
            await self._clock.sleep_until(self._clock.now() + self._pause_s)
            self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)
        self._well_since = self._clock.now()
        if self.reason:
            self.reason = ""
            logger.warning("this machine can launch jobs again")
            self._changed("")

    async def _lacks(self) -> str:
        """What the machine lacks; empty if a probe succeeds."""
        try:
            await asyncio.wait_for(self._probe(), PROBE_WITHIN_S)
        except TimeoutError:
            return f"a trial launch did not end within {PROBE_WITHIN_S:g} s"
        except TROUBLE as error:
            return machine_probe.sentence(error)
        return ""

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self._known.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the machine cannot be probed: %s", error, exc_info=error)


class TrialLaunch:
    """All that the launch of a job needs, and no job. Raises OSError for what the machine lacks."""

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
