"""A controller that runs as root: jobs run as their owners and reach their owners' files."""

import asyncio
import os
import pwd
import tempfile
from pathlib import Path

import pytest

from tests.control.living import bash, ended, living, until
from treadle.wire.jobs import State
from treadle.wire.machine import Role, Who

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")


def test_a_users_job_resumes_from_its_own_checkpoint() -> None:
    """1. A job of user `nobody` writes a checkpoint at the stop signal. 2. It is held and
    released. 3. Its second attempt finds what the first wrote, and others cannot."""
    entry = pwd.getpwnam("nobody")
    nobody = Who(user="nobody", role=Role.USER, uid=entry.pw_uid)
    body = (
        'f="$TREADLE_CHECKPOINT_DIR/step"; if [ -e "$f" ]; then id -un; cat "$f"; exit 0; fi; '
        "trap 'echo saved > \"$f\"; exit 143' TERM; while true; do sleep 0.05 & wait $!; done"
    )

    async def story(folder: Path) -> None:
        async with living(folder, slots=1) as live:
            job = (await live.submit(nobody, bash(body, resumable=True, workdir="/"))).id
            await until(live, State.RUNNING, jobs=(job,))
            await live.hold(nobody, job)
            await until(live, State.HELD, jobs=(job,))
            await live.release(nobody, job)
            (view,) = await ended(live, job)
            assert (view.state, view.attempts) == (State.SUCCEEDED, 2)
            assert (await live.log(job)).text == "nobody\nsaved\n"
            checkpoints = folder / "state" / "checkpoints" / job
            assert checkpoints.stat().st_uid == entry.pw_uid
            assert checkpoints.stat().st_mode & 0o077 == 0
            assert (folder / "state" / "jobs").stat().st_mode & 0o077 == 0

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        asyncio.run(story(Path(folder)))
