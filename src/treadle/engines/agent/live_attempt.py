"""A live attempt as the engine sees it: listen to its supervisor, stop it, notice its end."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from treadle.core.allocation import Allocation, Pause
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.plan import plan_of
from treadle.engines.node import processes
from treadle.engines.node.fork_client import Sent
from treadle.engines.node.pause_files import away_s
from treadle.engines.node.processes import ProcessId
from treadle.engines.node.scope import Scope

REPORT_BYTES = 4096
KILLED = 128 + signal.SIGKILL
AGAIN_S = 0.5  # after the process ran out of file descriptors


def slots_of(allocation: Allocation) -> tuple[tuple[int, int], ...]:
    """The devices by number, each with the turn."""
    return tuple((device.number, allocation.turn) for device in allocation.devices)


@dataclass(slots=True)
class PauseKnown:
    """What is known of an attempt's pauses."""

    said: Mapping[str, Any] | None = None  # by its supervisor last (pause_files.py)
    cannot_suspend: str = ""  # why not, as it was found out
    device_gib: float | None = None  # of devices' memory, when its pause was ordered
    away_from_s: float = 0.0  # how long it was paused before its launch or adoption here


class LiveAttempt:
    """One supervisor, from the request to launch it until its devices are clean again."""

    def __init__(
        self,
        job: JobId,
        number: int,
        *,
        action: int,
        allocation: Allocation | None,
        folder: Path,
        tag: str,
        scope: Scope,
        nonce: str = "",
    ) -> None:
        self.job = job
        self.number = number
        self.nonce = nonce
        self.action = action  # the order that it was launched for
        self.allocation = allocation  # None if its files do not say which devices it holds
        self.folder = folder
        self.tag = tag
        self.scope = scope  # the group of all its processes
        self.document: Mapping[str, Any] = {}  # the order for its supervisor, until one has it
        self.server = 0  # which fork server has it
        self.workdir = ""
        self.grace_s = 30.0
        self.time_limit_s: float | None = None  # what is left of it, from the launch or adoption
        self.launch: Launch | None = None  # None for attempts of an earlier engine
        self.runs = False  # its ranks run
        self.started_at: float | None = None  # since when, as its supervisor says
        self.process: ProcessId | None = None  # the supervisor
        self.stop_wanted = False
        # What it can change while it runs, as it announced, and what it said last of that
        # (engines/node/member_ranks.py).
        self.changes: tuple[str, ...] = ()
        self.members: Mapping[str, Any] = {}
        self.pause = PauseKnown()
        self.told = asyncio.Event()  # it said something of its members or of a pause
        self.on_members: Callable[[LiveAttempt], None] = lambda _: None
        self.more: frozenset[tuple[int, int]] = frozenset()  # held beside the allocation's
        # The newest order that it could not carry out while it runs, and why if it can go on.
        self.refused, self.refused_why = -1, ""
        self.over = False  # it has ended, though its devices may not be clean yet
        self.failure = ""  # why no supervisor could be forked
        self.lacked = False  # for want of something of the machine
        self.taken = False  # another supervisor has it already
        self.stray = False  # it belongs to no job: stop it
        self.marked = True  # among the live attempts on disk
        self.silent = False  # its end is not reported
        self.stuck = ""  # why it does not begin or does not end, in one sentence
        self.on_undying: Callable[[LiveAttempt], None] = lambda _: None
        self.forced = False  # the engine itself killed its processes
        self.over_limit = False  # its time limit passed and its supervisor did nothing
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()  # its launch or adoption; from `ready` on, that moment
        self._start_guard: Callable[[], asyncio.Task[None]] | None = None
        self._guard_timer: asyncio.TimerHandle | None = None
        self._guard: asyncio.Task[None] | None = None
        self.ready: asyncio.Future[bool] = self._loop.create_future()  # whether the ranks run
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.stopping = asyncio.Event()  # a stop was asked for
        # Whether a supervisor answered the launch; False if its order got lost.
        self.met: asyncio.Future[bool] = self._loop.create_future()
        self._report: int | None = None
        self._heard = b""
        self._handle: int | None = None
        self._stop_sent = False
        self._left = False  # it is not watched any more

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.job, self.number, self.nonce)

    @property
    def listens(self) -> bool:
        """Whether its supervisor's pipe is ours; an earlier engine's cannot be had again."""
        return self._report is not None

    @property
    def ranks(self) -> int:
        """How many were launched; 0 if that is not known."""
        return 0 if self.launch is None else self.launch.ranks

    @property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """What it holds: (number of the device, turn)."""
        if self.allocation is None:
            return ()
        own = () if self.allocation.paused else slots_of(self.allocation)
        return (*own, *sorted(self.more - set(own)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The devices on which it has anything, also while it is paused."""
        own = () if self.allocation is None else slots_of(self.allocation)
        return tuple(sorted({number for number, _ in (*own, *self.more)}))

    def paused_s(self) -> float:
        """For how long it was paused since its launch or adoption here."""
        return away_s(self.pause.said, self._loop.time()) - self.pause.away_from_s

    @property
    def ending(self) -> bool:
        """Whether it said that its training is over: it ends by itself."""
        return bool(self.members.get("over"))

    @property
    def killed(self) -> Sequence[tuple[int, int]]:
        """Its ranks that were killed and replaced so far, with their exit codes."""
        return [(int(rank), int(code)) for rank, code in self.members.get("killed", ())]

    # -- listening ------------------------------------------------------------------------------

    def listen(self, sent: Sent) -> None:
        """Read reports from a pipe. The pipe closes when the supervisor ends."""
        self.met = self._loop.create_future()
        self._report, self._heard, self.server = sent.report, b"", sent.server
        self._loop.add_reader(sent.report, self._on_report)

    def stop_listening(self) -> None:
        """Forget a launch that nothing answered."""
        if self._report is not None:
            self._loop.remove_reader(self._report)
            os.close(self._report)
            self._report = None

    def watch(self, process: ProcessId | None) -> None:
        """Watch a supervisor of an earlier engine; None if it is gone."""
        self.process = process
        self._watch_process()

    def _watch_process(self) -> None:
        """Without a descriptor to watch it with, it is not gone: try again."""
        if self._left or self.gone.done():
            return
        try:
            self._handle = None if self.process is None else processes.handle(self.process)
        except OSError:
            self._loop.call_later(AGAIN_S, self._watch_process)
            return
        if self._handle is None:
            self.set_gone()
        else:
            self._loop.add_reader(self._handle, self.set_gone)
            if self.stop_wanted:
                self.stop()

    def set_ready(self, *, running: bool, started_at: float | None = None) -> None:
        self.started_at = self.started_at or started_at
        if running and self.launch is not None and not self.ready.done():
            self.since = self._loop.time()
        self.runs = self.runs or running
        if not self.ready.done():
            self.ready.set_result(running)

    def _on_report(self) -> None:
        assert self._report is not None
        try:
            data = os.read(self._report, REPORT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if data:
            return
        if self.met.done():
            self.set_gone()
        else:  # The fork server died with the order; the guard launches again.
            self.stop_listening()
            self.met.set_result(False)
            self._guard_now()

    def _take(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"pid": pid, "start": start}:
                self._meet(ProcessId(pid, start))
                if self.stop_wanted:
                    self.stop()
            case {"running": at}:
                self.set_ready(running=True, started_at=at)
            case {"members": dict(members)}:
                self.hear_members(members)
            case {"paused": dict(paused)}:
                self.hear_pause(paused)
            case {"taken": _}:
                self.taken = True
            case {"failed": sentence}:
                self.failure = sentence
                self.lacked = message.get("errno") is not None
            case _:
                pass
        if not self.met.done():
            self.met.set_result(True)

    def hear_members(self, members: Mapping[str, Any]) -> None:
        """Take what its supervisor said of its members."""
        self.members, self.changes = members, tuple(members["can"])
        refused = members["refused"]
        if refused is not None and refused["action"] >= self.refused:
            self.refused, self.refused_why = refused["action"], refused["why"]
        self.told.set()
        self.on_members(self)

    def hear_pause(self, paused: Mapping[str, Any]) -> None:
        """Take what its supervisor said of pauses."""
        self.pause.said = paused
        self.told.set()
        self.on_members(self)

    def take_over_pause(self, paused: Mapping[str, Any] | None) -> None:
        """After an adoption: whether it is paused."""
        if paused is None:
            return
        self.pause.said, self.pause.away_from_s = paused, away_s(paused, self._loop.time())
        self.action = max(self.action, paused["action"])
        if self.allocation is not None:
            how = Pause(paused["how"]) if paused["how"] else None
            self.allocation = self.allocation.as_paused(how)

    def hold_members(self) -> None:
        """After an adoption: its members say which devices it has now."""
        if self.allocation is None or not self.members:
            return
        node, turn = self.allocation.devices[0].node, self.allocation.turn
        self.more = frozenset((number, turn) for number in self.members["holds"])
        if self.members["action"] >= self.action:
            devices = tuple(Device(node, number) for number in self.members["devices"])
            self.action = self.members["action"]
            plan = plan_of(self.members.get("plan", ""))
            self.allocation = replace(self.allocation, devices=devices, plan=plan)

    def ask_to_look(self) -> None:
        """Have the supervisor read its newest target."""
        if self.process is not None and not self.gone.done():
            processes.send(self.process, signal.SIGUSR1)
            self.wake()

    def _meet(self, process: ProcessId) -> None:
        self.process = process
        with suppress(OSError):  # Out of file descriptors now; `stop` tries without a handle.
            self._handle = processes.handle(process)

    def set_gone(self) -> None:
        """Its supervisor has ended, or there will be none."""
        self.close()
        self.runs = False
        self.set_ready(running=False)
        if not self.gone.done():
            self.gone.set_result(None)

    def as_told(self, ended: AttemptEnded, *, unsaid: bool) -> AttemptEnded:
        """The end as what it was, where the engine had to act in the supervisor's place.

        unsaid: the supervisor did not say how it ended.
        """
        forced = self.forced and ended.how is How.EXITED and ended.code == KILLED
        if self.over_limit and (unsaid or forced):
            return replace(ended, how=How.TIME_LIMIT)
        return replace(ended, how=How.STOPPED) if forced else ended

    def guard_by(self, start: Callable[[], asyncio.Task[None]], *, after_s: float) -> None:
        """Start the guard when there is trouble (a stop, a lost order), or after a while."""
        self._start_guard = start
        self._guard_timer = self._loop.call_later(after_s, self._guard_now)

    def _guard_now(self) -> None:
        if self._start_guard is not None:
            self._guard, self._start_guard = self._start_guard(), None

    def _end_guard(self) -> None:
        self._start_guard = None
        if self._guard_timer is not None:
            self._guard_timer.cancel()
        if self._guard is not None:
            self._guard.cancel()

    def does_not_die(self, sentence: str) -> None:
        """Note why a process that was killed does not die; empty if there is none."""
        if sentence != self.stuck:
            self.stuck = sentence
            if sentence:
                self.on_undying(self)

    # -- acting ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask the supervisor to stop its ranks: the stop signal, and SIGKILL after the grace."""
        self.stop_wanted = True
        self.stopping.set()
        self._guard_now()
        if self.process is None or self._stop_sent or self.gone.done():
            return
        try:
            if self._handle is None:
                processes.send(self.process, signal.SIGTERM)
            else:
                signal.pidfd_send_signal(self._handle, signal.SIGTERM)
            self._stop_sent = True
            self.wake()  # A supervisor that is itself stopped would not see the signal.
        except ProcessLookupError:
            self._stop_sent = True
        except OSError:
            self._loop.call_later(AGAIN_S, self.stop)

    def wake(self) -> None:
        """Continue the supervisor, if it was stopped."""
        if self.process is not None and not self.gone.done():
            with suppress(OSError):
                processes.send(self.process, signal.SIGCONT)

    def close(self) -> None:
        """Stop watching; what runs keeps running."""
        self._left = True
        self._end_guard()
        for file in (self._report, self._handle):
            if file is not None:
                self._loop.remove_reader(file)
                os.close(file)
        self._report = self._handle = None
