"""Machine-error storms: a machine runs out of something for a while, with hundreds of jobs queued.

The daemon is a real one. While the storm lasts, nothing can be launched; afterwards every job must
have run exactly once and succeeded, and while it lasted the daemon must have said what was missing.

    python -m tests.control.storms all 60          # each kind for 60 s, 200 jobs each
    python -m tests.control.storms descriptors 8 --jobs 80
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.control.daemons import Daemon
from tests.control.kills import children
from treadle.client.client import Client
from treadle.wire.jobs import JobRequest, State

DEVICES = 4
JOBS = 200
BEGUN = 20  # jobs that have run before the storm begins
SETTLE_S = 120.0
NAMED = {"status", "why", "nodes"}  # where a storm's cause is to be read
DISK = "16m"
PIDS = Path("/sys/fs/cgroup/pids")

Storm = Callable[[Daemon], AbstractContextManager[None]]


@dataclass
class Seen:
    """What a storm was like, and what became of the jobs."""

    kind: str
    named: Counter[str] = field(default_factory=Counter)  # causes in status and why, by name
    before: int = 0  # jobs that had run when it began
    during: int = 0  # jobs that ran while it lasted
    ran: Counter[str] = field(default_factory=Counter)  # lines by job
    states: Counter[State] = field(default_factory=Counter)
    failures: int = 0
    events: int = 0  # lines of the journal that the storm itself cost
    restarted: bool = False

    def __str__(self) -> str:
        twice = sum(1 for count in self.ran.values() if count > 1)
        return (
            f"{self.kind}: {len(self.ran)} jobs ran, {twice} of them more than once; "
            f"{dict(self.states)}, {self.failures} failures charged; {self.before} had run before "
            f"the storm and {self.during} ran while it lasted; named {dict(self.named)}; "
            f"{self.events} lines of the journal for it"
        )


class NotHereError(Exception):
    """This machine, or this user, cannot make such a storm."""


# -- the storms -----------------------------------------------------------------------------------


@contextmanager
def descriptors(daemon: Daemon) -> Iterator[None]:
    """The daemon can open no file; the connection that is open stays so."""
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def disk(daemon: Daemon) -> Iterator[None]:
    """The file system of the state folder is full; the store is elsewhere."""
    ballast = daemon.state / "ballast"
    file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while os.write(file, bytes(size)):
                    pass
        yield
    finally:
        os.close(file)
        ballast.unlink()


@contextmanager
def memory(daemon: Daemon) -> Iterator[None]:
    """The fork server, and so each supervisor, has no room for a program."""
    server = fork_server(daemon)
    pages = int(Path(f"/proc/{server}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (16 << 20)
    infinite = resource.RLIM_INFINITY
    resource.prlimit(server, resource.RLIMIT_AS, (limit, infinite))
    try:
        yield
    finally:
        resource.prlimit(server, resource.RLIMIT_AS, (infinite, infinite))


@contextmanager
def processes(daemon: Daemon) -> Iterator[None]:
    """The daemon and all that it starts can start no process and no thread."""
    group = PIDS / f"treadle-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        raise NotHereError("only root may limit processes, in a cgroup of version 1") from None
    root = PIDS / "cgroup.procs"
    try:
        for pid in (daemon.pid, fork_server(daemon)):
            (group / "cgroup.procs").write_text(str(pid))
        (group / "pids.max").write_text("1")
        yield
    finally:
        (group / "pids.max").write_text("max")
        for left in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                root.write_text(left)
        remove(group)


def remove(group: Path) -> None:
    """A cgroup can be removed when its last process has been reaped."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        try:
            return group.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{group} is still in use"
            for pid in (group / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    (PIDS / "cgroup.procs").write_text(pid)
            time.sleep(0.05)


# The error that people must be shown, and how to make it.
KINDS: dict[str, tuple[str, Storm]] = {
    "descriptors": ("EMFILE", descriptors),
    "disk": ("ENOSPC", disk),
    "memory": ("ENOMEM", memory),
    "processes": ("EAGAIN", processes),
}


def fork_server(daemon: Daemon) -> int:
    """The pid of the daemon's fork server."""
    for child in children(daemon.pid):
        if b"fork_server.py" in Path(f"/proc/{child.pid}/cmdline").read_bytes():
            return child.pid
    raise AssertionError("the daemon has no fork server")


# -- one storm ------------------------------------------------------------------------------------


def storm(kind: str, seconds: float, *, jobs: int = JOBS) -> Seen:
    """Queue jobs, let some run, make the storm, and see what becomes of all of them."""
    word, make = KINDS[kind]
    folder = Path(tempfile.mkdtemp(prefix="treadle-"))
    store = f"sqlite:///{folder / 'treadle.db'}"
    daemon = Daemon(folder, "--devices", str(DEVICES), "--policy", "fifo", "--store", store)
    try:
        with small_disk(daemon.state) if kind == "disk" else nullcontext():
            try:
                daemon.start()
                return _run(daemon, Seen(kind), word, make, seconds=seconds, jobs=jobs)
            finally:
                daemon.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def small_disk(path: Path) -> Iterator[None]:
    path.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "treadle-storm", str(path)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        raise NotHereError("only root may mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def _run(daemon: Daemon, seen: Seen, word: str, make: Storm, *, seconds: float, jobs: int) -> Seen:
    client, pid = daemon.client, daemon.pid
    lines = daemon.socket.parent / "lines"
    lines.touch()
    gate = client.submit(_gate(lines.with_name("go"))).id
    names = [client.submit(_job(lines, number)).id for number in range(jobs)]
    lines.with_name("go").touch()
    _until(lambda: _count(lines) >= BEGUN, "no job ran")
    seen.before = _count(lines)
    first = client.events_last(limit=1).next
    with make(daemon):
        settled = time.monotonic() + seconds
        while time.monotonic() < settled or not set(seen.named) >= NAMED:
            _look(client, names[-1], word, seen)
            assert time.monotonic() < settled + SETTLE_S, f"it was named in {set(seen.named)} only"
            time.sleep(0.1)
        seen.during = _count(lines) - seen.before
        last = client.events_last(limit=1).next
    seen.events = _lines_between(client, first, last)
    _until(lambda: not client.job_page(limit=1).jobs, "jobs are left")
    seen.restarted = client.status().pid != pid
    for view in client.jobs(ended=True):
        if view.id == gate:
            continue
        seen.states[view.state] += 1
        seen.failures += view.failures
    seen.ran = Counter(lines.read_text().split())
    assert not client.status().problem
    return seen


def _gate(path: Path) -> JobRequest:
    """It holds all devices until the others are queued."""
    body = f"until test -e {path}; do sleep 0.05; done"
    return JobRequest(command=("/bin/bash", "-c", body), devices=str(DEVICES), workdir="/")


def _job(lines: Path, number: int) -> JobRequest:
    """It forks nothing: what the job itself cannot do in a storm is its own failure."""
    return JobRequest(command=("/bin/bash", "-c", f"echo {number} >> {lines}"), workdir="/")


def _lines_between(client: Client, first: int, last: int) -> int:
    """Lines of the journal, but for lessons: jobs that ended before teach those that wait."""
    found, after = 0, first
    while after < last:
        page = client.events(after=after, limit=500)
        found += sum(e.id <= last and e.kind != "JobUpdated" for e in page.events)
        if not page.events:
            break
        after = page.next
    return found


def _look(client: Client, job: str, word: str, seen: Seen) -> None:
    """Whether status and why name what is missing."""
    if word in client.status().problem:
        seen.named["status"] += 1
    why = client.why(job)
    if why.code == "machine" and word in why.sentence:
        seen.named["why"] += 1
    if any(word in device.because for node in client.nodes() for device in node.devices):
        seen.named["nodes"] += 1


def _count(lines: Path) -> int:
    return lines.read_bytes().count(b"\n")


def _until(true: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["all", *KINDS])
    parser.add_argument("seconds", type=float)
    parser.add_argument("--jobs", type=int, default=JOBS)
    asked = parser.parse_args()
    bad = 0
    for kind in KINDS if asked.kind == "all" else [asked.kind]:
        try:
            seen = storm(kind, asked.seconds, jobs=asked.jobs)
        except NotHereError as error:
            sys.stdout.write(f"{kind}: skipped, {error}\n")
            continue
        sys.stdout.write(f"{seen}\n")
        sys.stdout.flush()
        bad += not passed(seen, asked.jobs)
    return int(bad > 0)


def passed(seen: Seen, jobs: int) -> bool:
    """Whether every job ran exactly once and succeeded, and the cause was named."""
    once = len(seen.ran) == jobs and set(seen.ran.values()) == {1}
    well = seen.states == {State.SUCCEEDED: jobs} and not seen.failures and not seen.restarted
    return once and well and set(seen.named) >= NAMED


if __name__ == "__main__":
    sys.exit(main())
