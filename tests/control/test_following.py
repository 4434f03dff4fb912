"""What follows from a fact is taken in before anything is decided on it."""

from pathlib import Path

from tests.control.asking import engine_of, events_of, in_memory, runs
from tests.control.living import ME, bash, ended
from treadle.control.api import LiveService


def test_a_dependant_of_higher_priority_is_not_overtaken_by_a_lower_one(tmp_path: Path) -> None:
    """1. `first` runs on one of two slots. 2. `high` is to start after it. 3. `low`, which cannot
    be stopped once it runs, wants both slots. 4. `first` ends: `high` starts, `low` after it."""

    async def story(live: LiveService) -> None:
        first = await runs(live)
        high = (await live.submit(ME, bash("true", after=(first,), priority=10))).id
        low = (await live.submit(ME, bash("true", devices="2", priority=-10))).id
        engine_of(live).finish(first)
        await ended(live, first, high, low)
        starts = await events_of(live, kind="Start")
        assert [event.job for event in starts] == [first, high, low]

    in_memory(story, tmp_path, slots=2)


def test_members_of_a_limited_array_keep_their_priority(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        array = await live.submit(ME, bash("sleep 0.1", array="0-2%1", priority=5))
        low = (await live.submit(ME, bash("true", devices="2"))).id
        await ended(live, *array.jobs, low)
        starts = await events_of(live, kind="Start")
        assert [event.job for event in starts] == [*array.jobs, low]

    in_memory(story, tmp_path, slots=2)
