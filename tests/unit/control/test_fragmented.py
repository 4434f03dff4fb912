"""Device-hours that stood free only because of where the devices are, by day."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.telling import told_by
from tests.unit.control.memory import ME, Bench, play_on
from treadle.control.api.fragmented import ASK_EVERY_S, STOOD_STILL_S, Fragmented
from treadle.control.api.usage_days import DAY_S, date_of, usage_days
from treadle.control.loop import wall
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.store.rows import Batch
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import State

NOON = 20_000 * DAY_S + DAY_S / 2
NOON_DAY, NEXT_DAY = date_of(20_000), date_of(20_001)


class Counting:
    """What counts, with a clock that is moved by hand."""

    def __init__(self, here: Bench, *, now: float = 0.0, wall_at: float = NOON) -> None:
        self.clock = ManualClock(now)
        context = replace(here.live.context, clock=self.clock)
        ahead_s = wall_at - now
        self.sums = Fragmented(context, lambda: ahead_s + self.clock.now())

    def look(self) -> None:
        self.sums.look()

    def pass_s(self, seconds: float) -> None:
        """Looks at least as often as the policy may be asked."""
        end = self.clock.now() + seconds
        while (now := self.clock.now()) < end:
            self.clock.advance(min(end, now + ASK_EVERY_S))
            self.look()

    def device_s(self, day: str = NOON_DAY) -> float:
        return 3600.0 * self.sums.hours()[day]


Story = Callable[[Bench, Counting], Awaitable[None]]


def nodes_of_two(count: int = 2) -> MemoryWorld:
    return MemoryWorld.of(*(Node(f"n{number}", 2, "none") for number in range(count)))


async def one_taken_on_each(here: Bench) -> list[str]:
    """Jobs of one device, one on each node of two."""
    rows, count = here.live.context.scheduler.jobs, len(here.world.nodes)
    jobs = [await here.submit("forever") for _ in range(2 * count - 1)]
    for job in jobs:
        await here.reached(job, State.RUNNING)
    for job in jobs[1::2]:
        await here.live.cancel(ME, job)
        await here.reached(job, State.CANCELLED)
    held = [rows[job].allocation for job in jobs[::2]]
    nodes = [allocation.nodes() for allocation in held if allocation is not None]
    assert nodes == [(f"n{number}",) for number in range(count)]
    return jobs[::2]


def counted(story: Story, root: Path, *, policy: str = "backfill", nodes: int = 2) -> None:
    async def whole(here: Bench) -> None:
        await story(here, Counting(here))

    play_on(nodes_of_two(nodes), whole, root, policy=policy)


counting_gangs = told_by(counted, gives=2)


@counting_gangs()
async def test_two_devices_apart_count_while_a_gang_of_two_waits(
    here: Bench, counting: Counting
) -> None:
    first, _ = await one_taken_on_each(here)
    counting.pass_s(40.0)
    assert counting.device_s() == 0.0, "nobody waits"
    gang = await here.submit("forever", devices="2")
    await here.settle()
    assert here.live.context.scheduler.why(gang, 0.0).code == "fragmentation"
    counting.pass_s(ASK_EVERY_S)
    counting.pass_s(3600.0)
    assert counting.device_s() == pytest.approx(2 * 3600.0)
    await here.live.cancel(ME, first)
    await here.reached(gang, State.RUNNING)
    counting.look()
    counting.pass_s(600.0)
    assert counting.device_s() == pytest.approx(2 * 3600.0), "the gang runs"


@counting_gangs()
async def test_it_counts_until_the_job_waits_no_more_and_not_until_the_next_question(
    here: Bench, counting: Counting
) -> None:
    await one_taken_on_each(here)
    gang = await here.submit("forever", devices="2")
    await here.settle()
    counting.look()
    counting.clock.advance(3.0)
    await here.live.cancel(ME, gang)
    await here.settle()
    counting.look()
    counting.pass_s(60.0)
    assert counting.device_s() == pytest.approx(2 * 3.0)


@counting_gangs()
async def test_too_few_devices_are_not_fragmented_ones(here: Bench, counting: Counting) -> None:
    await one_taken_on_each(here)
    await here.submit("forever", devices="4")
    await here.settle()
    counting.look()
    counting.pass_s(60.0)
    assert counting.device_s() == 0.0


@counting_gangs()
async def test_midnight_parts_the_sum(here: Bench, counting: Counting) -> None:
    await one_taken_on_each(here)
    await here.submit("forever", devices="2")
    await here.settle()
    late = Counting(here, wall_at=NOON + DAY_S / 2 - 4.0)
    late.look()
    late.pass_s(20.0)
    assert late.device_s(NOON_DAY) == pytest.approx(2 * 4.0)
    assert late.device_s(NEXT_DAY) == pytest.approx(2 * 16.0)


@counting_gangs()
async def test_a_daemon_that_stood_still_counts_nothing_of_that(
    here: Bench, counting: Counting
) -> None:
    await one_taken_on_each(here)
    await here.submit("forever", devices="2")
    await here.settle()
    counting.look()
    counting.pass_s(10.0)
    counting.clock.advance(10.0 + STOOD_STILL_S + 1.0)
    counting.look()
    counting.pass_s(10.0)
    assert counting.device_s() == pytest.approx(2 * 20.0)


@counting_gangs()
async def test_the_next_daemon_goes_on_and_what_is_between_them_is_not_counted(
    here: Bench, counting: Counting
) -> None:
    await one_taken_on_each(here)
    await here.submit("forever", devices="2")
    await here.settle()
    counting.look()
    counting.pass_s(60.0)
    counting.sums.close()
    settings = counting.sums.unwritten(60.0, last=True)
    await here.live.context.commit.write(Batch(settings=settings))
    later = Counting(here, now=3660.0, wall_at=NOON + 3660.0)
    assert later.device_s() == pytest.approx(2 * 60.0)
    later.look()
    later.pass_s(30.0)
    assert later.device_s() == pytest.approx(2 * 90.0)


@counting_gangs()
async def test_a_day_of_which_a_part_is_asked_for_is_not_known(
    here: Bench, counting: Counting
) -> None:
    now_at = wall()
    today = date_of(int(now_at // DAY_S))
    context, hours = here.live.context, {today: 3.0}
    await here.runs()

    async def asked(since: float, until: float | None) -> list[float | None]:
        found = await usage_days(context, hours, since, until)
        return [day.fragmented_h for day in found.days]

    assert (await asked(0.0, None))[-1] == 3.0
    assert (await asked(now_at - now_at % DAY_S, None))[-1] == 3.0
    assert (await asked(0.0, wall()))[-1] is None, "a moment ago"
    assert (await asked(now_at, None))[-1] is None
    assert (await usage_days(context, {}, 0.0, None)).days[-1].fragmented_h is None
