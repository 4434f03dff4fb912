"""The supervisor: one small process for each attempt, which launches the ranks.

It outlives the engine. It imports the standard library and a few files of this folder, not the
rest of Treadle; the fork server (fork_server.py) forks it. Its order is a JSON document in a file
without a name (memfd), because it holds secrets: they are never an argument or on a disk.

Rules of this file
1. The process that holds the lock on `supervisor.json` is the supervisor, and alive. A second one
   exits.
2. `status.json` says how the attempt ended and is replaced in one piece. Nothing is launched in a
   folder whose attempt has ended.
3. No process of the attempt survives it. The supervisor is the subreaper of all descendants: a
   process that loses its parent, also a daemon, becomes its child. So it kills its children until
   there are none and the group of the attempt (scope.py) is empty. If the supervisor itself is
   killed, the ranks die with it, and the engine finds what is left by that group.
4. A rank is not reaped before the end. Its process group keeps its number until then, and a signal
   cannot reach another process with the same number.
5. It never waits for a rank without a look at its orders: a rank whose working directory is on a
   file system that hangs does not begin, and the stop signal and the time limit must still count.
"""

import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from treadle.engines.node import machine_probe
from treadle.engines.node.fence import Fence
from treadle.engines.node.first_members import FirstMembers
from treadle.engines.node.member_ranks import MemberRanks
from treadle.engines.node.pausing import Pausing
from treadle.engines.node.rank_launches import BEGIN_WITHIN_S, RankLaunches
from treadle.engines.node.ranks import KILLED, NOT_ALLOWED, Rank, ends_of
from treadle.engines.node.recorded_processes import ProcessRecord
from treadle.engines.node.scope import RecordedScope, scope_of
from treadle.engines.node.supervisor_files import (
    OwnFiles,
    children_of_this,
    is_listened_to,
    oom_kills,
    over_its_memory,
    tell,
)
from treadle.engines.node.team_member import TeamMember
from treadle.engines.node.warm_rank import WarmRank, handles

FAILED = 1


