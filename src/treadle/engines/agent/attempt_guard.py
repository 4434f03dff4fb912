"""Deadlines of one attempt: nothing that hangs may keep a job, a time limit or a device for ever.

A supervisor does all of this itself while it is well. The guard acts where it is not:

    no supervisor appears       the fork server hangs or died: wake it, replace it, launch again
    the ranks do not begin      say what they wait for; a stop and the time limit count meanwhile
    the time limit passed       wake the supervisor; it was stopped (SIGSTOP), perhaps
    a stop takes too long       kill the group; then the supervisor, once the group is empty
    a process does not die      say why; the attempt goes on holding its devices

An attempt is over when its group is empty, so that the next one never runs beside it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, NamedTuple

from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.machine_pause import TROUBLE
from treadle.engines.node import machine_probe, processes
from treadle.engines.node.environment import TAG
from treadle.engines.node.fork_client import ForkServer
from treadle.engines.node.scope import RecordedScope
from treadle.engines.node.stuck_processes import uninterruptible, why_stuck

LAUNCHES_MAX = 3
STOPPED = (b"T", b"t")


class Deadlines(NamedTuple):
    """How long to wait before the guard acts, in seconds. A loaded machine is slow."""

    first_s: float = 2.0  # an attempt without trouble that lasts as long gets a guard
    meet_s: float = 10.0  # for a supervisor to answer; a fork takes a millisecond
    wake_s: float = 5.0  # the same after SIGCONT to the fork server
    slack_s: float = 5.0  # after the grace or the time limit
    look_s: float = 5.0  # between looks at ranks that do not begin or do not die
    kill_again_s: float = 0.5
    leave_s: float = 30.0  # for a supervisor without processes to write its last status


USUAL = Deadlines()


class AttemptGuard:
    """Watches over one attempt until its supervisor is gone."""

    def __init__(
        self,
        live: LiveAttempt,
        fork_server: ForkServer | None = None,
        deadlines: Deadlines = USUAL,
    ) -> None:
        """fork_server: None if the attempt was launched by an earlier engine."""
        self._live = live
        self._fork_server = fork_server
        self._within = deadlines

    async def run(self) -> None:
        live = self._live
        if self._fork_server is not None and not await self._meet(self._fork_server):
            return live.set_gone()
        live.document = {}  # It holds secrets.
        limit_at = self._limit_at()
        await self._begin(limit_at)
        if live.ready.done():
            limit_at = self._limit_at()  # The limit counts from here.
        while not await _within(live.stopping.wait(), self._left_s(limit_at)):
            if limit_at is not None and _now() >= limit_at + live.paused_s():
                live.over_limit = True
                live.wake()
                break
        if not await _within(_done(live.gone), live.grace_s + self._within.slack_s):
            await self._force()
        return None

    def _limit_at(self) -> float | None:
        limit_s = self._live.time_limit_s
        return None if limit_s is None else self._live.since + limit_s + self._within.slack_s

    def _left_s(self, limit_at: float | None) -> float | None:
        """Until the next look at its time limit; what is left of it stays while it is paused."""
        if limit_at is None:
            return None
        left_s = max(0.0, limit_at + self._live.paused_s() - _now())
        said = self._live.pause.said
        return max(left_s, self._within.look_s) if said and said["how"] else left_s

    # -- the launch -----------------------------------------------------------------------------

    async def _meet(self, fork_server: ForkServer) -> bool:
        """Until a supervisor has answered; launch again if none does."""
        live = self._live
        for number in range(1, LAUNCHES_MAX + 1):
            met = live.met
            await _within(_first(_done(met), live.stopping.wait()), self._within.meet_s)
            if not met.done():
                fork_server.wake()
                await _within(_done(met), self._within.wake_s)
            if met.done() and met.result():
                return True
            # Its order is lost. If a supervisor has it and is only slow, the lock of the folder
            # decides between the two.
            live.stop_listening()
            if not met.done():
                await asyncio.to_thread(fork_server.give_up, live.server)
            if live.stop_wanted or number == LAUNCHES_MAX:
                break
            try:
                live.listen(await asyncio.to_thread(fork_server.launch, live.document))
            except TROUBLE as error:
                live.failure = f"no process could be forked: {machine_probe.sentence(error)}"
                live.lacked = True
                return False
        if not live.stop_wanted:
            live.failure = "the process that launches jobs does not answer"
            live.lacked = True
        return False

    async def _begin(self, limit_at: float | None) -> None:
        """Until the ranks run, a stop, or the time limit; say what the ranks wait for."""
        live = self._live
        while not live.ready.done() and not live.stopping.is_set():
            await _within(_first(live.stopping.wait(), _done(live.ready)), self._within.look_s)
            if limit_at is not None and _now() >= limit_at:
                break
            if not live.ready.done():
                live.stuck = await asyncio.to_thread(self._not_begun)
        if live.ready.done():
            live.stuck = ""

    def _not_begun(self) -> str:
        live = self._live
        pids = live.scope.pids()
        return "" if not pids else _sentence(live, uninterruptible(pids) or pids, "has not begun")

    # -- the end --------------------------------------------------------------------------------

    async def _force(self) -> None:
        """The grace is over: kill the group, then the supervisor."""
        live, empty_at, pause_s = self._live, None, self._within.kill_again_s
        live.forced = True
        while not live.gone.done():
            left = await asyncio.to_thread(kill_group, live)
            now = _now()
            empty_at = None if left else empty_at or now
            live.does_not_die(await asyncio.to_thread(self._not_dead))
            live.wake()
            if empty_at is not None and self._hangs(now - empty_at):
                assert live.process is not None
                processes.send(live.process, signal.SIGKILL)
            await _within(_done(live.gone), pause_s)
            pause_s = min(self._within.look_s, pause_s * 2) if left else self._within.kill_again_s

    def _hangs(self, empty_s: float) -> bool:
        """Whether the supervisor has nothing left to wait for and does not leave."""
        process = self._live.process
        if process is None:
            return False
        fields = processes.stat_of(process.pid)
        stopped = fields is not None and fields[0] in STOPPED
        return (stopped and empty_s >= self._within.kill_again_s) or empty_s >= self._within.leave_s

    def _not_dead(self) -> str:
        live = self._live
        supervisor = () if live.process is None else (live.process.pid,)
        return stuck_sentence(live, [*live.scope.pids(), *supervisor])


async def clear_group(live: LiveAttempt, deadlines: Deadlines = USUAL) -> None:
    """Kill what a killed supervisor left, and return once nothing of the attempt is alive."""
    pause_s, began = 0.002, _now()
    while left := await asyncio.to_thread(kill_group, live):
        if _now() >= began + deadlines.slack_s:
            live.does_not_die(await asyncio.to_thread(stuck_sentence, live, left))
        await asyncio.sleep(pause_s)
        pause_s = min(deadlines.kill_again_s, pause_s * 2)
    live.stuck = ""
    await asyncio.to_thread(live.scope.remove)


def kill_group(live: LiveAttempt) -> list[int]:
    """Kill all processes of the attempt, once; the pids that were found."""
    live.scope.kill()
    found = set(live.scope.pids())
    # Also those that left the group or were never recorded. Under root a group cannot be left, and
    # the tag in the environment could be another user's doing.
    if os.geteuid() != 0 or live.scope.kind == RecordedScope.kind:
        found |= {process.pid for process in processes.kill_tagged(TAG, live.tag)}
    return sorted(found)


def stuck_sentence(live: LiveAttempt, pids: list[int]) -> str:
    """Why a process of the attempt does not die; empty if none waits for the kernel."""
    stuck = uninterruptible(pids)
    return _sentence(live, stuck, "does not die") if stuck else ""


def _sentence(live: LiveAttempt, pids: list[int], what: str) -> str:
    more = f" (and {len(pids) - 1} more)" if len(pids) > 1 else ""
    return f"pid {pids[0]} of job {live.job} {what}: {why_stuck(pids[0], live.workdir)}{more}"


# -- waiting --------------------------------------------------------------------------------------


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _done(future: "asyncio.Future[Any]") -> None:
    """Wait for it without cancelling it."""
    await asyncio.wait({future})


async def _first(*awaitables: Awaitable[Any]) -> None:
    """Wait for the first of them."""
    tasks = {asyncio.ensure_future(each) for each in awaitables}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _within(awaitable: Awaitable[Any], seconds: float | None) -> bool:
    """Whether it came true within so many seconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(awaitable, seconds)
        return True
    return False
