"""A8: a job ended when it ended, not when a restarted daemon noticed."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.control.asking import runs
from tests.control.living import ended, living
from tests.control.test_faults import _folder
from treadle.control.loop import clock
from treadle.engines.node import attempt_folders as folders


def test_a8_a_job_that_ended_while_the_daemon_was_down_ended_when_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the wall clock, the daemon is down for an hour."""
    body = f"until test -e {tmp_path}/go; do sleep 0.01; done; exit 9"

    async def before() -> tuple[str, Path]:
        async with living(tmp_path) as live:
            job = await runs(live, body, retries=0)
            return job, _folder(live, job)

    async def after(job: str, folder: Path) -> None:
        (tmp_path / "go").touch()
        while (status := folders.read_status(folder)) is None or not status.ended:
            await asyncio.sleep(0.01)
        later = SimpleNamespace(**vars(time))
        later.time = lambda: time.time() + 3600.0
        monkeypatch.setattr(clock, "time", later)
        async with living(tmp_path) as live:
            (view,) = await ended(live, job)
            (attempt,) = (await live.job(job)).attempts
            assert view.code == 9
            assert view.ended_at == attempt.ended_at == status.ended_at
            assert view.started_at == attempt.started_at
        monkeypatch.undo()

    job, folder = asyncio.run(asyncio.wait_for(before(), 180))
    asyncio.run(asyncio.wait_for(after(job, folder), 180))
