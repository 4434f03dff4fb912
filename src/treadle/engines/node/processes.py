"""Other processes, by /proc: when they started, whose they are, which carry a tag, and their end.

A pid alone names nobody, since it is given to somebody else later. A process is named by its pid
together with the moment it started; before anybody is signalled, a handle (pidfd) is opened first
and the moment compared afterwards, so that no stranger is ever hit.
"""

import os
import pwd
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
COMMAND_LENGTH_MAX = 200


class ProcessId(NamedTuple):
    """One process, never another one with the same number."""

    pid: int
    start: int  # in the kernel's ticks since boot


def boot_id() -> str:
    """What tells this run of the machine from the one before."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_of(pid: int) -> int | None:
    """When the process started, or None if there is none."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def parent_of(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def _stat(pid: int) -> list[bytes] | None:
    """The fields after the name, which may itself hold spaces and brackets."""
    try:
        return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None


def handle(process: ProcessId) -> int | None:
    """A pidfd of exactly this process; None if it is gone. Whoever asks closes it."""
    try:
        file = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if start_of(process.pid) != process.start:
        os.close(file)
        return None
    return file


def send(process: ProcessId, number: int) -> bool:
    """Signal exactly this process; False if it is gone or not ours to signal."""
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
    """All processes whose environment says so, zombies left out; a prefix if value ends in `*`."""
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
    """As it was when the program was executed; empty where we may not look, and for zombies."""
    try:
        return (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


def all_pids() -> Iterator[int]:
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def kill_tagged(name: str, value: str) -> list[ProcessId]:
    """Kill all that carry the tag, once; returns those that were found, to be looked for again."""
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
    """The name of whoever runs it, the number if that has no name, or empty if it is gone."""
    try:
        uid = (PROC / str(pid)).stat().st_uid
    except OSError:
        return ""
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def command_of(pid: int) -> str:
    """Its command line, cut; only the name of the program where that cannot be read."""
    with suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        if text := b" ".join(words).decode(errors="replace"):
            return text[:COMMAND_LENGTH_MAX]
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""
