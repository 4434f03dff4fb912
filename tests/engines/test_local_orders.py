"""Orders of the local engine: who waits for whom, and what a newer order does to an older one."""

import errno
import os
import resource
from pathlib import Path

import pytest
from tests.engines.bench import Jobs, Story, on, tell, telling

from treadle.core.actions import Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.events import (
    DeviceClosed,
    DeviceOpened,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
)
from treadle.core.launch import Launch


@telling()
async def test_a_start_waits_for_its_device_even_without_an_order_to_wait(bench: Story) -> None:
    bench.job("old", "sleep", "600")
    bench.job("new", "true")
    await bench.order(Start(0, "old", on(0)))
    await bench.event()
    await bench.order(Start(1, "new", on(0)), Stop(2, "old"))
    assert [type(await bench.event()) for _ in range(3)] == [JobStopped, JobStarted, JobFinished]


@telling()
async def test_a_job_that_finished_before_the_order_to_stop_has_finished(
    bench: Story, tmp_path: Path
) -> None:
    """The end is on disk before the order comes, but has not been seen."""
    go = tmp_path / "go"
    bench.job("a", "sh", "-c", 'while test ! -e "$0"; do sleep 0.01; done', str(go))
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    status = bench.folder("a") / "status.json"
    go.touch()
    # The loop is kept busy, so that the engine does not see the end.
    while '"ended"' not in status.read_text():
        pass
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobFinished("a", 1)


@telling()
async def test_a_job_whose_name_is_no_name_of_a_folder_is_refused(bench: Story) -> None:
    bench.job("../a", "true")
    await bench.order(Start(0, "../a", on(0)))
    assert await bench.event() == JobFailed("../a", 0, 0.0)
    assert [ended.how for ended in bench.ends] == ["engine-error"]
    assert not list((bench.root / "engine" / "jobs").iterdir())
    for name in ("..", "a/b", "", "a" * 65, "a\nb", ".", "x..y"):
        with pytest.raises(EngineError, match="cannot have a folder"):
            bench.folders.path(name, 1)


@telling()
async def test_a_linked_job_folder_is_refused(bench: Story, tmp_path: Path) -> None:
    bench.job("a", "true")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "engine" / "jobs" / "a").symlink_to(tmp_path / "elsewhere")
    await bench.order(Start(0, "a", on(0)))
    assert await bench.event() == JobFailed("a", 0, 0.0)
    assert "symbolic link" in bench.ends[0].error
    assert not list((tmp_path / "elsewhere").iterdir())


@telling()
async def test_a4_when_descriptors_run_out_the_job_goes_back_and_the_machine_pauses(
    bench: Story,
) -> None:
    """1. No descriptor is left: the launch fails. 2. The job is not charged, and all devices are
    closed with the cause. 3. There are descriptors again: the devices open, and it runs."""
    await bench.begin()
    bench.job("a", "true")
    bench.job("b", "true")
    bench.machine.fork_server.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        await bench.order(Start(0, "a", on(0)))
        assert await bench.event() == JobStopped("a", 0, 0.0)
        assert [device.state for device in bench.engine.view()[0].devices] == ["paused"] * 2
        await bench.order(Start(1, "b", on(1)))
        assert await bench.event() == JobStopped("b", 1, 0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    (ended,) = bench.ends
    assert (ended.how, ended.code) == ("machine-error", None)
    assert f"{os.strerror(errno.EMFILE)} (EMFILE)" in ended.error
    await bench.until(lambda: len(bench.closed) == 4)
    assert [type(fact) for fact in bench.closed] == [DeviceClosed] * 2 + [DeviceOpened] * 2
    for fact in bench.closed[:2]:
        assert isinstance(fact, DeviceClosed)
        assert (fact.cause, "EMFILE" in fact.reason) == ("machine", True)
    await bench.order(Start(2, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 2)


def test_an_answer_that_fails_costs_its_job_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    class Torn(Jobs):
        def launch(self, job: str, action: int, allocation: Allocation) -> Launch:
            if job == "a":
                raise RuntimeError("a page is missing")
            return super().launch(job, action, allocation)

    async def story(bench: Story) -> None:
        bench.jobs = Torn()
        bench.fresh_engine()
        bench.job("b", "true")
        await bench.order(Start(0, "a", on(0)))
        assert await bench.ended() == JobFailed("a", 0, 0.0)
        assert [ended.how for ended in bench.ends] == ["engine-error"]
        await bench.order(Start(1, "b", on(0)))
        assert await bench.ended() == JobFinished("b", 1)

    tell(tmp_path, story)
    assert "a page is missing" in caplog.text


@telling()
async def test_a_fork_server_that_was_killed_is_replaced(bench: Story) -> None:
    bench.job("a", "sleep", "600")
    bench.job("b", "true")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    assert bench.machine.fork_server._process is not None
    bench.machine.fork_server._process.kill()
    bench.machine.fork_server._process.wait()
    await bench.order(Start(1, "b", on(1)))
    assert await bench.ended() == JobFinished("b", 1)
    await bench.order(Stop(2, "a"))  # what the old one forked has not noticed
    assert await bench.event() == JobStopped("a", 2, 0.0)