class Attempt:
    """One attempt from launch to end."""

    def __init__(
        self,
        order: Mapping[str, Any],
        report: int,
        files: OwnFiles,
        warm: socket.socket | None = None,
    ) -> None:
        self.order = order
        self.report = report
        self._files = files
        self.scope = scope_of(order["scope"])
        self.ranks: list[Rank] = []
        self._launches = RankLaunches(self, warm)
        self._first: FirstMembers | None = None
        self._members: MemberRanks | TeamMember | None = None  # once one has spoken
        self._leads: MemberRanks | None = None  # in place of a coordinator that was lost
        team = (order.get("part") or {}).get("team")
        if team is not None and team["leader"] != team["node"]:
            self._members = TeamMember(order, tell=self._tell, dismiss=self._dismiss)
        elif order.get("members"):
            self._first = FirstMembers(order)
        self.cause = ""
        self.error = ""
        self.first: int | None = None  # the rank that failed first
        self.started_at: float | None = None
        self._began: float | None = None  # monotonic: the same moment
        self._kill_at: float | None = None  # monotonic: the grace is over then
        self._limit_at: float | None = None
        grant = order.get("grant")
        self._fence = Fence(None if grant is None else Path(grant))
        self._stop_asked = False
        self._target_asked = False
        self._signalled = True  # a signal came: look at the children
        self._peak_bytes: int | None = None
        self._memory_kills = 0  # processes of its group
        # Only where the kernel keeps no group.
        self._record: ProcessRecord | None = None
        if isinstance(self.scope, RecordedScope):
            self._record = ProcessRecord(order["scope"]["record"])
        self._pausing = Pausing(order["folder"], self.scope, self._record_now, self._tell)
        self._oom_kills = oom_kills()
        self._wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.poll = select.poll()
        self.poll.register(self._wake, select.POLLIN)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_signal)

    # -- beginning ------------------------------------------------------------------------------

    def run(self) -> None:
        launched = False
        self._set_limit()
        try:
            machine_probe.check_memory()
            team = self._members if isinstance(self._members, TeamMember) else None
            launched = self._launches.all(self._first, team)
        except (OSError, MemoryError) as error:
            self.cause = "machine-error"
            self.error = f"the ranks could not be launched: {machine_probe.sentence(error)}"
        if launched:
            self._set_limit()  # It counts from here.
            self.started_at, self._began = time.time(), time.monotonic()
            with suppress(OSError):
                self._files.add_line(self._running())
            tell(self.report, f'{{"running": {self.started_at}}}')
        if not self.error:
            self._watch()
        self._end()

    def _running(self) -> str:
        said = f'"running": {len(self.ranks)}, "nonce": {json.dumps(self.order["nonce"])}'
        return f'{{{said}, "started_at": {self.started_at}, "began": {self._began}}}'

    def _set_limit(self) -> None:
        if self.order["time_limit_s"] is not None:
            self._limit_at = time.monotonic() + self.order["time_limit_s"]

    @property
    def _processes(self) -> Sequence[Rank]:
        """The ranks, and those that serve the store by which members meet."""
        return self.ranks if self._first is None else [*self.ranks, *self._first.meeting.servers]

    def why_stop(self) -> str:
        """Why ranks that have not begun must not; empty if they may."""
        if self._fence.is_closed():
            return "fenced"
        if self._stop_asked:
            return "stopped"
        return "time-limit" if self._is_late(time.monotonic()) else ""

    def _is_late(self, now: float) -> bool:
        """Whether it has run as long as it may; time in which it was paused does not count."""
        return self._limit_at is not None and now >= self._limit_at + self._pausing.away_s(now)

    # -- while it runs --------------------------------------------------------------------------

    def _watch(self) -> None:
        """Until all ranks have ended."""
        while True:
            if self._signalled:
                self._signalled = False
                self._look_at_ranks()
            now = time.monotonic()
            self._look_at_members(now)
            if self._is_over():
                return
            if self._stop_asked and self._kill_at is None:
                self._stop("stopped", now)
            if self._is_late(now) and self._kill_at is None:
                self._stop("time-limit", now)
            if self._fence.is_closed():  # Its job may run elsewhere from now on: no grace.
                self.cause, self._kill_at = self.cause or "fenced", now
            if self._kill_at is not None and (now >= self._kill_at or self._pausing.is_lost):
                self._signal(signal.SIGKILL)
                self._kill_at = now + 1.0
            self.look_at_descendants(now)
            self._pausing.keep_still(now)
            self.wait(self.until_due(now))

    def _is_over(self) -> bool:
        """Whether no rank runs, nor is to."""
        if any(rank.code is None for rank in self.ranks):
            return False
        if self._members is None:
            return self._first is None or self._kill_at is not None or self._first.over()
        if self._leads is not None and self._leads.over():
            return True
        late = self._kill_at is not None and time.monotonic() >= self._kill_at
        return late or self._members.over()

    def _look_at_members(self, now: float) -> None:
        """What the engine ordered, and what the ranks said to each other's coordinator."""
        asked, self._target_asked = self._target_asked, False
        if asked:
            self._pausing.take_wanted(now)
        if self._members is None:
            if self._first is None or not self._first.spoken:
                return
            self._members = MemberRanks(
                self._first, self.ranks, tell=self._tell, dismiss=self._dismiss
            )
        if asked:
            self._take_target(now)
        self._members.look(now)
        if self._leads is not None:
            self._leads.look(now)
        coordinates = self._leads or self._members
        if coordinates.failed is not None and self.first is None:
            self.first = coordinates.failed
            self._stop("", now)
        released = isinstance(self._members, TeamMember) and self._members.released
        if released and self._kill_at is None and any(rank.code is None for rank in self.ranks):
            self._stop("", now)
        if self._kill_at is None:
            self._launches.members(self._first, self._members, coordinates)

    def _take_target(self, now: float) -> None:
        assert self._members is not None
        target = self._members.take_target(now)
        if self._leads is not None:
            self._leads.take_target(now)
        elif target is not None and isinstance(self._members, TeamMember):
            self._begin_to_lead(self._members, target, now)

    def _begin_to_lead(self, members: TeamMember, target: Mapping[str, Any], now: float) -> None:
        """The coordinator is lost: this supervisor is the next one. Its own part calls it too."""
        order = {**self.order, **target}
        self._first = FirstMembers(order, members.memory, members.reached)
        self._first.began = now
        self._leads = MemberRanks(self._first, (), tell=self._tell, dismiss=self._dismiss)
        assert self._first.leader is not None
        members.follow(self._first.leader.team)

    def _dismiss(self, rank: Rank, at_once: bool) -> None:
        rank.signal(signal.SIGKILL if at_once else signal.SIGTERM)

    def until_due(self, now: float) -> float | None:
        """Seconds until the next thing to do; None if only an event can bring one."""
        due = [self._kill_at, self._pausing.due]
        if self._kill_at is None and self._limit_at is not None and not self._pausing.paused:
            due.append(self._limit_at + self._pausing.away_s(now))
        due += [] if self._record is None else [self._record.due]
        due += [each.due(now) for each in (self._members, self._leads) if each is not None]
        left_s = self._fence.left_s()
        due += [] if left_s is None else [now + left_s]
        moments = [moment for moment in due if moment is not None]
        return max(0.0, min(moments) - now) if moments else None

    def look_at_descendants(self, now: float) -> None:
        """Write down what runs, where the kernel keeps no group of it."""
        if self._record is not None and now >= self._record.due:
            self._record_now()

    def _record_now(self) -> None:
        if self._record is not None:
            self._record.look([rank.keeper.pid for rank in self._warm_ranks()])

    def _look_at_ranks(self) -> None:
        for rank in self._processes:
            if rank.ended_now() and rank in self.ranks and self._failed_by(rank):
                self.first = rank.number if self.first is None else self.first
            if rank.channel is None and isinstance(rank, WarmRank):
                with suppress(KeyError):
                    self.poll.unregister(rank.keeper.socket)
        # The other ranks would wait for it for ever.
        if self.first is not None and self._kill_at is None:
            self._stop("", time.monotonic())
        for pid in children_of_this() or ():
            if all(pid != rank.pid for rank in self._processes):
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _failed_by(self, rank: Rank) -> bool:
        """Whether the attempt has failed by the end of this rank."""
        if self._members is None:
            return bool(rank.code)
        failed = self._members.ended(rank, time.monotonic())
        # The last of them: if the training did not come to its end, its code is the attempt's.
        last = all(each.code is not None for each in self.ranks) and not self._members.starting
        last = last and self._members.over()
        return failed or (last and bool(rank.code) and not self._members.finished)

    def _stop(self, cause: str, now: float) -> None:
        self.cause = self.cause or cause
        self._kill_at = now + self.order["grace_s"]
        for each in (self._members, self._leads):
            if each is not None:
                each.stop(now)
        self._signal(self.order["stop_signal"])
        self._pausing.leave(now)
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for rank in self.ranks:
            rank.signal(number)

    def wait(self, seconds: float | None) -> None:
        """Read output until something happens or the time has passed."""
        talk = self._members or self._first
        lines = () if talk is None else tuple(talk.descriptors())
        lines += () if self._leads is None else tuple(self._leads.descriptors())
        helper = self._pausing.helper
        lines += () if helper is None else (helper,)
        lines += handles(self.ranks) if self._pausing.paused else ()
        for line in lines:
            self.poll.register(line, select.POLLIN)
        found = self.poll.poll(None if seconds is None else ceil(seconds * 1000))
        for line in lines:
            self.poll.unregister(line)
        if isinstance(talk, FirstMembers):
            talk.hear(ready for ready, _ in found)
        for ready, _ in found:
            if ready == self._wake:
                os.read(self._wake, 4096)
                self._signalled = True
            if ready == helper:
                self._pausing.hear(time.monotonic())
            self._hear_ranks(ready)

    def _hear_ranks(self, ready: int) -> None:
        for rank in self._processes:
            if rank.handle == ready:
                rank.look()
            if ready in (rank.channel, rank.handle):
                self._signalled = True
            if rank.output == ready:
                rank.drain()
                if rank.output is None:
                    self.poll.unregister(ready)

    def _on_signal(self, number: int, _: object) -> None:
        self._stop_asked = self._stop_asked or number == signal.SIGTERM
        self._target_asked = self._target_asked or number == signal.SIGUSR1

    # -- the end --------------------------------------------------------------------------------

    def _end(self) -> None:
        """Leave no process behind, and a last status."""
        wait_s = 0.002
        self._dismiss_keepers()
        for pid in children_of_this() or ():
            self._reap(pid)  # Mostly that is all: then there is nothing to kill.
        while (children := children_of_this()) is None or children or self.scope.pids():
            if children is None:
                self.wait(1.0)
                continue
            self.scope.kill()
            for pid in children:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self.wait(0.0)
            for pid in children:
                self._reap(pid)
            if children == children_of_this():  # the kernel takes a while to end a process
                self.wait(wait_s)
                wait_s = min(1.0, wait_s * 2)
        self._close_ranks()
        self._peak_bytes, self._memory_kills = self.scope.peak_bytes(), self.scope.oom_kills()
        if self.first is not None and not self.cause and self._ran_out_of_memory():
            self.cause = "oom-killed"
        if self.cause == "stopped" and self._succeeded:
            self.cause = ""  # The stop came after the last step: nothing is left to be done.
        self.scope.remove()
        self._leave_status()

    def _close_ranks(self) -> None:
        for rank in self._processes:
            rank.finish()
        if self._members is not None:
            self._members.close()
        if self._leads is not None:
            self._leads.close()
        if self._first is not None:
            self._first.close(succeeded=self._succeeded)

    @property
    def _succeeded(self) -> bool:
        coordinates = self._leads or self._members
        return coordinates is not None and coordinates.succeeded

    def _warm_ranks(self) -> list[WarmRank]:
        return [rank for rank in self._processes if isinstance(rank, WarmRank)]

    def _dismiss_keepers(self) -> None:
        """They clear what they started, which counts where the kernel keeps no group."""
        for rank in self._warm_ranks():
            rank.ended_now()
            rank.dismiss()
        give_up_at = time.monotonic() + (BEGIN_WITHIN_S if self._record is not None else 0.0)
        while any(rank.keeper.alive for rank in self._warm_ranks()):
            if time.monotonic() >= give_up_at:
                return
            self.wait(0.005)

    def _ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a rank for memory; `error` says if the job's limit was why.

        The group counts such kills. Without one, it is good evidence if a rank was killed, not by
        us, while the kernel killed a process for memory somewhere on this machine.
        """
        if self._memory_kills:
            limit = self.order["memory_bytes"]
            if limit is not None and self.scope.ran_into_limit(limit):
                self.error = over_its_memory(limit, self._peak_bytes)
            return True
        killed = self.first is not None and self._code_of(self.first) == KILLED
        return killed and oom_kills() > self._oom_kills

    def _reap(self, pid: int) -> None:
        rank = next((rank for rank in self._processes if rank.pid == pid), None)
        if rank is not None and rank.code is None and not rank.ended_now():
            return
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    def _leave_status(self) -> None:
        """Write how it ended; retry while the disk refuses, since only this process knows."""
        status = json.dumps(self._status())
        wait_s = 0.05
        while True:
            try:
                # An engine that listens writes the end to its store at once. Without one, this
                # file must survive a loss of power by itself; the fsync takes 7 ms.
                return self._files.write_status(status, sync=not is_listened_to(self.report))
            except OSError:
                self.wait(wait_s)
                wait_s = min(1.0, wait_s * 2)

    def _status(self) -> dict[str, Any]:
        code = NOT_ALLOWED if self.error else 0
        if self.first is not None and (failed := self._code_of(self.first)) is not None:
            code = failed or FAILED  # One that left the others ended with 0.
        return {
            "state": "ended",
            **{name: self.order[name] for name in ("job", "attempt", "nonce", "action")},
            **ends_of(self.ranks),
            "code": code,
            "first": self.first,
            "cause": self.cause,
            "error": self.error,
            "started_at": self.started_at,
            "ended_at": time.time(),
            "ran_s": self._ran_s(),
            "peak_bytes": self._peak_bytes,
            "memory_kills": self._memory_kills,
            "began": self._began,
            "cold": self._launches.starts.cold,
        }

    def _code_of(self, first: int) -> int | None:
        """The exit code of the rank that failed first, which may be on another node."""
        coordinates = self._leads or self._members
        if first < 0 and coordinates is not None:
            return coordinates.failed_code
        return self.ranks[first].code

    def _ran_s(self) -> float | None:
        now = time.monotonic()
        return None if self._began is None else now - self._began - self._pausing.away_s(now)

    # -- the engine -----------------------------------------------------------------------------

    def _tell(self, message: Mapping[str, Any]) -> None:
        tell(self.report, json.dumps(message))
