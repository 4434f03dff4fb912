"""After a restart: what ran on is adopted, what ended is reported, what is owed is done."""

import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, telling

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.events import AttemptEnded, JobFailed, JobFinished, JobStarted, JobStopped
from treadle.core.job import Job
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent.found import look
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.machine import Machine, MachineParts
from treadle.engines.agent.messages import Fact, Wanted
from treadle.engines.node import attempt_folders as folders
from treadle.engines.node import processes
from treadle.engines.node.devices import node_of
from treadle.engines.node.environment import TAG
from treadle.engines.node.order_document import Surroundings
from treadle.engines.node.processes import ProcessId
from treadle.engines.node.scope import RecordedScope
from treadle.testing.builders import job

WAITS = 'echo up; while test ! -e "$0"; do sleep 0.01; done; exit 5'


def row(
    name: str,
    phase: Phase,
    *,
    allocation: Allocation | None = None,
    action: int = 0,
    attempt: int = 0,
) -> Job:
    return Job(job(name), 0, phase, 0.0, 0.0, allocation=allocation, action=action, attempt=attempt)


async def adopt(bench: Story, *rows: Job) -> None:
    """As a controller does that has seen the ends that the engine has seen."""
    names = {row.id for row in rows}
    unseen = [attempt for attempt in bench.folders.live() if attempt.job in names]
    await bench.engine.adopt(rows, unseen)


async def restart(bench: Story) -> None:
    await bench.engine.close()
    bench.fresh_engine()


