"""What follows from a fact is taken in before anything is decided on it."""

import asyncio
from pathlib import Path

from tests.control.asking import events_of
from tests.control.living import ME, bash, ended, living, until
from treadle.wire.jobs import State


def test_a_dependant_of_higher_priority_is_not_overtaken_by_a_lower_one(tmp_path: Path) -> None:
    """1. `first` runs on one of two slots. 2. `high` is to start after it. 3. `low`, which cannot
    be stopped once it runs, wants both slots. 4. `first` ends: `high` starts, `low` after it."""

    async def story() -> None:
        async with living(tmp_path, slots=2) as live:
            gate = tmp_path / "gate"
            wait = f"while [ ! -e {gate} ]; do sleep 0.02; done"
            first = (await live.submit(ME, bash(wait, name="first"))).id
            await until(live, State.RUNNING, jobs=(first,))
            high = (await live.submit(ME, bash("true", after=(first,), priority=10))).id
            low = (await live.submit(ME, bash("true", devices="2", priority=-10))).id
            gate.touch()
            await ended(live, first, high, low)
            starts = await events_of(live, kind="Start")
            assert [event.job for event in starts] == [first, high, low]

    asyncio.run(story())


def test_members_of_a_limited_array_keep_their_priority(tmp_path: Path) -> None:
    async def story() -> None:
        async with living(tmp_path, slots=2) as live:
            array = await live.submit(ME, bash("sleep 0.1", array="0-2%1", priority=5))
            low = (await live.submit(ME, bash("true", devices="2"))).id
            await ended(live, *array.jobs, low)
            starts = await events_of(live, kind="Start")
            assert [event.job for event in starts] == [*array.jobs, low]

    asyncio.run(story())
