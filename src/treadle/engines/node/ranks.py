"""One rank: a process in a group of its own, from fork to the last byte of its output.

Part of the supervisor: it imports the standard library alone.
"""

import ctypes
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from treadle.engines.node import machine_probe
from treadle.engines.node.output_capture import Log, Mask
from treadle.engines.node.scope import scope_of

PR_SET_PDEATHSIG, KILL = 1, int(signal.SIGKILL)
READ_BYTES = 1 << 16  # what a pipe holds
DRAINS_MAX = 64  # reads after the end: more than that
NOTHING_FOUND, NOT_ALLOWED = 127, 126  # as shells write it
KILLED = 128 + KILL  # likewise
BEGINS = b"\1"  # what a rank says before it executes its program

prctl = ctypes.CDLL(None).prctl


class Rank:
    """One process of the attempt, in a process group of its own."""

    warm = False  # forked from a warm interpreter

    def __init__(self, number: int, pid: int, output: int, log: Log, mask: Mask) -> None:
        self.number = number
        self.pid = pid
        self.output: int | None = output
        self.log = log
        self.mask = mask
        self.code: int | None = None  # as shells write it, once it ended
        self.channel: int | None = None  # on which its end is heard of; None: it is our child
        self.handle = -1  # pidfd of one that is not

    @property
    def name(self) -> str:
        return f"rank {self.number}"

    def ended_now(self) -> bool:
        """Whether it has ended since the last call; it stays a zombie until the attempt ends."""
        if self.code is not None:
            return False
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return False
        killed = found.si_code != os.CLD_EXITED
        self.code = found.si_status + 128 if killed else found.si_status
        return True

    def look(self) -> None:
        """Its handle says that it has ended."""

    def signal(self, number: int) -> None:
        with suppress(PermissionError):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # It moved to another process group.
                os.kill(self.pid, number)

    def drain(self) -> None:
        """Read what the pipe holds; close it at its end."""
        if self.output is None:
            return
        try:
            data = os.read(self.output, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.log.write(self.mask.hide(data))
        else:
            self.close()

    def close(self) -> None:
        if self.output is not None:
            os.close(self.output)
            self.output = None
            self.log.write(self.mask.rest())
            self.log.finish()

    def finish(self) -> None:
        """Nothing of it is alive."""
        self.ended_now()
        for _ in range(DRAINS_MAX):
            self.drain()
        self.close()


def ends_of(ranks: Sequence[Rank]) -> dict[str, Any]:
    """How they ended, for the status of their attempt."""
    return {
        "pids": [rank.pid for rank in ranks],
        "codes": [rank.code for rank in ranks],
        "lost": [rank.log.lost for rank in ranks],
        "dropped": [rank.log.dropped for rank in ranks],
        "warm": sum(rank.warm for rank in ranks),
    }


def pin(pid: int, cores: Sequence[int] | None) -> None:
    """Let a process run on these cores, with all its threads."""
    if not pid or not cores:
        return
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            os.sched_setaffinity(int(task), cores)


def become_rank(
    order: Mapping[str, Any],
    extra: Mapping[str, Any],
    output: int,
    said: int,
    channel: int | None = None,
) -> NoReturn:
    """In the new process: set everything up and execute the program; it does not return."""
    complaint, code, ours = "it could not be launched", NOT_ALLOWED, False
    try:
        os.setpgid(0, 0)
        set_up(output, extra.get("cpus"))
        # Before anything of the user's runs, so that nothing of it can be outside.
        complaint, ours = "the rank could not enter the group of its attempt", True
        scope_of(order["scope"]).take()
        ours = False
        complaint = f"this machine does not let us run as user {order.get('uid')}"
        become_user(order)
        # After the change of user, which resets it.
        prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0)
        if os.getppid() != order["supervisor"]:
            os._exit(1)
        complaint = f"the working directory {order['workdir']} cannot be entered"
        os.chdir(order["workdir"])
        if channel is not None:
            os.set_inheritable(channel, True)
        command = order["command"]
        complaint, code = f"the command {command[0]} cannot be executed", NOTHING_FOUND
        os.write(said, BEGINS)
        execute(command, {**order["env"], **extra["env"]})
    except OSError as error:
        code = NOT_ALLOWED if error.errno != errno.ENOENT else code
        if error.errno == errno.EAGAIN and order.get("uid"):
            complaint = f"user {order['uid']} is at their limit of processes, so {complaint}"
        _complain(said, error, f"{complaint}: {error.strerror}", ours=ours)
    except BaseException as error:  # nothing may unwind into the supervisor's own code
        _complain(said, error, f"{complaint}: {error}", ours=ours)
    os._exit(code)


def set_up(output: int, cpus: Sequence[int] | None) -> None:
    """Connect the standard descriptors, and pin the process to cores."""
    nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if cpus:
        with suppress(OSError):
            os.sched_setaffinity(0, cpus)


def _complain(said: int, error: BaseException, sentence: str, *, ours: bool) -> None:
    """Say the number of the error (0: it has none) and what failed.

    ours: not the command's fault, whatever the number: say one that is the machine's.
    """
    number = machine_probe.errno_of(error) or 0
    if ours and number not in machine_probe.MACHINE_ERRORS:
        number = errno.EIO
    with suppress(OSError):
        os.write(said, f"{number} {sentence}".encode())


def execute(command: list[str], env: Mapping[str, str]) -> NoReturn:
    """Execute a command, as a shell looks for it. (`os.execvpe` imports modules for that.)"""
    name = command[0]
    if "/" in name:
        os.execve(name, command, env)
    refused: OSError | None = None
    for folder in env.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.F_OK):
            try:
                os.execve(path, command, env)
            except OSError as error:
                refused = refused or error
    raise refused or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def become_user(order: Mapping[str, Any]) -> None:
    """Change to the order's user; fails closed: without a user, root launches nothing."""
    uid = order.get("uid")
    if uid is None and os.geteuid() == 0:
        raise PermissionError(errno.EPERM, "the order names no user, and a job must not be root")
    if uid is None or uid == os.geteuid():
        return
    os.setgroups(order["groups"])
    os.setgid(order["gid"])
    os.setuid(uid)
    os.umask(0o022)
