"""Attempts on this machine are frozen and go on: trees of processes, limits of time, kills."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.engines.bench import agent_of
from tests.engines.test_local_contract import LocalBench

from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Pause
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, JobPaused, JobStarted
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.node.cgroup import Containment
from treadle.engines.node.processes import stat_of
from treadle.testing.engine_bench import HERE, row

FROZEN, SUSPENDED = HERE.as_paused(Pause.FROZEN), HERE.as_paused(Pause.SUSPENDED)
STILL = {b"T", b"t", b"D"}
# A tree that forks all the time, in process groups of its own too.
TREE = "set -m; (while true; do sleep 0.01; done) & while true; do (true); done"


def play(tmp_path: Path, story: Callable[[LocalBench], Awaitable[None]], **commands: str) -> None:
    async def run() -> None:
        bench = LocalBench(tmp_path)
        words = {name: ("bash", "-c", text) for name, text in commands.items()}
        bench.controls.commands = {**bench.controls.commands, **words}
        try:
            await asyncio.wait_for(story(bench), 60.0)
        finally:
            await bench.clear_away()

    asyncio.run(run())


async def paused(bench: LocalBench, action: int) -> JobPaused:
    fact = await bench.fact(lambda fact: isinstance(fact, JobPaused) and fact.action == action)
    assert isinstance(fact, JobPaused)
    return fact


def live(bench: LocalBench) -> LiveAttempt:
    session = agent_of(bench.engine).session
    assert session is not None
    (found,) = [run.live for run in session.machine.runs.values() if run.job == "tree"]
    assert found is not None
    return found


def moving(attempt: LiveAttempt) -> set[int]:
    """Processes of it that may compute."""
    states = {pid: stat_of(pid) for pid in attempt.scope.pids()}
    assert states
    return {pid for pid, fields in states.items() if fields and fields[0] not in STILL}


@pytest.mark.parametrize("grouped", [True, False])
def test_nothing_of_a_frozen_tree_moves(
    grouped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a group of the kernel's, and where it has none."""
    if not grouped:
        init = Containment.__init__
        monkeypatch.setattr(Containment, "__init__", lambda self, _: init(self, None))

    async def story(bench: LocalBench) -> None:
        await bench.order(Start(0, "tree", HERE))
        await bench.started("tree", 0)
        for number in range(1, 6):
            await bench.order(Change(2 * number, "tree", FROZEN))
            await paused(bench, 2 * number)
            if live(bench).scope.kind != "cgroup v2":  # There, it is the group that is frozen.
                assert moving(live(bench)) == set()
            await bench.order(Change(2 * number + 1, "tree", HERE))
            assert (await bench.started("tree", 2 * number + 1)).attempt == 1
        assert bench.ends("tree") == []

    play(tmp_path, story, tree=TREE)


def test_what_somebody_else_lets_go_on_while_it_is_paused_is_stopped_again(tmp_path: Path) -> None:
    async def story(bench: LocalBench) -> None:
        await bench.order(Start(0, "tree", HERE))
        await bench.started("tree", 0)
        await bench.order(Change(1, "tree", FROZEN))
        await paused(bench, 1)
        for pid in live(bench).scope.pids():
            os.kill(pid, signal.SIGCONT)
        if live(bench).scope.kind != "cgroup v2":
            assert moving(live(bench))
            while moving(live(bench)):
                await asyncio.sleep(0.01)
        await bench.order(Change(2, "tree", HERE))
        assert (await bench.started("tree", 2)).attempt == 1
        assert bench.ends("tree") == []

    play(tmp_path, story, tree=TREE)


