"""Sentences about jobs that users found untrue or hard to read, each in the state that they saw."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from tests.unit.control.test_estimates import teach
from treadle.wire.jobs import Report, State
from treadle.wire.problems import InvalidRequestError


def test_u14_a_gang_waits_for_named_jobs_that_free_enough_devices(tmp_path: Path) -> None:
    """Three jobs of one device run; a gang of two waits for the two that end first."""

    async def story(here: Bench) -> None:
        for model, length_s in (("a", 900.0), ("b", 300.0), ("c", 600.0)):
            teach(here, model, *[length_s] * 5)
            await here.reached(await here.submit("forever", model=model), State.RUNNING)
        one = await here.submit("forever", model="b")
        await here.settle()
        change = (await here.live.why(one)).change
        assert change == "wait: job 2 is expected to end in about 5 min, which frees 1 device"
        gang = await here.submit("forever", model="b", devices="2", priority=10)
        await here.settle()
        change = (await here.live.why(gang)).change
        assert change == (
            "wait: jobs 2, 3 are expected to end within about 10 min, which frees 2 devices"
        )

    play(story, tmp_path, devices=3)


def test_u14_a_gang_that_was_overtaken_often_enough_is_not_said_to_need_more(
    tmp_path: Path,
) -> None:
    """Four jobs may overtake a gang on two devices, and four did."""

    async def story(here: Bench) -> None:
        stays = await here.submit("forever")
        await here.reached(stays, State.RUNNING)
        gang = await here.submit("forever", devices="2")
        for _ in range(3):
            small = await here.submit("quick")
            await here.reached(small, State.SUCCEEDED)
        await here.reached(await here.submit("forever"), State.RUNNING)
        await here.settle()
        assert (await here.live.why(gang)).reservation == (
            "it was overtaken 4 times; devices are kept for it from the next decision on"
        )

    play(story, tmp_path, devices=2, policy="afs")


@pytest.mark.parametrize("name", ["step", "total", "checkpoint"])
def test_u14_a_report_that_is_refused_says_which_numbers_are_taken(
    name: str, tmp_path: Path
) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        said = {"step": 1.0, name: 1e16}
        expected = rf"{name} is 1e\+16; expected a number from 0 to 1e\+15"
        with pytest.raises(InvalidRequestError, match=expected):
            await here.live.report(ME, job, Report(**said))

    play(story, tmp_path, devices=1)


def test_u14_jobs_that_start_at_the_same_moment_have_places_of_their_own(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        teach(here, "", *[1000.0] * 5)
        await here.reached(await here.submit("forever", devices="2"), State.RUNNING)
        behind = [await here.submit("forever") for _ in range(3)]
        await here.settle()
        answers = [await here.live.why(job) for job in behind]
        assert [answer.position for answer in answers] == [1, 2, 3]
        assert [answer.estimate and answer.estimate.orders for answer in answers] == [
            (1, 1),
            (2, 2),
            (3, 3),
        ]

    play(story, tmp_path, devices=2)
