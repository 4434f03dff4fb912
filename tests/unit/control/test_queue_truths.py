"""What the queue says of quotas, places, starts and free devices is what `why` says."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from treadle.wire.jobs import State


@pytest.mark.parametrize(
    ("policy", "deserved"),
    [
        ("philly?quotas=lab:3/shop:1", {"lab": 3.0, "shop": 1.0}),
        ("philly", {"lab": 4.0}),
        ("weave-l?quotas=lab:3/shop:1+defrag", {"lab": 3.0, "shop": 1.0}),
        ("weave?quotas=lab:3/shop:1", {"lab": 3.0, "shop": 1.0}),
        ("rubick?quotas=lab:2", {"lab": 2.0}),
        ("antman?quotas=lab:2", {"lab": 2.0}),
        ("antman", {"lab": None}),
        ("fifo", {"lab": None}),
    ],
)
def test_the_quotas_of_every_policy_that_has_some_are_shown(
    tmp_path: Path, policy: str, deserved: dict[str, float | None]
) -> None:
    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever", tenant="lab"), State.RUNNING)
        shares = (await here.live.queue()).shares
        assert {share.tenant: share.deserved for share in shares} == deserved

    play(story, tmp_path, policy=policy)


def test_a_device_that_is_avoided_and_idle_is_not_said_to_be_taken(tmp_path: Path) -> None:
    """One device is taken and one avoided. One job waits for the first, one for both."""

    async def story(here: Bench) -> None:
        await here.live.manage(ME, "here:1", "avoid")
        await here.settle()
        await here.reached(await here.submit("forever"), State.RUNNING)
        both = await here.submit("forever", devices="2")
        await here.settle()
        queue = await here.live.queue()
        assert (queue.fragmentation.free, queue.jobs[0].cause) == (0, "closed")
        why = await here.live.why(both)
        assert (why.numbers["asked"], why.numbers["open"]) == (2, 1)
        assert why.sentence == queue.jobs[0].because

    play(story, tmp_path, devices=2)


def test_a_place_is_the_same_in_the_queue_in_the_list_and_in_why(tmp_path: Path) -> None:
    """The first in line asks for both devices, and the second one is expected to start earlier."""

    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever", estimate_s=100), State.RUNNING)
        await here.submit("forever", devices="2", estimate_s=10)
        small = await here.submit("forever", time_limit_s=20, estimate_s=5)
        urgent = await here.submit("forever", devices="2", priority=1, estimate_s=10)
        await here.settle()
        listed = [(each.job, each.place) for each in (await here.live.queue()).jobs]
        whys = [((await here.live.why(job)).id, place) for job, place in listed]
        assert listed[0] == (urgent, 1)
        assert small in dict(listed)
        assert whys == listed
        assert [(await here.live.why(job)).position for job, _ in listed] == [1, 2, 3][
            : len(listed)
        ]

    play(story, tmp_path, devices=2, policy="fifo")


def test_a_start_that_cannot_be_known_says_why_as_why_does(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        first = await here.submit("forever")
        await here.reached(first, State.RUNNING)
        job = await here.submit("forever")
        await here.settle()
        [queued] = (await here.live.queue()).jobs
        asked = (await here.live.why(job)).estimate
        assert queued.start is not None
        assert asked is not None
        assert queued.start.unknown == asked.unknown == (first,)

    play(story, tmp_path, devices=1)


def test_all_members_before_one_that_waits_for_a_limit_are_counted(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        array = await here.submit("forever", array="0-9%2")
        await here.reached(f"{array}_1", State.RUNNING)
        await here.settle()
        limit = {"array": array, "limit": 2, "running": 2}
        assert (await here.live.why(f"{array}_9")).numbers == {**limit, "before": 7}
        listed = {each.id: each.numbers for each in (await here.live.jobs()).jobs}
        assert listed[f"{array}_9"] == limit, "a list does not look at all members"

    play(story, tmp_path)
