"""What goes wrong around a controller, with real processes: nothing is lost, the books stay in
order, and exit codes are right."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.control.asking import end_all, runs, telling, waits
from tests.control.living import ME, bash, ended, living, local, text_of, until, view_of
from tests.store.test_store_faults import small_disk
from tests.telling import within
from treadle.control.api import LiveService
from treadle.control.loop import clock
from treadle.core.lifecycle import Phase
from treadle.engines.node import attempt_folders as folders
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG
from treadle.testing.checks import check
from treadle.wire.jobs import State
from treadle.wire.problems import UnavailableError, UnsettledError


def _folder(live: LiveService, job: str, number: int = 1) -> Path:
    attempts = local(live).folders.attempts(job)
    return local(live).folders.path(*next(each for each in attempts if each.number == number))


def supervisor_of(live: LiveService, job: str, attempt: int = 1) -> int:
    found = folders.read_supervisor(_folder(live, job, attempt))
    assert found is not None
    return found.process.pid


def alive(pid: int) -> bool:
    """A process that is neither gone nor only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(*pids: int) -> None:
    while any(map(alive, pids)):
        await asyncio.sleep(0.01)


async def printed(live: LiveService, job: str, count: int = 1) -> list[str]:
    """The first words that a job prints."""
    while len(words := (await text_of(live, job)).split()) < count:
        await asyncio.sleep(0.01)
    return words


# -- processes ------------------------------------------------------------------------------------


@telling()
async def test_a_supervisor_that_is_killed_takes_its_ranks_along_and_is_retried(
    live: LiveService,
) -> None:
    body = 'echo $$; test "$TREADLE_ATTEMPT" -ge 2 || exec sleep 60'
    job = await runs(live, body, devices="2", retries=2)
    (pid,) = await printed(live, job)
    os.kill(supervisor_of(live, job), signal.SIGKILL)
    (view,) = await ended(live, job)
    assert (view.state, view.code, view.attempts, view.failures) == (State.SUCCEEDED, 0, 2, 1)
    detail = await live.job(job)
    assert [(a.told, a.code) for a in detail.attempts] == [("lost", 137), ("", 0)]
    assert detail.attempts[0].failure is not None
    assert detail.attempts[0].failure.rule == "supervisor-lost"
    assert detail.attempts[0].failure.advice == "retry"
    assert not alive(int(pid))


@telling()
async def test_a5_a_job_whose_checkpoints_have_no_place_waits_and_is_not_charged(
    live: LiveService, tmp_path: Path
) -> None:
    """1. A file is where the checkpoint folders should be. 2. The job goes back to the queue, the
    machine pauses and says why. 3. The file is gone: the job runs, and is not charged."""
    in_the_way = tmp_path / "state" / "checkpoints"
    in_the_way.write_text("a file in the way")
    job = (await live.submit(ME, bash("true", retries=0))).id
    while not live.status().problem:
        await asyncio.sleep(0.01)
    assert live.status().problem == (
        f"this machine cannot launch jobs: File exists (EEXIST): {in_the_way}; it is tried "
        "again by itself"
    )
    while (await live.why(job)).sentence != live.status().problem:
        await asyncio.sleep(0.01)
    assert (await live.why(job)).code == "machine"
    assert not (await view_of(live, job)).state.ended
    in_the_way.unlink()
    (view,) = await ended(live, job)
    detail = await live.job(job)
    assert (view.state, view.failures, detail.failure) == (State.SUCCEEDED, 0, None)
    assert [attempt.told for attempt in detail.attempts] == ["machine-error", ""]
    assert not live.context.jobs.open
    assert not live.status().problem


