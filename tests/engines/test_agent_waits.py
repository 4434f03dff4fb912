"""File systems that do not answer: an agent goes on with all that does not need them."""

import asyncio
import threading
from collections.abc import Collection

import pytest
from tests.engines.bench import WITHIN_S
from tests.engines.fleet_story import FleetStory, telling


@telling()
async def test_an_agent_answers_while_it_removes_archives(bench: FleetStory) -> None:
    link, go, begun = bench.world.links["n1"], asyncio.Event(), list[Collection[str]]()

    async def slow(used: Collection[str]) -> None:
        begun.append(used)
        await go.wait()

    link.agent._archives.sweep = slow  # type: ignore[method-assign]
    await bench.engine.adopt([])
    await bench.until(lambda: link.calls["facts"] > 3)
    assert len(begun) == 1
    go.set()


@telling()
async def test_a_controller_whose_folder_does_not_answer_holds_up_no_agent(
    bench: FleetStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is renewed by the same event loop, and jobs would be killed."""
    link, go, waited = bench.world.links["n1"], threading.Event(), list[bool]()

    def sees(path: str, content: str) -> bool:
        waited.append(go.wait(WITHIN_S / 4))
        return False

    monkeypatch.setattr(link.agent, "sees", sees)
    adopting = asyncio.ensure_future(bench.engine.adopt([]))
    await bench.until(lambda: bench.world.links["n0"].calls["facts"] > 3)
    go.set()
    await adopting
    assert waited == [True]
