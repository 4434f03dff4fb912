"""A live controller over nodes that share no file system: a job that cannot leave its node."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.control.living import ME, bash, ended, living, stopped_and_held, text_of, until, view_of
from tests.control.on_fleet import on_fleet, telling_on_fleet
from tests.engines.fleet_world import FleetWorld, WorldFleet
from tests.telling import within
from treadle.control.api import LiveService
from treadle.core.job import CHECKPOINTS
from treadle.core.launch import CHECKPOINT_DIR
from treadle.core.ports import Engine
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext
from treadle.wire.jobs import State
from treadle.wire.problems import InvalidRequestError

WRITES = 'test -e "$TREADLE_CHECKPOINT_DIR/w" && exit 0; touch "$TREADLE_CHECKPOINT_DIR/w"; '
WAITS = "sleep 86400 & wait"


@within(100)
async def test_a_job_waits_for_the_node_that_has_its_checkpoints_and_says_so(
    tmp_path: Path,
) -> None:
    """1. It is held, which leaves a checkpoint. 2. Its node takes no more work, and another
    one is free. 3. It waits and says why. 4. Its node is open again: it goes on there.
    """
    world = FleetWorld(tmp_path / "nodes", ("n0", "n1"), slots=1, apart=True)

    def engine(context: EngineContext) -> Engine:
        return FleetEngine(context, WorldFleet(world))

    try:
        async with living(tmp_path, engine=engine) as live:
            job = (await live.submit(ME, bash(WRITES + WAITS, resumable=True))).id
            await until(live, State.RUNNING, jobs=(job,))
            (device,) = (await view_of(live, job)).devices
            home = device.rpartition(":")[0]
            place = tmp_path / "nodes" / home / "checkpoints"
            while not list(place.glob("*/w")):
                await asyncio.sleep(0.01)
            await stopped_and_held(live, job, "2")
            await live.manage(ME, device, "avoid")
            await live.release(ME, job)
            while (why := await live.why(job)).code != "bound":
                await asyncio.sleep(0.01)
            assert why.numbers == {"nodes": (home,), "asked": 1, "free": 0, "by": CHECKPOINTS}
            await live.order_node(ME, home, "drain")
            await live.manage(ME, device, "manage")
            while (why := await live.why(job)).code != "bound-away":
                await asyncio.sleep(0.01)
            assert (why.numbers["nodes"], why.numbers["away"]) == ((home,), "drained")
            assert why.change == f"treadle nodes undrain {home}"
            assert why.estimate is None
            await live.order_node(ME, home, "undrain")
            (view,) = await ended(live, job)
            assert view.state is State.SUCCEEDED
            attempts = (await live.job(job)).attempts
            ran = [(each.devices, each.code) for each in attempts if each.code is not None]
            assert ran == [((device,), 143), ((device,), 0)]
    finally:
        await world.clear_away()


def test_what_is_submitted_from_a_folder_that_nodes_do_not_see(tmp_path: Path) -> None:
    """1. Its code is packed, and it runs in that. 2. What some nodes cannot have is said."""
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "run.sh").write_text("pwd")

    async def story(live: LiveService, world: FleetWorld) -> None:
        request = replace(bash("cat run.sh; pwd", resumable=True), workdir=str(folder))
        done = await live.submit(ME, request)
        assert len(done.notes) == 1, "about its checkpoints"
        (view,) = await ended(live, done.id)
        assert view.state is State.SUCCEEDED
        (attempt,) = (await live.job(done.id)).attempts
        (where,) = attempt.workdirs
        assert (await text_of(live, done.id)) == f"pwd{where.partition(':')[2]}\n"
        own = {CHECKPOINT_DIR: str(tmp_path)}
        assert not (await live.submit(ME, replace(request, env=own))).notes
        words = ("sh", f"{folder}/run.sh")
        assert len((await live.submit(ME, replace(request, command=words, env=own))).notes) == 1
        with pytest.raises(InvalidRequestError, match="several nodes and is resumable"):
            await live.submit(ME, replace(request, devices="3"))
        with pytest.raises(InvalidRequestError, match="no folder on the daemon's machine"):
            await live.submit(ME, replace(request, workdir=str(folder / "none")))

    on_fleet(story, tmp_path, ("n0", "n1"), apart=True)


@telling_on_fleet(("n0",), apart=True)
async def test_members_of_an_array_keep_checkpoints_in_folders_of_their_own(
    live: LiveService, world: FleetWorld, tmp_path: Path
) -> None:
    request = bash('mkdir "$TREADLE_CHECKPOINT_DIR"', resumable=True, array="3-4")
    (tmp_path / "own").mkdir()
    own = {CHECKPOINT_DIR: f"{tmp_path}/own/"}
    done = await live.submit(ME, replace(request, env=own))
    await ended(live, *done.jobs)
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["3", "4"]
