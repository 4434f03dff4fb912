"""What the page shows of waiting jobs, of policies and of speeds is one truth, and came in time."""

from pathlib import Path

import pytest

from tests.unit.control.memory import HOME, ME, Bench, play, play_on
from treadle.control.learning import keys_of
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.models.learning.outcome import Outcome
from treadle.policies.registry import BUILT_IN
from treadle.wire.jobs import State


def measured(here: Bench, step_s: float, *, size: int = 1) -> None:
    """Another job of the same kind did steps."""
    keys = keys_of(ME.user, "", ("forever",), folder=HOME)
    outcome = Outcome(size, 100.0, step_s=step_s)
    here.live.context.learner.profiles.observe(keys, outcome)


def test_status_queue_and_decisions_count_the_same_jobs_as_waiting(tmp_path: Path) -> None:
    """Of an array of which one member may run, one runs. A user holds another job. One waits."""

    async def story(here: Bench) -> None:
        array = await here.submit("forever", array="0-3%1", tenant="lab")
        await here.reached(f"{array}_0", State.RUNNING)
        await here.submit("forever", held=True)
        await here.submit("forever", devices="2", tenant="shop")
        await here.settle()
        queue, status = await here.live.queue(), here.live.status()
        assert (status.waiting, status.held) == (4, 1)
        assert (queue.waiting, queue.held_back, len(queue.jobs)) == (4, 3, 1)
        assert {share.tenant: share.waiting for share in queue.shares} == {"lab": 3, "shop": 1}
        # The next member starts, and the one after it is let through to nothing.
        await here.live.cancel(ME, f"{array}_0")
        await here.reached(f"{array}_1", State.RUNNING)
        await here.settle()
        while here.live.decisions().decisions[-1].changes[-1].job != f"{array}_1":
            await here.settle()
        assert here.live.decisions().decisions[-1].waiting == here.live.status().waiting == 3

    play(story, tmp_path, devices=2, policy="fifo")


def test_a_decision_has_the_names_of_its_jobs(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", name="called so")
        await here.reached(job, State.RUNNING)
        await here.live.cancel(ME, job)
        await here.reached(job, State.CANCELLED)
        while not (made := here.live.decisions().decisions):
            await here.settle()
        assert [(each.job, each.name) for each in made[0].changes] == [(job, "called so")]

    play(story, tmp_path)


def test_every_policy_is_offered(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        offered = here.live.policy().offered
        assert offered[: len(BUILT_IN)] == tuple(BUILT_IN)

    play(story, tmp_path)


def test_a_speed_is_predicted_from_others_and_stays_what_it_was(tmp_path: Path) -> None:
    """1. Others of its kind did 4 steps a second. 2. A job starts. 3. What its kind is known to do
    changes afterwards, and the daemon begins anew: the prediction is still that of its start."""
    world = MemoryWorld.of(Node("here", 2, "none"))

    async def starts(here: Bench) -> None:
        measured(here, 0.25)
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        for _ in range(20):
            measured(here, 2.0)
        found = await here.live.job_history(job)
        assert found.predicted_per_s == pytest.approx(4.0)
        assert found.predicted_size == 1

    async def goes_on(here: Bench) -> None:
        found = await here.live.job_history("1")
        assert found.predicted_per_s == pytest.approx(4.0)
        assert found.predicted_size == 1

    play_on(world, starts, tmp_path)
    play_on(world, goes_on, tmp_path)


def test_nothing_is_predicted_of_a_job_whose_kind_never_ran(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        measured(here, 0.25)
        assert (await here.live.job_history(job)).predicted_per_s is None

    play(story, tmp_path)


def test_a_job_that_is_started_again_keeps_the_prediction_of_its_first_start(
    tmp_path: Path,
) -> None:
    """Its own first attempt has taught its kind by then: to predict from that would be circular."""

    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="1..2", resumable=True)
        await here.reached(job, State.RUNNING)
        measured(here, 0.25)
        other = await here.submit("forever", priority=5)
        await here.reached(other, State.RUNNING)
        await here.reached(job, State.RUNNING)
        await here.settle()
        record = here.live.context.jobs.records[job]
        assert record.starts == 2
        assert (record.predicted_per_s, record.predicted_size) == (None, 2)

    play(story, tmp_path, devices=2, policy="afs")
