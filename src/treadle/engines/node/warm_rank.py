"""A rank that a warm interpreter forks, as its supervisor sees it.

The supervisor may be root, and everything that it hears here comes from processes of the job's
user. So it takes no process id from a message: the kernel says which process sent it and whose
process that is. It moves one process into the attempt's group, the keeper (warm_template.py), and
only before anything of the job runs there. Signals go to the keeper as words on the socket.
The worst that a user can do to these processes is to end their own attempt.

Part of the supervisor: it imports the standard library alone.
"""

import json
import os
import select
import socket
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from treadle.engines.node.output_capture import Log, Mask
from treadle.engines.node.processes import stat_of
from treadle.engines.node.ranks import KILLED, Rank
from treadle.engines.node.scope import Scope

ANSWER_WITHIN_S = 1.0  # a warm interpreter that takes longer is busy: the rank is launched cold
MESSAGE_BYTES = 512
MESSAGES_MAX = 16  # read in one go
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
SCM_CREDENTIALS = 2
_STATUS = 49  # its place among the fields of /proc/PID/stat after the name


class Refused(Exception):  # noqa: N818  # It is an answer, not an error.
    """The rank must be launched cold."""


class WarmRank(Rank):
    """A rank below a keeper."""

    warm = True

    def __init__(self, number: int, keeper: "Keeper", output: int, log: Log, mask: Mask) -> None:
        super().__init__(number, keeper.pid, output, log, mask)
        self.keeper = keeper
        self.channel = keeper.socket.fileno()
        self._told = False

    def ended_now(self) -> bool:
        """Whether it has ended since the last call."""
        for _ in range(MESSAGES_MAX):
            if self._told or not self._listen():
                break
        if self._told or self.code is None:
            return False
        self._told = True
        return True

    def _listen(self) -> bool:
        """Read one message; False if there is none now."""
        try:
            message, sender = self.keeper.receive()
        except BlockingIOError:
            return False
        word, _, rest = message.partition(b" ")
        if not message:  # The keeper is gone, and the rank with it.
            self.code = KILLED if self.code is None else self.code
            self.channel = None
        elif word == b"rank" and sender is not None:
            self.pid = sender
            with suppress(OSError):
                self.handle = os.pidfd_open(sender) if self.handle < 0 else self.handle
        elif word == b"ended" and rest.isdigit() and self.code is None:
            self.code = min(255, int(rest))
        return True

    def look(self) -> None:
        """It has ended while it was paused: its keeper stands still too, and tells nothing."""
        if self.code is None:
            self.code = _code_of(self.pid)

    def signal(self, number: int) -> None:
        with suppress(OSError):
            self.keeper.socket.send(f"signal {int(number)}".encode())

    def dismiss(self) -> None:
        """Let the keeper end, with all that it started."""
        with suppress(OSError):
            self.keeper.socket.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        super().finish()
        self.keeper.close()
        self.channel = None
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


class Keeper:
    """The process of the job's user that is the parent of a warm rank."""

    def __init__(self, ours: socket.socket, uid: int) -> None:
        self.socket = ours
        self.uid = uid
        self.pid = 0
        self.handle = -1  # pidfd

    @property
    def alive(self) -> bool:
        return self.handle >= 0 and not select.select([self.handle], [], [], 0)[0]

    def receive(self) -> tuple[bytes, int | None]:
        """One message, and the process that sent it if it is the user's."""
        try:
            message, about, _, _ = self.socket.recvmsg(
                MESSAGE_BYTES, socket.CMSG_SPACE(CREDENTIALS.size)
            )
        except ConnectionError:
            return b"", None
        for level, kind, data in about:
            if level == socket.SOL_SOCKET and kind == SCM_CREDENTIALS:
                pid, uid, _ = CREDENTIALS.unpack(data[: CREDENTIALS.size])
                return message, pid if uid == self.uid and pid > 0 else None
        return message, None

    def meet(self, scope: Scope) -> None:
        """Wait until it is there, and move it into the attempt's group."""
        if not select.select([self.socket], [], [], ANSWER_WITHIN_S)[0]:
            raise Refused("the warm interpreter does not answer")
        message, sender = self.receive()
        if message != b"keeper" or sender is None:
            raise Refused(message.decode(errors="replace") or "the warm interpreter is gone")
        self.pid, self.handle = sender, os.pidfd_open(sender)
        if not self.alive or _users_of(sender) != {self.uid}:
            raise Refused("the warm interpreter's process is another user's")
        scope.take(sender)
        # As long as it is alive, its number is its own: what was moved is the keeper.
        if not self.alive:
            for pid in scope.pids():
                if self.uid not in _users_of(pid):
                    scope.give_back(pid)
            raise Refused("the warm interpreter's process died")
        self.socket.send(b"go")
        self.socket.setblocking(False)

    def close(self) -> None:
        self.socket.close()
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def ask_for_rank(
    control: socket.socket,
    order: Mapping[str, Any],
    extra: Mapping[str, Any],
    *,
    files: list[int],
    scope: Scope,
) -> Keeper:
    """Have a warm interpreter fork a rank. Raises Refused or OSError if it does not.

    files: the ends for its output and for what it says before it begins.
    """
    uid = order.get("uid")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keeper = Keeper(ours, os.geteuid() if uid is None else uid)
    try:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        document = _document(order, extra)
        try:
            about = json.dumps({"argv": order["command"], "cwd": order["workdir"]}).encode()
            flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            socket.send_fds(control, [about], [document, theirs.fileno(), *files], flags)
        finally:
            os.close(document)
            theirs.close()
        keeper.meet(scope)
    except BaseException:
        keeper.close()
        raise
    return keeper


def _document(order: Mapping[str, Any], extra: Mapping[str, Any]) -> int:
    """What only the rank reads: it holds secrets, which the warm interpreter must not see."""
    content = {
        "argv": order["command"],
        "cwd": order["workdir"],
        "env": {**order["env"], **extra["env"]},
        "cpus": extra.get("cpus") or [],
    }
    file = os.memfd_create("rank", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as writer:
        writer.write(json.dumps(content).encode())
    return file


def handles(ranks: Iterable[Rank]) -> tuple[int, ...]:
    """To be polled while they are paused."""
    return tuple(rank.handle for rank in ranks if rank.handle >= 0 and rank.code is None)


def _code_of(pid: int) -> int:
    """How a zombie ended. Where that may not be seen: what is frozen ends by SIGKILL alone."""
    with suppress(OSError, IndexError, ValueError):
        fields = stat_of(pid)
        status = 0 if fields is None else int(fields[_STATUS])
        if status or os.geteuid() in _users_of(pid):
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
    return KILLED


def _users_of(pid: int) -> set[int]:
    """The user ids of a process; none if it is gone."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"Uid:"):
                return {int(word) for word in line.split()[1:]}
    return set()