@telling()
async def test_a8_a_start_has_the_moment_that_the_supervisor_saw_also_after_a_restart(
    bench: Story,
) -> None:
    bench.job("a", "sleep", "600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await restart(bench)
    await adopt(bench, row("a", Phase.STARTING, allocation=on(0)))
    await bench.event()
    status = folders.read_status(bench.folder("a"))
    assert status is not None
    starts = [fact for fact in bench.jobs.facts if isinstance(fact, JobStarted)]
    assert [start.started_at for start in starts] == [status.started_at] * 2
    assert status.started_at


@telling()
async def test_an_attempt_that_died_with_its_machine_is_lost(bench: Story) -> None:
    bench.job("a", "sleep", "600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    supervisor = folders.read_supervisor(bench.folder("a"))
    await bench.engine.close()
    assert supervisor is not None
    processes.send(supervisor.process, signal.SIGKILL)
    await bench.until(lambda: not look(bench.folders, AttemptId("a", 1)).alive)
    bench.fresh_engine()
    await adopt(bench, row("a", Phase.RUNNING, allocation=on(0)))
    assert await bench.event() == JobFailed("a", 0, 0.0)
    assert [(ended.how, ended.code) for ended in bench.ends] == [("lost", 137)]
    assert bench.ends[0].started_at is not None


@telling()
async def test_a_folder_without_a_supervisor_is_used_for_the_order_it_was_made_for(
    bench: Story,
) -> None:
    bench.job("a", "true")
    bench.folders.make("a", 1, action=3)
    await adopt(bench, row("a", Phase.STARTING, allocation=on(0), action=3, attempt=3))
    assert await bench.event() == JobStarted("a", 3, 0.0, 1.0, attempt=1)
    assert await bench.event() == JobFinished("a", 3)
    assert bench.folders.attempts("a") == [AttemptId("a", 1)]


@telling()
async def test_a_change_whose_first_half_was_carried_out_is_completed(bench: Story) -> None:
    """The old attempt was stopped; the engine died before it launched the new one."""
    bench.job("a", "sleep", "600")
    bench.job("b", "sleep", "600")
    await bench.order(Start(0, "a", on(0)), Start(1, "b", on(1)))
    await bench.event()
    await bench.event()
    await bench.order(Change(2, "a", on(0, 1), ("b",)))  # waits for b, which stays
    await bench.until(lambda: bench.ends)
    await restart(bench)
    rows = [
        row("a", Phase.STARTING, allocation=on(0, 1), action=2),
        row("b", Phase.STOPPING, action=3, attempt=1),
    ]
    await adopt(bench, *rows)
    assert await bench.event() == JobStopped("b", 3, 0.0)
    assert await bench.event() == JobStarted("a", 2, 0.0, 1.0, attempt=2)


@telling()
async def test_attempts_of_an_earlier_hold_have_nothing_to_say(bench: Story) -> None:
    bench.job("a", "sh", "-c", 'test "$TREADLE_ATTEMPT" = 2')
    await bench.order(Start(0, "a", on(0)))
    assert isinstance(await bench.ended(), JobFailed)
    await restart(bench)
    await adopt(bench, row("a", Phase.STARTING, allocation=on(0), action=7, attempt=7))
    assert await bench.event() == JobStarted("a", 7, 0.0, 1.0, attempt=2)
    assert await bench.event() == JobFinished("a", 7)


@telling()
async def test_the_end_of_an_attempt_that_no_job_knows_is_reported_if_the_controller_waits_for_it(
    bench: Story,
) -> None:
    bench.job("a", "sleep", "600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await restart(bench)
    await bench.engine.adopt([], [AttemptId("a", 1)])
    await bench.until(lambda: bench.ends)
    assert [(end.attempt, end.how, end.code) for end in bench.ends] == [(1, "replaced", 143)]


@telling()
async def test_an_attempt_that_was_numbered_and_never_launched_is_over(bench: Story) -> None:
    """1. A change is superseded before it is launched. 2. The controller restarts."""
    bench.job("a", "sleep", "600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await restart(bench)
    numbered = [AttemptId("a", 1), AttemptId("a", 2)]
    await bench.engine.adopt([row("a", Phase.STOPPING, action=2)], numbered)
    assert await bench.event() == JobStopped("a", 2, 0.0)
    assert [(end.attempt, end.how, end.code) for end in bench.ends] == [
        (2, "replaced", None),
        (1, "stopped", 143),
    ]


@telling()
async def test_an_attempt_that_may_follow_one_that_runs_is_not_over(bench: Story) -> None:
    """Its order was carried out by the attempt that runs, and that was not reported yet."""
    bench.job("a", "sleep", "600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await restart(bench)
    unseen = [AttemptId("a", 1), AttemptId("a", 2, "other")]
    await bench.engine.adopt([row("a", Phase.RUNNING, allocation=on(0))], unseen)
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobStopped("a", 1, 0.0)
    assert [ended.attempt for ended in bench.ends] == [1]


@telling()
async def test_what_a_dead_stray_left_behind_is_killed(bench: Story) -> None:
    bench.job("a", "sh", "-c", "setsid sleep 600 & echo up; exec sleep 600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.until(lambda: bench.log("a"))
    supervisor = folders.read_supervisor(bench.folder("a"))
    await bench.engine.close()
    assert supervisor is not None
    processes.send(supervisor.process, signal.SIGKILL)
    await bench.until(lambda: not look(bench.folders, AttemptId("a", 1)).alive)
    assert processes.tagged(TAG, supervisor.tag)
    bench.fresh_engine()
    await bench.engine.adopt([])
    await bench.until(lambda: not processes.tagged(TAG, supervisor.tag))
    assert bench.inbox.empty()


@telling()
async def test_two_engines_that_launch_the_same_attempt_run_it_once(
    bench: Story, tmp_path: Path
) -> None:
    """1. An engine launches. 2. Another, that has not seen it, launches the same. 3. One runs."""
    bench.job("a", "sh", "-c", 'echo run >> "$0"; exec sleep 600', str(tmp_path / "runs"))
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.engine.close()
    facts: list[Fact] = []
    parts = MachineParts(
        root=tmp_path / "engine",
        node=node_of(bench.source, "here"),
        devices=bench.source,
        excluded=(),
        options=bench.options,
        around=Surroundings.here(),
        clock=MonotonicClock(),
        tell=facts.append,
        fitted=lambda launch: launch,
    )
    machine, launch = Machine(parts), bench.jobs.launch("a", 0, on(0))
    wanted = Wanted(attempt=launch.id, action=0, allocation=on(0), launch=launch)
    machine.order(wanted)
    await bench.until(lambda: facts)
    machine.order(replace(wanted, action=1, allocation=None))
    await bench.until(lambda: not machine.runs)
    await machine.close()
    assert [type(fact) for fact in facts] == [JobStarted, AttemptEnded]
    assert (tmp_path / "runs").read_text() == "run\n"


@telling()
async def test_nothing_is_launched_in_the_folder_of_an_attempt_that_ended(
    bench: Story, tmp_path: Path
) -> None:
    bench.job("a", "sh", "-c", 'echo run >> "$0"', str(tmp_path / "runs"))
    await bench.order(Start(0, "a", on(0)))
    await bench.ended()
    await restart(bench)
    await bench.order(Start(0, "a", on(0)))
    assert await bench.event() == JobFinished("a", 0)
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"state": "ended"}', b"\xff" * 100])
def test_damaged_files_mean_that_nothing_is_known(tmp_path: Path, damage: bytes):
    (tmp_path / "status.json").write_bytes(damage)
    (tmp_path / "supervisor.json").write_bytes(damage)
    assert folders.read_status(tmp_path) is None
    assert folders.read_supervisor(tmp_path) is None


def test_a_process_is_not_mistaken_for_a_later_one_with_its_number():
    child = subprocess.Popen(["sleep", "600"])
    try:
        start = processes.start_of(child.pid)
        assert start is not None
        assert not processes.send(ProcessId(child.pid, start - 1), signal.SIGKILL)
        assert child.poll() is None
        assert processes.send(ProcessId(child.pid, start), signal.SIGKILL)
    finally:
        child.kill()
        child.wait()


@telling()
async def test_a_supervisor_that_comes_after_the_stop_was_answered_launches_nothing(
    bench: Story, tmp_path: Path
) -> None:
    """1. The folder is made, and the engine dies. 2. The next one answers the stop, since nothing
    runs. 3. Only now does the supervisor come.
    """
    bench.job("a", "touch", str(tmp_path / "ran"))
    bench.folders.make("a", 1, action=0)
    await adopt(bench, row("a", Phase.STOPPING, action=1))
    assert await bench.event() == JobStopped("a", 1, 0.0)
    await bench.order(Start(0, "a", on(0)))
    assert isinstance(await bench.event(), JobStopped)
    assert not (tmp_path / "ran").exists()


@telling()
async def test_a_mark_without_a_supervisor_takes_no_device_from_the_job_that_runs(
    bench: Story,
) -> None:
    """1. A job runs on device 0. 2. A mark of an attempt that never began is there at a restart.
    3. The job has its device, also after the mark is gone."""
    bench.job("a", "sleep", "600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    bench.folders.make("99", 1, "abcd", action=7)
    await restart(bench)
    await adopt(bench, row("a", Phase.RUNNING, allocation=on(0)))
    await bench.until(lambda: bench.folders.live() == [AttemptId("a", 1)])
    assert bench.engine.view()[0].devices[0].jobs == ("a",)


@telling()
async def test_an_attempt_that_ends_frees_only_what_it_holds_and_blocks(
    bench: Story, tmp_path: Path
) -> None:
    """Three attempts are on one device, and two of them do not die."""
    machine = await bench.begin()
    holders = machine.holders
    first, second, third = (live(tmp_path, number) for number in (1, 2, 3))
    for each in (first, second, third):
        holders.hold(each)
    for each in (first, second):
        each.stuck = f"attempt {each.number} does not die"
        holders.undying(each)
    holders.free(third)
    assert holders.are_stuck(on(0)), "the third did not block it"
    holders.free(first)
    assert machine.view().devices[0].because == "attempt 2 does not die"
    assert holders.of(on(0)) == [second]
    holders.free(second)
    assert not holders.are_stuck(on(0))
    assert holders.of(on(0)) == []


def live(folder: Path, number: int) -> LiveAttempt:
    scope = RecordedScope(f"{folder}/processes.json")
    return LiveAttempt("a", number, action=0, allocation=on(0), folder=folder, tag="", scope=scope)
