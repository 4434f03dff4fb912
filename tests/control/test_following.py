"""What follows from a fact is taken in before anything is decided on it."""

from tests.control.asking import engine_of, events_of, runs, telling_in_memory
from tests.control.living import ME, bash, ended
from treadle.control.api import LiveService


@telling_in_memory(slots=2)
async def test_a_dependant_of_higher_priority_is_not_overtaken_by_a_lower_one(
    live: LiveService,
) -> None:
    """1. `first` runs on one of two slots. 2. `high` is to start after it. 3. `low`, which cannot
    be stopped once it runs, wants both slots. 4. `first` ends: `high` starts, `low` after it."""
    first = await runs(live)
    high = (await live.submit(ME, bash("true", after=(first,), priority=10))).id
    low = (await live.submit(ME, bash("true", devices="2", priority=-10))).id
    engine_of(live).finish(first)
    await ended(live, first, high, low)
    starts = await events_of(live, kind="Start")
    assert [event.job for event in starts] == [first, high, low]


@telling_in_memory(slots=2)
async def test_members_of_a_limited_array_keep_their_priority(live: LiveService) -> None:
    array = await live.submit(ME, bash("sleep 0.1", array="0-2%1", priority=5))
    low = (await live.submit(ME, bash("true", devices="2"))).id
    await ended(live, *array.jobs, low)
    starts = await events_of(live, kind="Start")
    assert [event.job for event in starts] == [*array.jobs, low]