def test_time_in_which_a_job_is_paused_counts_in_no_limit(tmp_path: Path) -> None:
    """1. It may run for one second, and is paused. 2. Another job runs for two. 3. It goes on."""

    async def story(bench: LocalBench) -> None:
        bench.controls.time_limit_s = 1.0
        await bench.order(Start(0, "tree", HERE))
        await bench.started("tree", 0)
        await bench.order(Change(1, "tree", FROZEN))
        await paused(bench, 1)
        bench.controls.time_limit_s = None
        await bench.order(Start(2, "two", HERE))
        await bench.end("two", 2)
        assert bench.ends("tree") == []
        await bench.order(Change(3, "tree", HERE))
        await bench.started("tree", 3)
        end = await bench.end("tree", 3)
        assert isinstance(end, AttemptEnded)
        assert end.how is How.TIME_LIMIT
        assert end.ran_s is not None
        assert 1.0 <= end.ran_s < 2.0

    play(tmp_path, story, tree="while true; do sleep 0.05; done", two="sleep 2")


def test_a_paused_job_that_is_stopped_hears_the_signal_and_has_its_grace(tmp_path: Path) -> None:
    async def story(bench: LocalBench) -> None:
        await bench.order(Start(0, "tree", HERE))
        await bench.text(AttemptId("tree", 1), 0, b"ready")
        await bench.order(Change(1, "tree", FROZEN))
        await paused(bench, 1)
        await bench.order(Stop(2, "tree"))
        await bench.end("tree", 2)
        assert b"saved" in await bench.text(AttemptId("tree", 1), 0, b"saved")

    trap = "trap 'echo saved; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    play(tmp_path, story, tree=trap)


@pytest.mark.parametrize("whom", ["rank", "supervisor"])
def test_a_paused_job_of_which_a_process_is_killed_has_ended(whom: str, tmp_path: Path) -> None:
    async def story(bench: LocalBench) -> None:
        await bench.order(Start(0, "tree", HERE))
        await bench.started("tree", 0)
        await bench.order(Change(1, "tree", FROZEN))
        await paused(bench, 1)
        process, scope = live(bench).process, live(bench).scope
        assert process is not None
        os.kill(process.pid if whom == "supervisor" else min(scope.pids()), signal.SIGKILL)
        end = await bench.end("tree", 1)
        assert isinstance(end, AttemptEnded)
        assert (end.how, end.code) == (How.LOST if whom == "supervisor" else How.EXITED, 137)
        assert scope.pids() == []

    play(tmp_path, story, tree=TREE)


def test_what_a_job_cannot_do_leaves_it_as_it_was(tmp_path: Path) -> None:
    """1. CPU slots have no memory to move: it runs on. 2. It is frozen, and the same again."""

    async def story(bench: LocalBench) -> None:
        await bench.order(Start(0, "tree", HERE))
        assert (await bench.started("tree", 0)).pauses == (Pause.FROZEN,)
        await bench.order(Change(1, "tree", SUSPENDED))
        answer = await bench.started("tree", 1)
        assert (bool(answer.refused), answer.pauses) == (True, (Pause.FROZEN,))
        assert bench.held() == {"tree"}
        await bench.order(Change(2, "tree", FROZEN))
        await paused(bench, 2)
        await bench.order(Change(3, "tree", SUSPENDED))
        again = await paused(bench, 3)
        assert (again.how, bool(again.refused)) == (Pause.FROZEN, True)

    play(tmp_path, story, tree=TREE)


def test_an_order_that_was_refused_is_answered_again_after_a_crash(tmp_path: Path) -> None:
    async def story(bench: LocalBench) -> None:
        await bench.order(Start(0, "tree", HERE))
        await bench.started("tree", 0)
        await bench.order(Change(1, "tree", SUSPENDED))
        await bench.started("tree", 1)
        await bench.crash()
        before = row("tree", Phase.STARTING, SUSPENDED, action=1)
        await bench.engine.adopt([before], [AttemptId("tree", 1)])
        fact = await bench.fact(lambda fact: isinstance(fact, JobStarted) and fact.action == 1)
        assert isinstance(fact, JobStarted)
        assert fact.attempt == 1
        assert bench.held() == {"tree"}

    play(tmp_path, story, tree=TREE)
