"""The engine of one machine asks no disk, no directory of users and no process on the event loop.

What happens while a launch is under way in its thread: its output, later orders, the engine's end.
"""

import asyncio
import os
import pwd
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.engines.bench import Story, on, tell, telling

from treadle.core.actions import Start, Stop
from treadle.core.events import JobFailed, JobFinished, JobStarted, JobStopped
from treadle.core.job import Job
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent.machine_pause import TrialLaunch
from treadle.engines.node import attempt_folders
from treadle.engines.node.fork_client import ForkServer
from treadle.testing.builders import job as spec

NAMES = ("chmod", "chown", "listdir", "mkdir", "remove", "rename", "rmdir", "scandir")
FILES = ("open", *(f"os.{name}" for name in NAMES))
ANYWHERE = ("subprocess.Popen",)
LOOKS = 20
CGROUPS = "/sys/fs/cgroup"
NOBODY = pwd.getpwnam("nobody")


class Audit:
    """What the thread of the loop did that may block."""

    def __init__(self, root: Path) -> None:
        self.found: list[str] = []
        self._places = (str(root), CGROUPS)
        self._thread = threading.get_ident()
        self._on = True
        sys.addaudithook(self._event)  # It cannot be taken away again, but switched off.

    def end(self) -> None:
        self._on = False

    def _event(self, name: str, given: tuple[Any, ...]) -> None:
        if not self._here():
            return
        if name in ANYWHERE or (name in FILES and str(given[0]).startswith(self._places)):
            self.found.append(f"{name} {given[0]}")

    def also(self, call: Callable[..., Any], *, anywhere: bool = False) -> Callable[..., Any]:
        """The call, for which Python has no audit event, with a note of it."""

        def noted(*given: Any, **named: Any) -> Any:
            if self._here() and (anywhere or str(given[0]).startswith(self._places)):
                self.found.append(f"{call.__name__} {given[0]}")
            return call(*given, **named)

        return noted

    def _here(self) -> bool:
        return self._on and threading.get_ident() == self._thread


@contextmanager
def audited(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Audit]:
    audit = Audit(root)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", audit.also(os.stat))
        patch.setattr(os, "getgrouplist", audit.also(os.getgrouplist, anywhere=True))
        for name in ("getpwnam", "getpwuid"):
            patch.setattr(pwd, name, audit.also(getattr(pwd, name), anywhere=True))
        try:
            yield audit
        finally:
            audit.end()


async def read(bench: Story, job: str, attempt: int) -> bytes:
    return (await bench.engine.output(AttemptId(job, attempt), 0)).data


