"""Nodes that an admin drains: nothing begins there, and what can be resized goes elsewhere."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play_on
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import JobRequest, State
from treadle.wire.problems import InvalidRequestError, NotFoundError


def test_a_drained_node_starts_nothing_until_it_is_used_again(tmp_path: Path) -> None:
    """1. A job runs. 2. Its node is drained. 3. The daemon restarts. 4. The node is used again."""
    world = MemoryWorld.of(Node("here", 2, "none"))
    jobs: list[str] = []

    async def first(here: Bench) -> None:
        jobs.append(await here.submit("forever"))
        await here.reached(jobs[0], State.RUNNING)
        assert (await here.live.order_node(ME, "here", "drain")).drained
        jobs.append(await here.submit("true"))
        await here.settle()
        assert [here.state(job) for job in jobs] == [State.RUNNING, State.PENDING]
        why = await here.live.why(jobs[1])
        assert (why.code, why.numbers["drained"]) == ("away", ("here",))
        assert not why.never

    async def second(here: Bench) -> None:
        await here.settle()
        assert here.live.nodes()[0].drained
        assert [here.state(job) for job in jobs] == [State.RUNNING, State.PENDING]
        assert not (await here.live.order_node(ME, "here", "undrain")).drained
        await here.reached(jobs[1], State.SUCCEEDED)
        told = [each.text for each in (await here.live.events(after=0, limit=1000)).events]
        assert "node here is used again: it takes new jobs" in told
        assert "node here joined" not in told
        assert here.state(jobs[0]) is State.RUNNING

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


def test_a_job_that_can_be_resized_leaves_for_another_node(tmp_path: Path) -> None:
    world = MemoryWorld.of(Node("a", 2, "none"), Node("b", 2, "none"))

    async def story(here: Bench) -> None:
        job = await here.runs(devices="1..2", resumable=True)
        row = here.live.context.scheduler.jobs[job]
        assert row.allocation is not None
        (left,) = row.allocation.nodes()
        await here.live.order_node(ME, left, "drain")
        await here.settle()
        await here.reached(job, State.RUNNING)
        row = here.live.context.scheduler.jobs[job]
        assert row.allocation is not None
        assert set(row.allocation.nodes()) == {"a", "b"} - {left}

    play_on(world, story, tmp_path)


def test_orders_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        with pytest.raises(NotFoundError, match="there is no node 'there'; expected one of here"):
            await here.live.order_node(ME, "there", "drain")

    play_on(MemoryWorld.of(Node("here", 1, "none")), story, tmp_path)


FOUR = (Node("a", 1, "none"), Node("b", 2, "none"), Node("c", 2, "none"), Node("delta", 3, "none"))


def test_devices_of_drained_nodes_are_counted_and_said(tmp_path: Path) -> None:
    """1. Jobs hold two nodes. 2. One of these and an idle one are drained. 3. The rest is taken."""

    async def story(here: Bench) -> None:
        first = [await here.submit("forever", devices=size) for size in ("3", "2")]
        for job in first:
            await here.reached(job, State.RUNNING)
        for node in ("c", "delta"):
            await here.live.order_node(ME, node, "drain")
        await here.runs()
        status = here.live.status()
        assert (status.devices, status.free, status.drained_devices) == (8, 0, 5)
        assert (status.nodes, status.drained_nodes, status.lost_nodes) == (4, 2, 0)
        last = await here.submit("true")
        why = await here.live.why(last)
        assert (why.code, why.numbers["free"], why.numbers["total"]) == ("devices", 0, 8)
        (running,) = (await here.live.jobs(states=("RUNNING",), limit=1)).jobs
        assert running.because == "node delta is drained"
        details = dict((await here.live.why(first[0])).details)
        assert details["node"] == "node delta is drained"

    play_on(MemoryWorld.of(*FOUR), story, tmp_path)


def test_a_job_that_fits_only_with_drained_nodes_is_queued_and_names_them(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        for node in ("c", "delta"):
            await here.live.order_node(ME, node, "drain")
        asked = JobRequest(command=("true",), devices="4")
        dry = await here.live.dry_run(ME, asked)
        assert (dry.never_fits, dry.starts_now, dry.estimate) == ("", False, None)
        job = await here.submit("true", devices="4")
        why = await here.live.why(job)
        assert (why.code, why.sentence, why.never) == ("away", dry.because, False)
        assert (why.numbers["drained"], why.numbers["lost"]) == (("c", "delta"), ())
        assert why.change == "treadle nodes undrain c"
        with pytest.raises(InvalidRequestError, match="asks for 9 devices and the cluster has 8"):
            await here.submit("true", devices="9")
        wide = await here.submit("true", devices="8")
        assert (await here.live.why(wide)).numbers["undrain"] == ("delta", "c")
        await here.live.order_node(ME, "delta", "undrain")
        await here.reached(job, State.SUCCEEDED)
        await here.live.order_node(ME, "a", "drain")
        why = await here.live.why(await here.submit("true", devices="7"))
        assert why.change == "treadle nodes undrain c"

    play_on(MemoryWorld.of(*FOUR), story, tmp_path)


def test_a_job_that_fits_on_no_other_node_stays_where_it_is(tmp_path: Path) -> None:
    """The other node has a device, and not the memory."""
    world = MemoryWorld.of(Node("a", 2, "none", 8, 24.0), Node("b", 2, "none", 8, 8.0))

    async def story(here: Bench) -> None:
        job = await here.runs(devices="1..2", resumable=True, memory_gib=15.0)
        await here.live.order_node(ME, "a", "drain")
        await here.settle()
        await here.settle()
        row = here.live.context.scheduler.jobs[job]
        assert here.state(job) is State.RUNNING
        assert (await here.live.job(job)).job.attempts == 1
        assert row.allocation is not None
        assert set(row.allocation.nodes()) == {"a"}
        assert "a" in dict((await here.live.why(job)).details)["node"]

    play_on(world, story, tmp_path)
