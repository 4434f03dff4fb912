"""What if compares the same jobs, and takes them by name as well."""

from pathlib import Path

import msgspec
import pytest

from tests.unit.control.memory import ME, Bench, Story, play_on, playing
from treadle.core.cluster import Device, Node
from treadle.engines.memory_world import MemoryWorld
from treadle.study.snapshot_what_if import read_snapshot, what_if
from treadle.wire.jobs import State
from treadle.wire.problems import InvalidRequestError, NotFoundError
from treadle.wire.what_if import WhatIfRequest


async def two(here: Bench) -> tuple[str, str]:
    """On one device: the second job begins when the first one has ended."""
    first = await here.runs(name="first", estimate_s=100)
    second = await here.submit("forever", name="second", estimate_s=50)
    await here.settle()
    return first, second


@playing(devices=1)
async def test_times_are_of_the_jobs_that_end_in_both(here: Bench) -> None:
    first, second = await two(here)
    text = msgspec.json.encode(await here.live.snapshot())
    found = what_if(read_snapshot("s", text), WhatIfRequest(without=(first,)))
    ends = {job.job: (job.now_s, job.then_s) for job in found.jobs}
    assert (found.now.mean_completion_s, found.then.mean_completion_s) == ends[second]
    assert (found.now.ended, found.then.ended) == (2, 1)
    assert found.notes[0] == "times are compared of the 1 job that ends in both simulations"
    same = what_if(read_snapshot("s", text), WhatIfRequest())
    assert same.now.mean_completion_s == pytest.approx((ends[first][0] + ends[second][0]) / 2)  # type: ignore[operator]
    assert not any("compared" in note for note in same.notes)


@playing(devices=2)
async def test_jobs_that_never_end_are_counted_in_a_note(here: Bench) -> None:
    """On the other machines there is no room for it; what is left out needs no note."""
    wide = await here.runs(devices="2", estimate_s=100)
    text = msgspec.json.encode(await here.live.snapshot())
    found = what_if(read_snapshot("s", text), WhatIfRequest(cluster="1x1"))
    assert found.jobs[0].then_s is None
    assert "1 job does not end in a simulation: - stands for when" in found.notes
    out = what_if(read_snapshot("s", text), WhatIfRequest(without=(wide,)))
    assert not any("does not end" in note for note in out.notes)


@playing(devices=1)
async def test_jobs_are_left_out_by_name(here: Bench) -> None:
    first, second = await two(here)
    found = await here.live.what_if(WhatIfRequest(without=("first",)))
    assert {job.job: job.then_s is None for job in found.jobs} == {first: True, second: False}
    with pytest.raises(NotFoundError):
        await here.live.what_if(WhatIfRequest(without=("third",)))
    await here.live.cancel(ME, first)
    await here.reached(first, State.CANCELLED)
    await here.settle()
    with pytest.raises(InvalidRequestError, match=f"job {first} has ended"):
        await here.live.what_if(WhatIfRequest(without=("first",)))


@playing()
async def test_decisions_about_a_job_are_found_by_its_name_its_id_and_its_array(
    here: Bench,
) -> None:
    job = await here.runs(name="called so")
    array = await here.submit("forever", array="0-1", name="many")
    await here.reached(f"{array}_1", State.RUNNING)
    while not here.live.decisions(job=array).decisions:
        await here.settle()
    by_id = here.live.decisions(job=job)
    assert [change.job for one in by_id.decisions for change in one.changes] == [job]
    assert here.live.decisions(job="called so") == by_id
    assert here.live.decisions(job="many") == here.live.decisions(job=array)
    assert here.live.decisions(job="another").decisions == ()


def on_two_nodes(story: Story, root: Path) -> None:
    play_on(MemoryWorld.of(Node("a", 2, "none"), Node("b", 2, "none")), story, root)


def test_jobs_on_a_drained_node_end_there(tmp_path: Path) -> None:
    """1. A job of two devices has node b to itself. 2. It is drained, and so are half of a's
    devices closed. 3. What waits begins when a has room, and not on b."""

    async def story(here: Bench) -> None:
        await here.runs(devices="2", estimate_s=100)
        second = await here.runs(devices="2", estimate_s=50)
        third = await here.submit("forever", devices="2", estimate_s=10)
        await here.settle()
        (device, *_) = (await here.live.job(second)).job.devices
        await here.live.order_node(ME, device.partition(":")[0], "drain")
        await here.settle()
        found = await here.live.what_if(WhatIfRequest(policy="fifo"))
        for ends in (
            {job.job: job.now_s for job in found.jobs},
            {job.job: job.then_s for job in found.jobs},
        ):
            assert ends[second] == pytest.approx(50, rel=0.1)
            assert ends[third] == pytest.approx(110, rel=0.1)
        larger = await here.live.what_if(WhatIfRequest(cluster="2x2"))
        assert all(job.then_s is not None for job in larger.jobs)
        gone = await here.live.what_if(WhatIfRequest(without=(second,)))
        assert gone.then.jobs == 2

    on_two_nodes(story, tmp_path)


def test_jobs_of_a_lost_node_and_on_closed_devices_are_simulated(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        first = await here.runs(devices="2", estimate_s=100)
        second = await here.runs(devices="2", estimate_s=50)
        for number in range(2):
            here.memory.close_device(Device("a", number), "silent", "it says nothing")
        here.memory.lose_node("b")
        await here.settle()
        found = await here.live.what_if(WhatIfRequest(policy="fifo"))
        assert {job.job for job in found.jobs} == {first, second}

    on_two_nodes(story, tmp_path)