def test_a8_no_file_and_no_user_is_looked_up_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A launch, a read of its output, a stop, an end by itself, a launch that is refused, and the
    adoption of what an earlier engine left."""
    tmp_path.chmod(0o755)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"uid": NOBODY.pw_uid, "user": "nobody", "workdir": "/"}

    async def story(bench: Story) -> None:
        bench.job("a", "sleep", "600", **user)
        bench.job("b", "echo", "well")
        bench.job("c", "true", stop_signal="SIGNONE")
        with audited(tmp_path, monkeypatch) as audit:
            await bench.order(Start(0, "a", on(0)))
            assert await read(bench, "a", 1) == b""
            assert isinstance(await bench.event(), JobStarted)
            await bench.order(Start(1, "b", on(1)))
            assert await bench.ended() == JobFinished("b", 1)
            assert await read(bench, "b", 1) == b"well\n"
            followed = bench.engine.follow(AttemptId("b", 1), 0)
            assert [piece.data async for piece in followed] == [b"well\n"]
            await bench.order(Start(2, "c", on(1)))
            assert await bench.ended() == JobFailed("c", 2, 0.0)
            assert audit.found == []
        await bench.engine.close()
        bench.folders.make("99", 1, "abcd", action=7)
        bench.fresh_engine()
        row = Job(spec("a"), 0, Phase.RUNNING, 0.0, 0.0, allocation=on(0), action=0, attempt=0)
        with audited(tmp_path, monkeypatch) as audit:
            await bench.engine.adopt([row], [AttemptId("a", 1)])
            await bench.order(Stop(3, "a"))
            assert await bench.event() == JobStopped("a", 3, 0.0)
            await asyncio.gather(*bench.machine.tasks)
            assert audit.found == []
            # The audit itself does see such things.
            bench.folders.live()
            tmp_path.stat()
            assert len(audit.found) == 2

    tell(tmp_path, story)


@contextmanager
def busy(server: ForkServer) -> Iterator[None]:
    """Another thread has the fork server, so that a launch waits after it made its files."""
    taken, gate = threading.Event(), threading.Event()

    def hold() -> None:
        with server._lock:
            taken.set()
            gate.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()
    try:
        yield
    finally:
        gate.set()
        holder.join()


def open_pipes() -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(entry.readlink()))
    return sorted(name for name in found if name.startswith("pipe:"))


@telling()
async def test_the_output_of_an_attempt_that_is_being_launched_can_be_followed(
    bench: Story,
) -> None:
    await bench.begin()
    bench.job("a", "echo", "well")

    async def follow() -> bytes:
        followed = bench.engine.follow(AttemptId("a", 1), 0)
        return b"".join([piece.data async for piece in followed])

    with busy(bench.machine.fork_server):
        await bench.order(Start(0, "a", on(0)))
        await bench.until(bench.folder("a").is_dir)
        assert await read(bench, "a", 1) == b""
        whole = asyncio.create_task(follow())
        await asyncio.wait({whole}, timeout=0.3)  # Several looks, none of which ends it.
        assert not whole.done()
    assert await whole == b"well\n"


@telling()
async def test_an_order_that_comes_after_a_job_waits_for_the_launch_of_that_job(
    bench: Story,
) -> None:
    """1. Job a is being launched. 2. It is to stop, and b is to start after it, elsewhere. 3. Job b
    starts once a has stopped."""
    await bench.begin()
    bench.job("a", "sleep", "600")
    bench.job("b", "true")
    with busy(bench.machine.fork_server):
        await bench.order(Start(0, "a", on(0)))
        await bench.until(bench.folder("a").is_dir)
        await bench.order(Stop(1, "a"), Start(2, "b", on(1), after=("a",)))
        for _ in range(LOOKS):  # In threads, as a launch of b would be.
            await read(bench, "a", 1)
        assert not bench.folder("b").exists()
    assert await bench.event() == JobStopped("a", 1, 0.0)
    assert await bench.event() == JobStarted("b", 2, 0.0, 1.0, attempt=1)


@telling()
async def test_a_launch_that_nothing_waits_for_any_more_leaves_no_pipe_open(bench: Story) -> None:
    await bench.begin()
    bench.job("a", "true")
    machine, server = bench.machine, bench.machine.fork_server
    server.start()
    before = open_pipes()
    live = machine.attempt(bench.jobs.launch("a", 0, on(0)), on(0), 0)
    with busy(server):
        launch = asyncio.create_task(machine.launch(live))
        await bench.until(live.folder.is_dir)
        launch.cancel()
        await asyncio.wait({launch})
    await bench.until(lambda: attempt_folders.read_status(live.folder))
    await bench.until(lambda: open_pipes() == before)


@telling()
async def test_a_trial_launch_that_was_given_up_leaves_no_pipe_open(bench: Story) -> None:
    await bench.begin()
    server = bench.machine.fork_server
    trial = TrialLaunch(bench.folders.root, server)
    await trial()
    before = open_pipes()
    with busy(server), pytest.raises(TimeoutError):
        await asyncio.wait_for(trial(), 0.2)
    await bench.until(lambda: open_pipes() == before)


@telling()
async def test_a_launch_that_comes_after_the_end_of_the_engine_starts_no_fork_server(
    bench: Story,
) -> None:
    await bench.begin()
    bench.job("a", "true")
    machine = bench.machine
    live = machine.attempt(bench.jobs.launch("a", 0, on(0)), on(0), 0)
    await bench.engine.close()
    with pytest.raises(OSError, match="Cannot send after transport endpoint shutdown"):
        await machine.launch(live)
    assert machine.fork_server._process is None
    assert bench.folders.live() == []
