"""Attempts that run and that a controller does not know, as after its store was restored."""

import pytest
from tests.engines.fleet_story import FleetStory, spread, telling

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.testing.engine_bench import row

STUBBORN = ("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
HERE, THERE = spread("n0"), spread("n1")


async def stray_runs(bench: FleetStory) -> None:
    bench.job("a", *STUBBORN, grace_s=1.0)
    await bench.order(Start(0, "a", THERE))
    await bench.started("a", 0)
    await bench.crash()


def held(bench: FleetStory) -> dict[str, tuple[str, ...]]:
    views = [device for view in bench.engine.view() for device in view.devices]
    return {view.name: view.jobs for view in views if view.jobs}


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.RUNNING, Phase.STARTING])
@telling()
async def test_nothing_of_a_job_is_launched_before_a_stray_of_it_is_over(
    bench: FleetStory, phase
) -> None:
    await stray_runs(bench)
    waits = phase is Phase.WAITING
    known = row("a", phase, None if waits else HERE, action=5, attempt=5)
    forgotten = [] if waits else [AttemptId("a", 1, "of the backup")]
    await bench.engine.adopt([known], forgotten)
    assert held(bench) == {"n1:0": ("a",)}
    (stuck,) = {text for view in bench.engine.view() for text in view.stuck.values()}
    assert "on n1, which this daemon does not know" in stuck
    action = 5
    if waits:
        action = 6
        await bench.order(Start(6, "a", HERE))
    await bench.until(lambda: "n0" in bench.runs_on("a"))
    assert bench.runs_on("a") == {"n0"}, "the stray was over before"
    await bench.started("a", action)
    assert bench.count(AttemptEnded, "a") == 0 or not waits
    assert held(bench) == {"n0:0": ("a",)}


@telling()
async def test_a_stop_is_answered_when_a_stray_is_over(bench: FleetStory) -> None:
    await stray_runs(bench)
    await bench.engine.adopt([row("a", Phase.STOPPING, HERE, action=5, attempt=4)], [])
    end = await bench.ended("a", 5)
    assert (end.how, end.attempt) == (How.STOPPED, 0)
    assert bench.runs_on("a") == set()


@telling()
async def test_a_stray_of_a_job_that_is_not_known_is_stopped_without_a_word(
    bench: FleetStory,
) -> None:
    await stray_runs(bench)
    await bench.engine.adopt([], [])
    await bench.until(lambda: not bench.runs_on("a"))
    await bench.until(lambda: not bench.engine.courses)
    assert bench.count(AttemptEnded, "a") == 0
