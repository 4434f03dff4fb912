"""Nodes whose agents do not answer: what people are told."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play_on
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError
from treadle.core.events import DeviceClosed, DeviceOpened
from treadle.core.machine import NodeView
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State
from treadle.wire.problems import UnavailableError

WHY = "the agent of node b does not answer"
SAID = "the agent of node b has not answered for 40 s"
CLOSED = [DeviceClosed(Device("b", number), WHY, "silent") for number in range(2)]


def world() -> MemoryWorld:
    return MemoryWorld.of(Node("a", 1, "none"), Node("b", 2, "none"))


def test_a_job_waits_for_a_node_that_does_not_answer(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        here.live.context.inbox.tell(*CLOSED)
        await here.settle()
        assert here.live.status().free == 1
        job = await here.submit("true", devices="3")
        await here.settle()
        why = await here.live.why(job)
        assert why.because == f"it needs 3 devices; 1 of 3 is free and 2 more cannot be used: {WHY}"
        assert why.change == "node b is used again as soon as its agent answers"
        here.live.context.inbox.tell(*(DeviceOpened(each.device) for each in CLOSED))
        await here.reached(job, State.SUCCEEDED)

    play_on(world(), story, tmp_path)


def test_what_runs_there_is_said_to_have_a_node_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="2")
        await here.reached(job, State.RUNNING)
        views = here.memory.view()

        def view() -> tuple[NodeView, ...]:
            return tuple(replace(each, stuck={job: SAID}) for each in views)

        monkeypatch.setattr(here.memory, "view", view)
        here.live.context.inbox.tell(*CLOSED)
        await here.settle()
        assert f"; {SAID}" in (await here.live.why(job)).because
        monkeypatch.undo()

    play_on(world(), story, tmp_path)


def test_an_order_to_a_node_that_does_not_answer_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Bench) -> None:
        async def refuses(*_: object) -> None:
            raise EngineError(f"{SAID}: it takes no orders until it does", retryable=True)

        monkeypatch.setattr(here.memory, "order_node", refuses)
        monkeypatch.setattr(here.memory, "order_device", refuses)
        sentence = f"^{SAID}: it takes no orders until it does$"
        with pytest.raises(UnavailableError, match=sentence):
            await here.live.order_node(ME, "b", "drain")
        with pytest.raises(UnavailableError, match=sentence):
            await here.live.manage(ME, "b:1", "avoid")

    play_on(world(), story, tmp_path)
