"""Agents that hang while files are copied for a job: it goes back to the queue."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.engines.copy_story import ran
from tests.engines.fleet_story import FleetStory, spread, tell

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded
from treadle.engines.agent.copies.tree import ChangedError
from treadle.engines.fleet import node_client, silent_nodes
from treadle.engines.fleet.copies import code_folders
from treadle.engines.fleet.copies.code_folders import Code


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes less."""
    monkeypatch.setattr(node_client, "FACTS_WAIT_S", 0.05)
    monkeypatch.setattr(node_client, "SILENT_AFTER_S", 1.0)
    monkeypatch.setattr(silent_nodes, "LOOK_EVERY_S", 0.05)


async def falls_silent(bench: FleetStory) -> None:
    """The agent of n1."""
    bench.world.links["n1"].awake.clear()
    await bench.until(lambda: Device("n1", 0) in bench.engine._closed)


async def is_back_in_the_queue(bench: FleetStory, action: int) -> None:
    ended = await bench.ended("a", action)
    assert (ended.attempt, ended.how, ended.error, ended.only_on) == (0, How.STOPPED, "", ())
    assert bench.runs_on("a") == set()


def test_a_copy_that_a_silent_node_breaks_off_is_no_fault_of_the_machine(tmp_path):
    """1. Checkpoints are copied to one node of two. 2. The agent of the other hangs."""

    async def story(bench: FleetStory) -> None:
        await ran(bench, "n2")
        link, writing, go = bench.world.links["n0"], asyncio.Event(), asyncio.Event()
        call = link.call

        async def slow(verb: str, document: bytes) -> bytes:
            if verb == "copy-write":
                writing.set()
                await go.wait()
            return await call(verb, document)

        link.call = slow  # type: ignore[method-assign]
        await bench.order(Start(2, "a", spread("n0", "n1")))
        await writing.wait()
        await falls_silent(bench)
        go.set()
        await is_back_in_the_queue(bench, 2)

    tell(tmp_path, story, apart=True)


def test_a_folder_that_was_not_sent_because_of_a_silent_node_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A file changes while the folder of a job is read. 2. Meanwhile an agent hangs."""
    private, reads = tmp_path / "private", Counter[str]()
    private.mkdir()
    (private / "run.sh").write_text("exec sleep 86400")

    def changing(folder: Path, uid: int | None, most: float) -> Code:
        reads["folder"] += 1
        raise ChangedError("run.sh has changed")

    monkeypatch.setattr(code_folders, "code_in", changing)
    monkeypatch.setattr(code_folders, "AGAIN_AFTER_S", (0.01,) * 10_000)

    async def story(bench: FleetStory) -> None:
        bench.job("a", "sh", "run.sh", workdir=str(private))
        await bench.order(Start(0, "a", spread("n0", "n1")))
        await bench.until(lambda: reads["folder"])
        await falls_silent(bench)
        looks = bench.world.links["n0"].calls
        await bench.until(lambda: looks["copy-sees"] > 1 or bench.count(AttemptEnded, "a"))
        bench.world.links["n1"].awake.set()
        await is_back_in_the_queue(bench, 0)

    tell(tmp_path, story, apart=True)


def test_a_job_does_not_wait_for_an_agent_of_which_nobody_has_taken_charge(tmp_path):
    """1. The agent of a node is another one, and hangs. 2. A job is ordered there at once."""

    async def story(bench: FleetStory) -> None:
        await ran(bench, "n2")
        bench.world.links["n1"].awake.clear()
        bench.world.tell(bench.world.joined("n1"))
        await bench.order(Start(2, "a", spread("n1")))
        await falls_silent(bench)
        await is_back_in_the_queue(bench, 2)

    tell(tmp_path, story, apart=True)