# -- the store ------------------------------------------------------------------------------------


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Another process holds the database's lock."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@telling(store_patience_s=0.2)
async def test_a_locked_store_refuses_submissions_and_loses_nothing(
    live: LiveService, tmp_path: Path
) -> None:
    body = f"until test -e {tmp_path}/go; do sleep 0.01; done; exit 4"
    first = await runs(live, body, retries=0)
    async with locked(tmp_path / "treadle.db"):
        with pytest.raises(UnavailableError, match="it is kept in memory only: it is done once"):
            await live.submit(ME, bash("true", name="early"), "key")
        with pytest.raises(
            UnavailableError, match=r"the store cannot be written now: .*locked"
        ) as refused:
            await live.submit(ME, bash("true", name="late"))
        assert refused.value.hint == "nothing was changed; try again"
        with pytest.raises(UnavailableError):
            await live.release(ME, first)
        with pytest.raises(UnavailableError):  # The same request, under way still.
            await live.submit(ME, bash("true", name="early"), "key")
        (tmp_path / "go").touch()
        await gone(supervisor_of(live, first))
        assert not (await view_of(live, first)).state.ended
        assert live.status().store == "sqlite"
    (view,) = await ended(live, first)
    assert (view.state, view.code) == (State.FAILED, 4)
    again = await live.submit(ME, bash("true", name="early"), "key")
    assert (await ended(live, again.id))[0].state is State.SUCCEEDED
    names = [view.name for view in (await live.jobs(ended=True)).jobs]
    assert sorted(names) == ["bash", "early"]
    assert again.repeated


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.CANCELLING])
@telling(store_patience_s=0.2)
async def test_u18_cancel_works_while_the_store_cannot_be_written(
    live: LiveService, tmp_path: Path, phase: Phase
) -> None:
    """1. One job runs, one waits. 2. The store is locked, perhaps with another step before the
    cancel. 3. Both are cancelled, one of them twice; what runs is stopped at once. 4. The store is
    free again: both are cancelled, and the one that waited has never run."""
    first = await runs(live, "echo $$; exec sleep 60", devices="4", retries=0)
    (pid,) = await printed(live, first)
    second = await waits(live, f"touch {tmp_path}/ran", devices="4")
    while live.context.commit.writing:
        await asyncio.sleep(0.01)
    async with locked(tmp_path / "treadle.db"):
        if phase is Phase.RUNNING:
            with pytest.raises(UnavailableError):
                await live.submit(ME, bash("true", held=True))
        for job in (first, second, first):
            (view,) = await live.cancel(ME, job)
            assert not view.state.ended, "that is not on disk yet"
        row = live.context.row(first)
        assert row is not None
        assert row.phase is phase
        await gone(int(pid), supervisor_of(live, first))
        assert not (await view_of(live, first)).state.ended
        assert "locked" in live.status().problem
    views = await ended(live, first, second)
    assert [view.state for view in views] == [State.CANCELLED] * 2
    assert [view.attempts for view in views] == [1, 0]
    assert not (tmp_path / "ran").exists()


@telling(store_patience_s=0.2)
async def test_u18_a_job_that_is_only_starting_is_stopped_while_the_store_cannot_be_written(
    live: LiveService, tmp_path: Path
) -> None:
    """1. A job is ordered to start, and the fork server is stopped. 2. The store is locked, the job
    is cancelled, and the fork server goes on. 3. Nothing of the job is left, while the store is
    still locked. 4. The store is free again: the job is cancelled."""
    server = local(live).fork_server
    server.start()
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGSTOP)
    job = (await live.submit(ME, bash("exec sleep 60", grace_s=0.2))).id
    await until(live, State.STARTING, jobs=(job,))
    while live.context.commit.writing or not [run for run in local(live).runs.values() if run.live]:
        await asyncio.sleep(0.01)
    async with locked(tmp_path / "treadle.db"):
        with pytest.raises(UnsettledError):
            await live.submit(ME, bash("true", held=True))
        (view,) = await live.cancel(ME, job)
        assert (view.state, view.cause) == (State.STARTING, "unsettled")
        os.kill(server._process.pid, signal.SIGCONT)
        while local(live).runs:
            await asyncio.sleep(0.01)
        assert not processes.tagged(TAG, f"{local(live).folders.instance}*")
    (view,) = await ended(live, job)
    assert view.state is State.CANCELLED


@telling(store_patience_s=0.2)
async def test_u18_a_job_that_ends_by_itself_before_its_cancel_is_kept_is_no_cancelled_one(
    live: LiveService, tmp_path: Path
) -> None:
    body = f"until test -e {tmp_path}/go; do sleep 0.01; done; exit 4"
    job = await runs(live, body, retries=0)
    async with locked(tmp_path / "treadle.db"):
        with pytest.raises(UnavailableError):
            await live.submit(ME, bash("true"))
        (tmp_path / "go").touch()
        await gone(supervisor_of(live, job))
        while live.context.inbox.pending_end(job) is None:
            await asyncio.sleep(0.01)
        await live.cancel(ME, job)
    (view,) = await ended(live, job)
    assert (view.state, view.code) == (State.FAILED, 4)


