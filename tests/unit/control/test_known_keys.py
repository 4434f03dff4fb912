"""A submission with a new key asks the store nothing; one that was given is found for ever."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play_on, playing
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.store.store import Store
from treadle.wire.jobs import JobRequest

REQUEST = JobRequest(command=("forever",))


def _count_looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    looks: list[str] = []
    found = Store.key

    def key(store: Store, owner: str, name: str) -> object:
        looks.append(name)
        return found(store, owner, name)

    monkeypatch.setattr(Store, "key", key)
    return looks


@playing()
async def test_a_new_key_is_not_looked_up_and_a_known_one_is(
    here: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = _count_looks(monkeypatch)
    first = await here.live.submit(ME, REQUEST, key="one")
    await here.live.submit(ME, REQUEST, key="two")
    assert looks == []
    again = await here.live.submit(ME, REQUEST, key="one")
    assert (again.id, again.repeated, looks) == (first.id, True, ["one"])


def test_a_key_of_the_controller_before_is_known(tmp_path: Path) -> None:
    world, made = MemoryWorld.of(Node("here", 4, "none")), []

    async def before(here: Bench) -> None:
        made.append((await here.live.submit(ME, REQUEST, key="one")).id)

    async def after(here: Bench) -> None:
        again = await here.live.submit(ME, REQUEST, key="one")
        assert (again.id, again.repeated) == (made[0], True)

    play_on(world, before, tmp_path)
    play_on(world, after, tmp_path)
