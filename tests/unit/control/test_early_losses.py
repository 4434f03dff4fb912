"""Attempts that are lost within seconds of their start: a pause that grows, and is not charged."""

import pytest

from tests.unit.control.memory import Bench, playing
from treadle.control.jobs.refusals import LOST, MACHINE
from treadle.core.attempt import How
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
    return MACHINE in here.live.context.scheduler.blocked.get(job, ())


def wait_is_over(here: Bench) -> None:
    context = here.live.context
    context.inbox.tell(*context.gates.refusals.over(context.clock.now() + FAR_S))


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
            assert here.state(job) is State.PENDING, "no user holds it"
            assert here.live.status().held == 0
            why = await here.live.why(job)
            assert (why.code, LOST in str(why.numbers["because"])) == ("launch", True)
            assert why.numbers["in_s"] == pytest.approx(expected_s, abs=expected_s / 2)
        wait_is_over(here)
    await here.reached(job, State.RUNNING)
    record = here.live.context.jobs.records[job]
    assert (record.attempts, record.failures) == (10, 0), "no retry is used up"


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
