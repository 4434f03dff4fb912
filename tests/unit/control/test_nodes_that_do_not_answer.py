"""Nodes whose agents do not answer: what people are told."""

import json
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
CLOSED = DeviceClosed(Device("b", 0), WHY, "silent", (Device("b", 1),))


def world() -> MemoryWorld:
    return MemoryWorld.of(Node("a", 1, "none"), Node("b", 2, "none"))


def test_a_job_waits_for_a_node_that_does_not_answer(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        here.live.context.inbox.tell(CLOSED)
        await here.settle()
        status = here.live.status()
        assert (status.free, status.problem) == (1, f"1 node is given no new jobs: {WHY}")
        job = await here.submit("true", devices="3")
        await here.settle()
        why = await here.live.why(job)
        assert (why.code, why.numbers["asked"], why.numbers["open"]) == ("closed", 3, 1)
        assert why.numbers["because"] == WHY
        here.live.context.inbox.tell(DeviceOpened(CLOSED.device, CLOSED.also))
        await here.reached(job, State.SUCCEEDED)
        assert here.live.status().problem == ""
        said = [each.text for each in (await here.live.events(limit=1000)).events]
        assert [text for text in said if "device" in text and "node b" in text] == [
            f"2 devices of node b are closed: {WHY}",
            "2 devices of node b are open again",
        ]
        closed = (await here.live.spells()).closed
        assert [(each.device, each.to_at is not None) for each in closed] == [
            ("b:0", True),
            ("b:1", True),
        ]

    play_on(world(), story, tmp_path)


def test_devices_that_were_closed_at_once_are_each_kept_for_the_next_controller(
    tmp_path: Path,
) -> None:
    async def story(here: Bench) -> None:
        here.live.context.inbox.tell(CLOSED)
        await here.settle()
        kept = json.loads(here.live.context.store.setting("closed") or "")
        assert kept == [["b", 0, WHY, "silent"], ["b", 1, WHY, "silent"]]

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
        here.live.context.inbox.tell(CLOSED)
        await here.settle()
        assert SAID in dict((await here.live.why(job)).details).values()
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


def test_a_job_waits_for_a_node_that_its_cluster_does_not_confirm(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        why = "Ray's head does not answer node b"
        here.live.context.inbox.tell(replace(CLOSED, reason=why, cause="unconfirmed"))
        job = await here.submit("true", devices="3")
        await here.settle()
        assert here.live.status().problem == f"1 node is given no new jobs: {why}"
        said = await here.live.why(job)
        assert (said.code, said.numbers["because"]) == ("closed", why)
        assert said.change == "node b is used again once its cluster confirms it"

    play_on(world(), story, tmp_path)
