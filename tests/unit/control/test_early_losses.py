"""Attempts that are lost within seconds of their start: a pause that grows, and is not charged."""

from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play_on, playing
from tests.unit.control.test_control_on_memory import rebuilt
from treadle.control.jobs import LOST
from treadle.core.attempt import How
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State

FAR_S = 1_000.0


async def lose(here: Bench, job: str) -> None:
    """Lose the attempt that runs, as a node whose lease has run out does."""
    await here.reached(job, State.RUNNING)
    while here.memory.world.live(job) is None:  # What the last one's end says is on its way.
        await here.settle()
    here.memory.finish(job, code=137, how=How.LOST)
    await here.settle()


def blocked(here: Bench, job: str) -> bool:
    return LOST in here.live.context.scheduler.blocked.get(job, ())


def wait_is_over(here: Bench, passed_s: float = FAR_S) -> None:
    context = here.live.context
    now = context.clock.now() + passed_s
    context.inbox.tell(*context.gates.losses.over(context.jobs.records, now))


def left_s(here: Bench, job: str) -> float:
    again_s = here.live.context.jobs.records[job].again_s
    assert again_s is not None
    return again_s - here.live.context.clock.now()


@playing()
async def test_the_second_loss_in_a_row_is_followed_by_a_pause_and_each_one_by_a_longer(
    here: Bench,
) -> None:
    job = await here.submit("forever", retries=0)
    await lose(here, job)
    await here.reached(job, State.RUNNING)  # At once, the first time.
    for expected_s in (1, 2, 4, 8, 16, 32, 60, 60):
        await lose(here, job)
        if expected_s >= 8:  # On a busy machine a shorter one may be over by now.
            assert blocked(here, job)
            assert here.state(job) is State.PENDING, "no user holds it"
            assert 0 <= expected_s - left_s(here, job) < expected_s / 2
        wait_is_over(here)
    await here.reached(job, State.RUNNING)
    record = here.live.context.jobs.records[job]
    assert (record.attempts, record.failures) == (10, 0), "no retry is used up"


@playing()
async def test_people_are_told_why_it_waits(here: Bench) -> None:
    job = await here.submit("forever")
    for _ in range(4):
        await lose(here, job)
        wait_is_over(here)
    await lose(here, job)
    why = await here.live.why(job)
    assert (why.code, why.numbers["attempts"]) == ("lost-early", 5)
    assert why.numbers["in_s"] == pytest.approx(8.0, abs=1.0)
    status = here.live.status()
    assert (status.waiting, status.held) == (1, 0)
    (listed,) = (await here.live.jobs()).jobs
    assert listed.cause == "lost-early"
    events = [event.text for event in (await here.live.events(limit=500)).events]
    assert any("were lost within seconds" in text for text in events)


@playing()
async def test_an_attempt_that_ended_otherwise_begins_the_count_anew(here: Bench) -> None:
    job = await here.submit("forever", retries=2)
    await lose(here, job)
    await here.reached(job, State.RUNNING)
    here.memory.finish(job, code=1)
    await here.settle()
    await lose(here, job)
    assert not blocked(here, job)
    await here.reached(job, State.RUNNING)


def test_a_restart_changes_neither_the_pause_nor_the_count(tmp_path: Path) -> None:
    """1. Six losses. 2. The daemon restarts: the job still waits. 3. Then it is lost again."""
    world = MemoryWorld.of(Node("here", 1, "none"))
    jobs: list[str] = []

    async def first(here: Bench) -> None:
        jobs.append(await here.submit("forever"))
        for _ in range(6):
            await lose(here, jobs[0])
            if here.live.context.jobs.records[jobs[0]].early_losses < 6:
                wait_is_over(here)

    async def second(here: Bench) -> None:
        await here.settle()
        assert blocked(here, jobs[0])
        assert 0 < left_s(here, jobs[0]) <= 16
        wait_is_over(here)
        await lose(here, jobs[0])
        assert 16 < left_s(here, jobs[0]) <= 32
        again = rebuilt(here)
        assert again.jobs.records == here.live.context.jobs.records
        assert again.scheduler.blocked[jobs[0]] == (LOST,)

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)
