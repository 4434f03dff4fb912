"""The nodes that a controller starts with, after one whose jobs hold devices."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.unit.control.memory import Bench, play
from treadle.control.jobs import FIRST_NODES, NODES, holding, nodes_at_start, text_of
from treadle.core.cluster import Node
from treadle.core.errors import TreadleError
from treadle.store.rows import JobRow
from treadle.store.store import Store
from treadle.wire.jobs import State


class Kept:
    """A store with the jobs of another one, and settings of its own."""

    def __init__(self, store: Store, **settings: str) -> None:
        self._store, self._settings = store, settings

    def setting(self, name: str) -> str | None:
        return self._settings.get(name)

    def active(self) -> list[JobRow]:
        return list(self._store.active())


def test_a_cluster_is_known_by_nodes_that_return_though_those_of_the_last_moment_are_missing(
    tmp_path: Path,
) -> None:
    """1. A cluster of two nodes loses one. 2. The controller dies, and then the agent of the other.
    3. The next controller begins with the one that has returned: it is the same cluster.
    """

    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        (held,) = here.memory.nodes()
        other = replace(held, name="other")
        settings = {NODES: text_of([held]), FIRST_NODES: text_of([held, other])}
        store = cast("Store", Kept(here.live.context.store, **settings))  # all that is asked of it
        assert nodes_at_start(store, [other]) == (other, held)
        assert nodes_at_start(store, []) == (held,), "no agent has come yet"
        stranger = Node("stranger", held.device_count, held.device_type)
        with pytest.raises(TreadleError, match="which is now not there; start with the same"):
            nodes_at_start(store, [stranger])
        assert nodes_at_start(store, [stranger], moved=True) == (stranger, held)
        assert holding(store) == 1

    play(story, tmp_path)
