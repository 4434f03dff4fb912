"""Errors of the machine are never charged to a job: what cannot be read is not gone, what cannot be
launched waits."""

import asyncio
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engines.bench import Story, agent_of, on, telling

from treadle.core.actions import Start, Stop
from treadle.core.errors import EngineError
from treadle.core.events import DeviceClosed, JobFinished, JobStarted, JobStopped
from treadle.core.job import Job
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent.found import look
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.node import attempt_folders as folders
from treadle.engines.node import processes
from treadle.engines.node.attempt_folders import AttemptFolders, AttemptStatus
from treadle.engines.node.processes import ProcessId
from treadle.engines.node.scope import RecordedScope
from treadle.testing.builders import job as spec

LOOKS = 50  # of the event loop, each of which would have taken "unreadable" for "gone"
GAMES = 5  # the uid of an account without processes, on every Debian


@contextmanager
def no_descriptors() -> Iterator[None]:
    """No file can be opened in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Also where a file is closed meanwhile: only the three standard ones are below the limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def look_on() -> None:
    for _ in range(LOOKS):
        await asyncio.sleep(0.002)


def waiting_for(path: Path, then: str) -> str:
    return f"until test -e {path}; do sleep 0.01; done; {then}"


@telling()
async def test_a4_a_job_that_ended_while_its_status_is_unreadable_is_neither_lost_nor_over(
    bench: Story, tmp_path: Path
) -> None:
    """1. A job runs. 2. Descriptors run out, and the job ends: nothing is reported, and it has
    its device. 3. Its status can be read: it finished."""
    bench.job("a", "sh", "-c", waiting_for(tmp_path / "go", "exit 0"))
    await bench.order(Start(0, "a", on(0)))
    assert isinstance(await bench.event(), JobStarted)
    live = bench.live("a")
    with no_descriptors():
        (tmp_path / "go").mkdir()
        await bench.until(live.gone.done)
        await look_on()
        assert bench.ends == []
        assert bench.engine.view()[0].devices[0].jobs == ("a",)
    assert await bench.event() == JobFinished("a", 0)


def test_a4_an_attempt_that_cannot_be_watched_for_want_of_descriptors_is_not_gone(tmp_path: Path):
    """1. An attempt of an earlier engine runs, and no descriptor to watch it with is left. 2. It
    is not gone. 3. There are descriptors again, and it ends: now it is."""

    async def story() -> None:
        process = subprocess.Popen(["sleep", "600"])
        try:
            start = processes.start_of(process.pid)
            assert start is not None
            scope = RecordedScope(str(tmp_path))
            live = LiveAttempt(
                "a", 1, action=0, allocation=on(0), folder=tmp_path, tag="x", scope=scope
            )
            with no_descriptors():
                live.watch(ProcessId(process.pid, start))
                await look_on()
                assert not live.gone.done()
                live.stop()
            await asyncio.wait_for(live.gone, 30)
            assert process.wait() == -signal.SIGTERM
        finally:
            process.kill()
            process.wait()

    asyncio.run(story())


def test_a4_files_that_cannot_be_read_are_not_files_that_are_not_there(tmp_path: Path):
    places = AttemptFolders(tmp_path / "state")
    folder = places.make("a", 1, action=7)
    (folder / "status.json").write_text('{"state": "ended"')
    assert folders.read_status(folder) is None, "it is damaged"
    assert folders.read_status(tmp_path / "nothing") is None
    assert (places.attempts("a"), places.attempts("b")) == ([AttemptId("a", 1)], [])
    assert (places.ordered_by("a", 1), places.ordered_by("a", 2)) == (7, None)
    (folder / "status.json").unlink()
    (folder / "supervisor.json").write_text('{}\n{"running": 2, "started_at": 1.0, "began": 3.0}\n')
    assert folders.read_status(folder) == AttemptStatus(
        codes=(None, None), started_at=1.0, began=3.0
    )
    (folder / "supervisor.json").write_text('{}\n{"running": 2, "started_at": 1')
    assert folders.read_status(folder) is None, "it is being written"
    with no_descriptors():
        for read in (folders.read_status, folders.read_supervisor):
            with pytest.raises(OSError, match="Too many open files"):
                read(folder)
        with pytest.raises(OSError, match="Too many open files"):
            places.attempts("a")
        with pytest.raises(OSError, match="Too many open files"):
            places.ordered_by("a", 1)
        with pytest.raises(OSError, match="Too many open files"):
            processes.start_of(os.getpid())
        with pytest.raises(OSError, match="Too many open files"):
            AttemptFolders(tmp_path / "state")
    assert AttemptFolders(tmp_path / "state").instance == places.instance


@telling()
async def test_a4_an_engine_that_cannot_read_its_attempts_launches_nothing(bench: Story) -> None:
    bench.job("a", "true")
    row = Job(spec("a"), 0, Phase.STARTING, 0.0, 0.0, allocation=on(0), action=0, attempt=0)
    with no_descriptors(), pytest.raises(EngineError, match="too many open files"):
        await bench.engine.adopt([row], [AttemptId("a", 1)])
    assert bench.ends == []
    assert agent_of(bench.engine).session is None


@telling()
async def test_a5_a_machine_without_room_pauses_and_goes_on_by_itself(
    bench: Story, tmp_path: Path
) -> None:
    """Its own folder is missing, which is the machine's fault and not the job's."""
    bench.job("a", "true")
    await bench.begin()
    jobs = tmp_path / "engine" / "jobs"
    jobs.rename(tmp_path / "elsewhere")
    await bench.order(Start(0, "a", on(0)))
    assert await bench.event() == JobStopped("a", 0, 0.0)
    assert bench.ends[0].error == f"No such file or directory (ENOENT): {jobs}/a"
    closed = bench.closed[0]
    assert isinstance(closed, DeviceClosed)
    assert closed.reason == (
        f"this machine cannot launch jobs: No such file or directory (ENOENT): {jobs}/.probe; "
        "it is tried again by itself"
    )
    (tmp_path / "elsewhere").rename(jobs)
    await bench.until(lambda: len(bench.closed) == 4)
    await bench.order(Start(1, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may launch jobs of other users")
@telling()
async def test_a5_a_users_own_limit_of_processes_is_said_and_pauses_nobody(
    bench: Story, tmp_path: Path
) -> None:
    """1. A user has as many processes as they may. 2. Their next job goes back to the queue and
    says why. 3. No device is closed, and another user's job runs."""
    await bench.begin()
    tmp_path.chmod(0o755)
    bench.job("a", "sleep", "600", uid=GAMES, user="games", workdir="/")
    bench.job("b", "true", uid=GAMES, user="games", workdir="/")
    bench.job("c", "true")
    server = bench.machine.fork_server
    server.start()
    assert server._process is not None
    resource.prlimit(server._process.pid, resource.RLIMIT_NPROC, (0, 0))
    await bench.order(Start(0, "a", on(0)))
    assert isinstance(await bench.event(), JobStarted)
    await bench.order(Start(1, "b", on(1)))
    assert await bench.event() == JobStopped("b", 1, 0.0)
    (ended,) = bench.ends
    assert ended.how == "machine-error"
    assert ended.error.startswith(f"user {GAMES} is at their limit of processes, so ")
    assert bench.closed == []
    await bench.order(Start(2, "c", on(1)))
    assert await bench.ended() == JobFinished("c", 2)
    await bench.order(Stop(3, "a"))
    assert await bench.event() == JobStopped("a", 3, 0.0)


