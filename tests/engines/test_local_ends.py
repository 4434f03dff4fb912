"""How attempts end, with real processes: codes, signals, stops, limits, and nothing left behind."""

import os
import shutil
import signal

import pytest
from tests.engines.bench import Story, on, telling

from treadle.core.actions import Start, Stop
from treadle.core.events import JobFailed, JobFinished, JobStarted, JobStopped
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG

IGNORES = "import signal,time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(600)"
# A daemon by the book: two forks, a session of its own, and the first parent gone.
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    daemon = os.fork()
    if daemon == 0:
        time.sleep(600)
    print("daemon", daemon, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -SEGV $$", 139)])
@telling()
async def test_the_exit_code_is_written_as_shells_write_it(
    bench: Story, command: str, code: int
) -> None:
    bench.job("a", "sh", "-c", command)
    await bench.order(Start(0, "a", on(0)))
    assert await bench.ended() == JobFailed("a", 0, 0.0)
    (ended,) = bench.ends
    assert (ended.code, ended.codes, ended.how, ended.error) == (code, (code,), "exited", "")
    assert ended.started_at is not None
    assert ended.ended_at is not None
    assert ended.started_at <= ended.ended_at


@pytest.mark.parametrize(
    ("details", "sentence", "code"),
    [
        ({"command": ("no-such-program",)}, "the command no-such-program cannot be executed", 127),
        ({"command": ("/etc/passwd",)}, "the command /etc/passwd cannot be executed", 126),
        ({"workdir": "/no/such/place"}, "the working directory /no/such/place cannot be", 126),
    ],
)
@telling()
async def test_a_job_that_cannot_be_launched_says_why(
    bench: Story, details, sentence, code
) -> None:
    command = details.pop("command", ("true",))
    bench.job("a", *command, **details)
    await bench.order(Start(0, "a", on(0)))
    assert isinstance(await bench.event(), JobFailed)
    (ended,) = bench.ends
    assert ended.error.startswith(sentence)
    assert (ended.how, ended.code) == ("not-launched", code)


@telling()
async def test_a_job_that_ignores_the_stop_signal_is_killed_after_its_grace(bench: Story) -> None:
    bench.job("a", "python", "-c", IGNORES, grace_s=0.2)
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.until(lambda: "up" in bench.log("a"))
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobStopped("a", 1, 0.0)
    (ended,) = bench.ends
    assert (ended.how, ended.code) == ("stopped", 137)


@telling()
async def test_a_job_that_ends_with_0_when_it_is_stopped_was_stopped_and_has_not_finished(
    bench: Story,
) -> None:
    bench.job("a", "sh", "-c", "trap 'exit 0' USR1; echo up; while :; do sleep 0.01; done",
              stop_signal="SIGUSR1")  # fmt: skip
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.until(lambda: "up" in bench.log("a"))
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobStopped("a", 1, 0.0)
    assert [(ended.how, ended.code) for ended in bench.ends] == [("stopped", 0)]


@telling()
async def test_a_job_that_is_paused_can_be_stopped(bench: Story) -> None:
    bench.job("a", "sh", "-c", "kill -STOP $$")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobStopped("a", 1, 0.0)


@telling()
async def test_daemons_do_not_outlive_their_job(bench: Story) -> None:
    bench.job("a", "python", "-c", DAEMON * 3)
    await bench.order(Start(0, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 0)
    pids = [int(line.split()[1]) for line in bench.log("a").splitlines()]
    assert len(pids) >= 3
    assert not [pid for pid in pids if processes.start_of(pid) is not None]
    assert not processes.tagged(TAG, f"{bench.folders.instance}*")


@telling()
async def test_when_one_rank_fails_the_others_are_stopped(bench: Story) -> None:
    bench.job("a", "sh", "-c", 'test "$RANK" = 1 && exit 7; sleep 600', ranks=3)
    await bench.order(Start(0, "a", on(0, 1)))
    assert isinstance(await bench.ended(), JobFailed)
    (ended,) = bench.ends
    assert (ended.code, ended.codes, ended.how) == (7, (143, 7, 143), "exited")


@telling()
async def test_a_rank_that_is_killed_takes_the_job_down_with_code_137(bench: Story) -> None:
    bench.job("a", "sh", "-c", "echo $$; exec sleep 600", ranks=2)
    await bench.order(Start(0, "a", on(0, 1)))
    await bench.event()
    await bench.until(lambda: bench.log("a", rank=1))
    os.kill(int(bench.log("a", rank=1)), signal.SIGKILL)
    assert isinstance(await bench.event(), JobFailed)
    (ended,) = bench.ends
    assert (ended.code, ended.codes) == (137, (143, 137))


@telling()
async def test_a_job_is_stopped_at_its_time_limit_and_has_failed(bench: Story) -> None:
    bench.job("a", "sleep", "600", time_limit_s=0.1)
    await bench.order(Start(0, "a", on(0)))
    assert isinstance(await bench.ended(), JobFailed)
    (ended,) = bench.ends
    assert (ended.how, ended.code) == ("time-limit", 143)


@telling()
async def test_a_job_that_is_stopped_from_outside_goes_back_to_the_queue(bench: Story) -> None:
    """A machine that shuts down sends SIGTERM to all processes, supervisors included."""
    bench.job("a", "sleep", "600")
    await bench.order(Start(3, "a", on(0)))
    await bench.event()
    processes.send(bench.supervisor("a"), signal.SIGTERM)
    assert await bench.event() == JobStopped("a", 3, 0.0)


@telling()
async def test_a_job_whose_folder_was_removed_ends_and_is_lost(bench: Story) -> None:
    bench.job("a", "sleep", "600")
    await bench.order(Start(0, "a", on(0)))
    assert isinstance(await bench.event(), JobStarted)
    process = bench.supervisor("a")
    shutil.rmtree(bench.folder("a"))
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobStopped("a", 1, 0.0)
    await bench.until(lambda: processes.start_of(process.pid) != process.start)
