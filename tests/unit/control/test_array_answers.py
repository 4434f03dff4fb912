"""`why` of an array: what it says is as sure as what it rests on, and is about the right array."""

import pytest

from tests.unit.control.memory import ME, Bench, playing
from tests.unit.control.test_estimates import teach
from treadle.cli.live.why import why_text
from treadle.control.jobs import ARRAY, USER
from treadle.core.events import JobHeld, JobReleased
from treadle.wire.jobs import Estimate, JobRequest, State, Why
from treadle.wire.problems import NotFoundError


def end_of(why: Why) -> Estimate:
    assert why.end is not None
    return why.end


@playing(devices=2, policy="afs")
async def test_the_end_of_an_array_beside_a_job_of_unknown_length_is_a_bound(here: Bench) -> None:
    """Four jobs of 100 s have one device to themselves; the other may come free at any time."""
    teach(here, "m", *[100.0] * 5)
    await here.runs()
    array = await here.submit("forever", model="m", array="0-3")
    await here.settle()
    why = await here.live.why(array)
    end = end_of(why)
    assert (end.low_s, end.coverage, end.known) == (None, None, False)
    assert end.high_s is not None
    assert 300.0 < end.high_s < 600.0
    assert why.estimate is not None
    assert why.estimate.sentence == end.because, "its start and its end say the same"


@playing(devices=1)
async def test_the_end_of_an_array_behind_a_job_of_unknown_length_is_unknown(here: Bench) -> None:
    teach(here, "m", *[100.0] * 5)
    first = await here.runs()
    array = await here.submit("forever", model="m", array="0-3")
    await here.settle()
    end = end_of(await here.live.why(array))
    assert (end.low_s, end.high_s, end.known) == (None, None, False)
    assert f"job {first}" in end.because


@playing(devices=8, policy="afs")
async def test_the_end_of_a_large_array_of_known_jobs_does_not_call_them_unknown(
    here: Bench,
) -> None:
    teach(here, "m", *[100.0] * 5)
    array = await here.submit("forever", model="m", array="0-2499%4")
    await here.settle()
    why = await here.live.why(array)
    assert "nothing is known" not in end_of(why).because
    assert "unknown" not in end_of(why).because


@playing()
async def test_a_member_that_is_next_once_the_limit_is_free_ends_its_sentence(here: Bench) -> None:
    """Both members are behind the limit of their array: the one before them has just ended."""
    array = await here.submit("forever", array="0-1%1", held=True)
    await here.settle()
    context = here.live.context
    blocked = [JobHeld(f"{array}_{member}", ARRAY) for member in (0, 1)]
    freed = [JobReleased(f"{array}_{member}", USER) for member in (0, 1)]
    context.scheduler.take([*blocked, *freed], context.clock.now())
    why = await here.live.why(f"{array}_0")
    assert why.code == "array"
    assert why.numbers == {"array": array, "limit": 1, "running": 0, "held": (), "before": 0}


@playing()
async def test_the_head_of_an_array_says_how_many_jobs_are_left(here: Bench) -> None:
    """1. One of three was cancelled. 2. All were."""
    array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-2"))
    await here.settle()
    await here.live.cancel(ME, array.jobs[0])
    await here.reached(array.jobs[0], State.CANCELLED)
    await here.settle()
    left = why_text(await here.live.why(array.id), width=80)
    assert left.startswith(f"array {array.id} (2 jobs left): ")
    await here.live.cancel(ME, array.id)
    for job in array.jobs:
        await here.reached(job, State.CANCELLED)
    await here.settle()
    over = why_text(await here.live.why(array.id), width=80)
    assert over.startswith(f"array {array.id} (3 jobs): ")


async def cancelled(here: Bench, word: str, *jobs: str) -> None:
    await here.live.cancel(ME, word)
    for job in jobs:
        await here.reached(job, State.CANCELLED)
    await here.settle()


@playing()
async def test_an_ended_array_is_found_by_its_name(here: Bench) -> None:
    """1. A single job, then an array of the same name end: the newer one counts. 2. Job ids."""
    single = await here.runs(name="sweep")
    await cancelled(here, single, single)
    request = JobRequest(command=("forever",), name="sweep", array="0-1")
    array = await here.live.submit(ME, request)
    await cancelled(here, array.id, *array.jobs)
    for word in (array.id, "sweep"):
        why = await here.live.why(word)
        assert (why.id, why.sentence, why.members) == (array.id, "2 cancelled", 2)
    for job in (single, *array.jobs):
        assert (await here.live.why(job)).id == job
    with pytest.raises(NotFoundError, match="there is no job 'other'"):
        await here.live.why("other")