def fill(path: Path) -> None:
    """Until there is no room for another page."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(file, b"x" * 4096):
            pass
    os.close(file)


async def submit_for_ever(live: LiveService) -> None:
    while True:
        await live.submit(ME, bash("true"))


def test_a_store_on_a_full_disk_waits_for_room_and_loses_nothing(tmp_path: Path) -> None:
    async def story(disk: Path) -> None:
        url = f"sqlite:///{disk}/treadle.db"
        async with living(tmp_path, url=url, store_patience_s=0.1) as live:
            body = f"until test -e {tmp_path}/go; do sleep 0.01; done; exit 4"
            job = await runs(live, body, retries=0)
            ballast = disk / "ballast"
            fill(ballast)
            with pytest.raises(UnavailableError):
                await submit_for_ever(live)
            (tmp_path / "go").touch()
            await gone(supervisor_of(live, job))
            ballast.unlink()
            (view,) = await ended(live, job)
            assert (view.state, view.code) == (State.FAILED, 4)
            while live.context.condition.store_error:
                await asyncio.sleep(0.01)
            late = (await live.submit(ME, bash("true"))).id
            assert (await ended(live, late))[0].state is State.SUCCEEDED
            await end_all(live)
            check(live.context.scheduler)

    with small_disk(tmp_path) as disk:
        asyncio.run(asyncio.wait_for(story(disk), 180))


@within(180)
async def test_a_controller_leaves_though_its_store_is_locked(tmp_path: Path) -> None:
    async with living(tmp_path, store_patience_s=0.2) as live:
        job = await runs(live)
        while live.context.commit.writing or not live.context.inbox.empty():
            await asyncio.sleep(0.01)
        lock = locked(tmp_path / "treadle.db")
        await lock.__aenter__()
    await lock.__aexit__(None, None, None)
    async with living(tmp_path) as live:
        assert (await view_of(live, job)).state is State.RUNNING
        await end_all(live)


# -- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
@telling()
async def test_a_wall_clock_that_jumps_changes_no_duration(
    live: LiveService, tmp_path: Path, jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"until test -e {tmp_path}/go; do sleep 0.01; done"
    job = await runs(live, body, time_limit_s=30)
    waiting = await waits(live, "true", devices="4", time_limit_s=30)
    stopped = SimpleNamespace(**vars(time))
    stopped.time = lambda: time.time() + jump_s
    monkeypatch.setattr(clock, "time", stopped)
    assert 0 <= (await view_of(live, job)).running_s < 10
    (tmp_path / "go").touch()
    views = await ended(live, job, waiting)
    late = (await live.submit(ME, bash("true"))).id
    for view in (*views, *await ended(live, late)):
        assert view.state is State.SUCCEEDED
        assert 0 <= view.running_s < 10
        assert view.started_at is not None
        assert view.ended_at is not None
        assert view.submitted_at <= view.started_at <= view.ended_at
        (attempt,) = (await live.job(view.id)).attempts
        assert attempt.ended_at is not None
        assert 0 <= attempt.ended_at - attempt.started_at < 10
    assert all(0 <= row.allocated_h < 0.02 for row in await live.usage())
    monkeypatch.undo()


def test_a_machine_that_was_started_again_has_lost_what_ran(tmp_path: Path) -> None:
    """Jobs are retried by class: what is lost with its machine was not the job's fault."""

    async def before() -> list[int]:
        async with living(tmp_path) as live:
            body = 'test "$TREADLE_ATTEMPT" -ge 2 || exec sleep 60'
            jobs = [await runs(live, body, retries=r) for r in (2, 0)]
            await waits(live, "true", devices="4")
            return [supervisor_of(live, job) for job in jobs]

    async def after() -> None:
        async with living(tmp_path) as live:
            views = await ended(live, "1", "2", "3")
            assert [(view.state, view.failures) for view in views] == [
                (State.SUCCEEDED, 1),
                (State.FAILED, 1),
                (State.SUCCEEDED, 0),
            ]
            assert (await live.why("2")).numbers["exit"] == 137
            assert (await live.job("2")).failure is not None
            check(live.context.scheduler)

    for pid in asyncio.run(before()):
        os.kill(pid, signal.SIGKILL)
    with sqlite3.connect(tmp_path / "treadle.db") as connection:
        (text,) = connection.execute("SELECT value FROM settings WHERE key = 'clock'").fetchone()
        run_s, _, _, wall_s = text.split()
        another = f"{run_s} 5.0 another-boot {float(wall_s) - 60}"
        connection.execute("UPDATE settings SET value = ? WHERE key = 'clock'", (another,))
    connection.close()
    asyncio.run(asyncio.wait_for(after(), 180))