@telling()
async def test_a5_too_little_memory_to_start_a_program_is_the_machines_error(bench: Story) -> None:
    await bench.begin()
    bench.job("a", "true")
    server = bench.machine.fork_server
    server.start()
    assert server._process is not None
    pid = server._process.pid
    await bench.until(lambda: b"fork_server" in processes.command_of(pid).encode())
    await bench.machine.pause._probe()  # It has loaded everything by now.
    room = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * 4096 + (16 << 20)
    resource.prlimit(pid, resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
    await bench.order(Start(0, "a", on(0)))
    assert await bench.event() == JobStopped("a", 0, 0.0)
    assert "Cannot allocate memory (ENOMEM)" in bench.ends[0].error
    assert "ENOMEM" in bench.engine.view()[0].devices[0].because
    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(pid, resource.RLIMIT_AS, infinite)
    await bench.until(lambda: len(bench.closed) == 4)
    await bench.order(Start(1, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 1)


def test_a4_a_folder_that_cannot_be_looked_at_is_not_absent(tmp_path: Path):
    """Otherwise a job that runs there would be launched a second time."""
    places = AttemptFolders(tmp_path / "state")
    folder = places.make("a", 1, action=0)
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.symlink_to(folder.parent)  # It leads to itself, and no look succeeds.
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        look(places, AttemptId("a", 1))


class NoThreads(ThreadPoolExecutor):
    """Starts no thread, as where a user has as many processes as they may."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("can't start new thread")


@telling()
async def test_a5_a_launch_for_want_of_a_thread_is_the_machines_error(bench: Story) -> None:
    bench.job("a", "true")
    await bench.begin()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(NoThreads())
    try:
        await bench.order(Start(0, "a", on(0)))
        assert await bench.event() == JobStopped("a", 0, 0.0)
        (ended,) = bench.ends
        assert (ended.how, ended.error) == ("machine-error", "can't start new thread")
    finally:
        loop.set_default_executor(ThreadPoolExecutor())
    await bench.until(lambda: not bench.machine.pause.reason)
    await bench.order(Start(1, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 1)
