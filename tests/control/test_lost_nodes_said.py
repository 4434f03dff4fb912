"""What people are told when nodes are lost: `why`, events, details and output."""

import asyncio

import pytest

from tests.control.asking import events_of, looked_at, runs
from tests.control.living import ME, stopped_and_held, until
from tests.control.on_fleet import nodes_of, said, telling_on_fleet
from tests.engines.fleet_world import FleetWorld
from treadle.control.api import LiveService
from treadle.wire.jobs import State
from treadle.wire.problems import LostOutputError, UnavailableError

OVER = "it started from the beginning: its checkpoints are on {}, lost before"


async def lost(live: LiveService, world: FleetWorld, *names: str) -> None:
    for name in names:
        world.cut(name)
    await looked_at(live)


@telling_on_fleet()
async def test_a_job_whose_node_left_says_so_while_that_may_still_run_it(
    live: LiveService, world: FleetWorld
) -> None:
    """1. A job of one node, which is not resumable, and a gang of two. 2. A node of each leaves.
    3. Both run again when that has lasted too long. 4. The nodes return, and nothing more is said
    of what they had."""
    gang = await runs(live, "echo ready; exec sleep 60", devices="4", resumable=True)
    one = await runs(live, "echo ready; exec sleep 60")
    await said(live, one, "ready")
    (own,), spread = await nodes_of(live, one), await nodes_of(live, gang)
    (away,) = [name for name in world.links if name in spread][-1:]
    await lost(live, world, own, away)
    for job, name in ((one, own), (gang, away)):
        view = (await live.job(job)).job
        assert view.state is State.RUNNING
        assert name in dict((await live.why(job)).details)["stuck"]
    await live.cancel(ME, gang)
    await until(live, State.CANCELLED, jobs=(gang,))
    await until(live, State.RUNNING, jobs=(one,))
    assert (await live.job(one)).job.attempts == 2
    with pytest.raises(LostOutputError) as refused:
        await live.log(one, attempt=1)
    assert str(refused.value) == (
        f"the output of attempt 1 of job {one} is on node {own}, which is lost"
    )
    world.mend(own)
    world.mend(away)
    while "ready" not in (await _text(live, one)):
        await asyncio.sleep(0.01)
    for job in (one, gang):
        assert not [e for e in await events_of(live, job) if "was replaced" in e.text]


async def _text(live: LiveService, job: str) -> str:
    """Of the first attempt, once its node is there."""
    try:
        return (await live.log(job, attempt=1)).text
    except (LostOutputError, UnavailableError):
        return ""


@telling_on_fleet(policy="afs")
async def test_a_job_that_is_resized_after_a_loss_says_what_it_waits_for(
    live: LiveService, world: FleetWorld
) -> None:
    """It is given other devices at once, and nothing of it may run twice."""
    job = await runs(live, "exec sleep 60", devices="1..6", resumable=True)
    await until_size(live, job, 6)
    await lost(live, world, "n2")
    seen = set()
    while len((view := (await live.job(job)).job).devices) != 4:
        seen.add((view.cause, str(dict((await live.why(job)).details).get("stuck"))))
        await asyncio.sleep(0.005)
    assert [each for each in seen if "n2" in each[1]], seen
    assert not [each for each in seen if each[0] == "preempted"], seen


async def until_size(live: LiveService, job: str, size: int) -> None:
    while len((view := (await live.job(job)).job).devices) != size or view.state != State.RUNNING:
        await asyncio.sleep(0.01)


async def until_attempt(live: LiveService, job: str, number: int) -> None:
    while (view := (await live.job(job)).job).attempts != number or view.state != State.RUNNING:
        await asyncio.sleep(0.01)


@telling_on_fleet(("n0", "n1"), apart=True)
async def test_a_job_that_starts_over_after_a_loss_says_so(
    live: LiveService, world: FleetWorld
) -> None:
    """1. The node of its only checkpoints is lost while it waits. 2. It says so, and starts."""
    job = await runs(live, "exec sleep 60", resumable=True)
    (home,) = await nodes_of(live, job)
    await stopped_and_held(live, job, "4")
    await lost(live, world, home)
    assert (await live.why(job)).code == "held"
    said = dict((await live.why(job)).details)["checkpoints"]
    assert said == f"its checkpoints are on {home}, which was lost: it starts from the beginning"
    await live.release(ME, job)
    await until_attempt(live, job, 2)
    assert await nodes_of(live, job) != {home}
    assert [run.fallback for run in (await live.job(job)).attempts] == ["", OVER.format(home)]
