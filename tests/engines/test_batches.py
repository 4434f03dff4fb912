"""Launches that are too long for one message."""

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell, telling

from treadle.core.actions import Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.launch import AttemptId, Launch
from treadle.core.lifecycle import Phase
from treadle.engines.agent.messages import Wanted
from treadle.engines.agent.wire import WireLink
from treadle.engines.fleet.batches import batches
from treadle.testing.engine_bench import row

LONG = {"LONG": "\x01" * 20_000}  # 120,000 bytes as it is sent
NAMES = [f"j{number}" for number in range(6)]


def test_orders_and_launches_of_a_node_go_in_batches_by_their_bytes(tmp_path, monkeypatch):
    """Also those of jobs that a controller finds when it takes over, and stops of all of them."""
    monkeypatch.setattr(WireLink, "bytes_max", 300_000)
    longest = 0

    async def story(bench: FleetStory) -> None:
        def watch() -> None:
            link = bench.world.links["n0"]
            passed_on = link.call

            async def call(verb: str, document: bytes) -> bytes:
                nonlocal longest
                longest = max(longest, len(document))
                return await passed_on(verb, document)

            monkeypatch.setattr(link, "call", call)

        bench.world.slots = len(NAMES)
        await bench.world.replace_agent("n0")
        bench.fresh_engine()
        watch()
        for name in NAMES:
            bench.job(name, "sleep", "600", env=LONG)
        places = {name: Allocation((Device("n0", number),)) for number, name in enumerate(NAMES)}
        orders = [Start(number, name, places[name]) for number, name in enumerate(NAMES)]
        await bench.order(*orders)
        for number, name in enumerate(NAMES):
            await bench.started(name, number)
        engine = await bench.crash()
        rows = [
            row(name, Phase.RUNNING, places[name], action=number, attempt=number)
            for number, name in enumerate(NAMES)
        ]
        await engine.adopt(rows, [AttemptId(name, 1) for name in NAMES])
        assert bench.world.links["n0"].calls["announce"] >= 2
        await bench.order(*(Stop(10 + number, name) for number, name in enumerate(NAMES)))
        for number, name in enumerate(NAMES):
            assert (await bench.ended(name, 10 + number)).how is How.STOPPED
        assert 200_000 < longest < 350_000

    tell(tmp_path, story, nodes=("n0",))


@telling()
async def test_a_launch_that_is_too_long_fails_alone_and_says_why(
    bench: FleetStory, monkeypatch
) -> None:
    monkeypatch.setattr(WireLink, "bytes_max", 300_000)
    bench.job("long", "true", env={"LONG": "\x01" * 60_000})
    bench.job("short", "true")
    await bench.order(Start(0, "long", spread("n0")), Start(1, "short", spread("n1")))
    end = await bench.ended("long", 0)
    assert end.how is How.ENGINE_ERROR
    assert "as they are sent, and at most" in end.error
    assert (await bench.ended("short", 1)).how is How.EXITED


@pytest.mark.parametrize("count", [0, 1, 5])
def test_batches_have_all_launches_in_order(count):
    launch = Launch(job="j", attempt=1, command=("x",), workdir="/", ranks=1)
    wanted = [
        Wanted(attempt=AttemptId("j", number), action=0, allocation=None, launch=launch)
        for number in range(count)
    ]
    found = batches(wanted, 10)
    assert [each for batch in found for each in batch] == wanted
    assert len(found) == max(1, count)
