"""Processes as /proc shows them: start time, user, environment tag; and how to signal them.

The kernel reuses pids, so a process is identified by its pid and its start time. To signal one, we
open a handle (pidfd) first and compare the start time afterwards, so that a signal never reaches
another process.
"""

import os
import pwd
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from treadle.engines.node.plain_files import read

PROC = Path("/proc")
COMMAND_LENGTH_MAX = 200


class ProcessId(NamedTuple):
    """One process, never a later one with the same pid."""

    pid: int
    start: int  # in the kernel's ticks since boot


def boot_id() -> str:
    """The id of this boot of the machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def hardware_id() -> str:
    """The number of this machine, which root may read; empty if it has none."""
    try:
        return Path("/sys/class/dmi/id/product_uuid").read_text().strip()
    except OSError:
        return ""


def start_of(pid: int) -> int | None:
    """When the process started, or None if there is none."""
    fields = stat_of(pid)
    return None if fields is None else int(fields[19])


def parent_of(pid: int) -> int | None:
    fields = stat_of(pid)
    return None if fields is None else int(fields[1])


def stat_of(pid: int) -> list[bytes] | None:
    """The fields after the name, which may itself hold spaces and brackets; None if it is gone.

    A process that cannot be looked at, for want of descriptors perhaps, is not gone: OSError.
    """
    try:
        return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def handle(process: ProcessId) -> int | None:
    """A pidfd of exactly this process; None if it is gone. The caller closes it."""
    try:
        file = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    try:
        is_it = start_of(process.pid) == process.start
    except OSError:
        os.close(file)
        raise
    if not is_it:
        os.close(file)
        return None
    return file


def send(process: ProcessId, number: int) -> bool:
    """Signal exactly this process; False if it is gone or we may not signal it."""
    file = handle(process)
    if file is None:
        return False
    try:
        signal.pidfd_send_signal(file, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(file)
    return True


def tagged(name: str, value: str) -> list[ProcessId]:
    """All processes with this environment variable, without zombies; `*` ends a prefix."""
    wanted = b"\0" + f"{name}={value}".encode()
    wanted = wanted[:-1] if value.endswith("*") else wanted + b"\0"
    found = []
    for pid in all_pids():
        start = start_of(pid)
        environment = b"\0" + environment_of(pid)
        if start is not None and wanted in environment + b"\0":
            found.append(ProcessId(pid, start))
    return found


def environment_of(pid: int) -> bytes:
    """Its environment at exec; empty for zombies and where we may not read it."""
    try:
        return (PROC / str(pid) / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def all_pids() -> Iterator[int]:
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def kill_tagged(name: str, value: str) -> list[ProcessId]:
    """Kill all processes with the tag, once; returns those found, for the caller to check again."""
    found = tagged(name, value)
    for process in found:
        send(process, signal.SIGKILL)
    return found


def descends_from(pid: int, ancestors: Iterable[int]) -> bool:
    """Whether the process or one of its parents is among them."""
    wanted = frozenset(ancestors)
    seen: set[int] = set()
    current: int | None = pid
    while current and current not in seen:
        if current in wanted:
            return True
        seen.add(current)
        current = parent_of(current)
    return False


def user_of(pid: int) -> str:
    """The name of its user, the uid if there is no name, or empty if the process is gone."""
    try:
        uid = (PROC / str(pid)).stat().st_uid
    except OSError:
        return ""
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def command_of(pid: int) -> str:
    """Its command line, shortened; only the program's name where it cannot be read."""
    with suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        if text := b" ".join(words).decode(errors="replace"):
            return text[:COMMAND_LENGTH_MAX]
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""
