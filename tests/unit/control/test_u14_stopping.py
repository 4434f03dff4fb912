"""A job that is being stopped holds its devices until it has released them."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from tests.unit.control.test_estimates import teach
from treadle.core.machine import NodeView
from treadle.engines.memory import MemoryEngine
from treadle.wire.jobs import State


def test_u14_a_job_that_is_being_stopped_still_holds_its_devices(tmp_path: Path) -> None:
    """1. One of two jobs is cancelled and does not end by itself. 2. Another one is to follow it,
    and a last one waits for the job that runs."""

    async def story(here: Bench) -> None:
        teach(here, "known", *[1000.0] * 5)
        stays = await here.submit("forever")
        await here.reached(stays, State.RUNNING)
        here.memory.hang(stays)
        await here.reached(await here.submit("forever", model="known"), State.RUNNING)
        await here.live.cancel(ME, stays)
        await here.reached(stays, State.STOPPING)
        await here.settle()
        status = here.live.status()
        assert (status.free, status.running, status.stopping) == (0, 1, 1)
        view = (await here.live.job(stays)).job
        assert view.devices == ("here:0",)
        why = await here.live.why(stays)
        assert (why.code, why.numbers["by"]) == ("leaving", "cancel")
        assert why.length is None, "it does not run to its end"
        follows = await here.submit("forever", model="known")
        last = await here.submit("forever", model="known")
        await here.settle()
        assert here.state(follows) is State.STARTING
        status = here.live.status()
        assert (status.running, status.starting, status.stopping, status.waiting) == (1, 1, 1, 1)
        why = await here.live.why(last)
        assert (why.code, why.numbers["free"]) == ("devices", 0)
        starting = await here.live.why(follows)
        assert (starting.code, starting.numbers["jobs"]) == ("releasing", (stays,))
        assert why.estimate is not None
        assert why.estimate.coverage == 0.8, "a job that is being stopped is no unknown"

    play(story, tmp_path, devices=2)


def test_one_count_of_free_devices_while_a_job_is_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A job on three of four devices is cancelled, and does not end. Its processes are gone from
    its devices, as of a job that has ended on some of its nodes. 2. A job of four devices waits."""
    view = MemoryEngine.view

    def without_processes(engine: MemoryEngine) -> tuple[NodeView, ...]:
        return tuple(
            replace(node, devices=tuple(replace(d, state="free", jobs=()) for d in node.devices))
            for node in view(engine)
        )

    async def story(here: Bench) -> None:
        stays = await here.submit("forever", devices="3")
        await here.reached(stays, State.RUNNING)
        waits = await here.submit("forever", devices="4")
        here.memory.hang(stays)
        await here.live.hold(ME, waits)
        await here.live.cancel(ME, stays)
        await here.reached(stays, State.STOPPING)
        await here.settle()
        small = await here.submit("forever", devices="2")
        await here.reached(small, State.STARTING)
        monkeypatch.setattr(MemoryEngine, "view", without_processes)
        (node,) = here.live.nodes()
        free = [each.name for each in node.devices if each.state == "free"]
        assert {job for each in node.devices for job in each.jobs} == {stays, small}
        assert here.live.status().free == len(free)
        await here.live.release(ME, waits)
        await here.settle()
        (row,) = (await here.live.jobs(states=("PENDING",), limit=1)).jobs
        why = await here.live.why(waits)
        assert (why.code, why.numbers["free"], why.numbers["total"]) == ("devices", len(free), 4)
        assert (row.cause, row.because) == (why.code, why.sentence)

    play(story, tmp_path, devices=4)
