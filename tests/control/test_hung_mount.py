"""A working directory on a file system that hangs, from submission to the end of the job."""

import asyncio
from pathlib import Path

from tests.control.asking import runs, telling
from tests.control.living import ME, bash, ended, local, until, view_of
from tests.engines.hung_mount import hung_mount
from treadle.control.api import LiveService
from treadle.engines.agent.attempt_guard import Deadlines
from treadle.wire.jobs import State

SOON = Deadlines(first_s=0.0, slack_s=0.3, look_s=0.2, kill_again_s=0.1)


async def says(live: LiveService, job: str, text: str) -> None:
    """Wait until `why` says it."""
    async with asyncio.timeout(30):
        while text not in (await live.why(job)).sentence:
            await asyncio.sleep(0.01)


@telling()
async def test_a10_why_names_the_file_system_and_other_jobs_go_on(
    live: LiveService, tmp_path: Path
) -> None:
    """1. It does not begin: STARTING, and why. 2. It is cancelled: STOPPING, and why it does not
    die. 3. Another job runs beside it. 4. The file system is back: CANCELLED."""
    local(live).deadlines = SOON
    with hung_mount(tmp_path / "mnt") as mount:
        where = f"it waits for the file system {mount.point} (fuse)"
        request = bash("true", workdir=str(mount.point / "work"), grace_s=0.1)
        job = (await live.submit(ME, request)).id
        await says(live, job, f"has not begun: {where}")
        assert (await view_of(live, job)).state is State.STARTING
        await live.cancel(ME, job)
        await says(live, job, f"does not die: {where}")
        assert (await view_of(live, job)).state is State.STOPPING
        (node,) = live.nodes()
        assert [device.because for device in node.devices if job in device.jobs] == [
            node.stuck[job]
        ]
        other = await runs(live)
        await live.cancel(ME, other)
        await ended(live, other)
        mount.heal()
        await until(live, State.CANCELLED, jobs=(job,))


@telling()
async def test_a10_a_time_limit_ends_a_job_whose_workdir_hangs(
    live: LiveService, tmp_path: Path
) -> None:
    local(live).deadlines = SOON
    with hung_mount(tmp_path / "mnt") as mount:
        request = bash("true", workdir=str(mount.point), grace_s=0.1, time_limit_s=0.3)
        job = (await live.submit(ME, request)).id
        await says(live, job, "does not die")
        mount.heal()
        await until(live, State.TIMEOUT, jobs=(job,))
