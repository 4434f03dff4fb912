"""An end that the supervisor did not write down: the engine does, and nothing runs there later."""

import asyncio

import pytest
from tests.engines.bench import Story, on, telling

from treadle.core.attempt import How
from treadle.core.launch import AttemptId
from treadle.engines.agent.end_facts import ended_of
from treadle.engines.agent.found import look
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.node import attempt_folders
from treadle.engines.node.scope import RecordedScope
from treadle.engines.node.supervisor_files import has_ended


def without_supervisor(bench: Story, *, failure: str = "", lacked: bool = False) -> LiveAttempt:
    """An attempt that was launched, and of whose supervisor nothing was heard."""
    folder = bench.folders.make("a", 1, action=0)
    live = LiveAttempt(
        "a",
        1,
        action=0,
        allocation=on(0),
        folder=folder,
        tag=bench.machine.groups.tag(AttemptId("a", 1)),
        scope=RecordedScope(f"{folder}/processes.json"),
    )
    live.failure, live.lacked = failure, lacked
    live.set_gone()
    return live


@telling()
async def test_an_attempt_that_a_late_supervisor_has_is_not_reported_as_over(bench: Story) -> None:
    """1. No supervisor was heard of. 2. One has its lock: it has not ended. 3. That one is gone
    without a word: now it has."""
    await bench.begin()
    live = without_supervisor(bench)
    with attempt_folders.locked(live.folder) as free:
        assert free
        assert await bench.machine.end_of(live) is None
        assert live.taken, "the runner then looks for its rival"
    assert await bench.machine.rival(live) is None
    ended = await bench.machine.end_of(live)
    assert ended is not None
    assert ended.how is How.LOST


@pytest.mark.parametrize(
    ("failure", "lacked", "how"),
    [
        ("the supervisor failed: a bug", False, How.ENGINE_ERROR),
        ("no process could be forked: no memory", True, How.MACHINE_ERROR),
        ("", False, How.LOST),
    ],
)
@telling()
async def test_an_end_reads_the_same_after_a_crash_before_its_report(
    bench: Story, failure: str, lacked: bool, how: How
) -> None:
    await bench.begin()
    live = without_supervisor(bench, failure=failure, lacked=lacked)
    ended = await bench.machine.end_of(live)
    again = ended_of(await asyncio.to_thread(look, bench.folders, live.id))
    assert ended is not None
    assert (ended.how, again.how, again.error) == (how, how, ended.error)


@telling()
async def test_an_attempt_that_no_job_knows_cannot_begin_after_it_was_given_up(
    bench: Story,
) -> None:
    """1. An engine dies while it launches. 2. The next one knows no such job: the mark goes, which
    says that nothing is left of it. 3. A supervisor that was only slow finds that it has ended.
    """
    await bench.begin()
    folder = without_supervisor(bench).folder
    await bench.engine.close()
    engine = bench.fresh_engine()
    await engine.adopt([])
    async with asyncio.timeout(20):
        while bench.folders.live():
            await asyncio.sleep(0.01)
    assert has_ended(str(folder), "", 0)
    await engine.close()
