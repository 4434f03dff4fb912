"""The local engine asks no disk, no directory of users and no other process on the event loop."""

import asyncio
import os
import pwd
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engines.bench import Story, on, tell

from treadle.core.actions import Start, Stop
from treadle.core.events import JobFailed, JobFinished, JobStarted, JobStopped
from treadle.core.job import Job
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.testing.builders import job as spec

NAMES = ("chmod", "chown", "listdir", "mkdir", "remove", "rename", "rmdir", "scandir")
FILES = ("open", *(f"os.{name}" for name in NAMES))
ANYWHERE = ("subprocess.Popen",)
CGROUPS = "/sys/fs/cgroup"
NOBODY = pwd.getpwnam("nobody")


class Audit:
    """What the thread of the loop did that may block."""

    def __init__(self, root: Path) -> None:
        self.found: list[str] = []
        self._places = (str(root), CGROUPS)
        self._thread = threading.get_ident()
        self._on = True
        sys.addaudithook(self._event)  # It cannot be taken away again, but switched off.

    def end(self) -> None:
        self._on = False

    def _event(self, name: str, given: tuple[Any, ...]) -> None:
        if not self._here():
            return
        if name in ANYWHERE or (name in FILES and str(given[0]).startswith(self._places)):
            self.found.append(f"{name} {given[0]}")

    def also(self, call: Callable[..., Any], *, anywhere: bool = False) -> Callable[..., Any]:
        """The call, for which Python has no audit event, with a note of it."""

        def noted(*given: Any, **named: Any) -> Any:
            if self._here() and (anywhere or str(given[0]).startswith(self._places)):
                self.found.append(f"{call.__name__} {given[0]}")
            return call(*given, **named)

        return noted

    def _here(self) -> bool:
        return self._on and threading.get_ident() == self._thread


@contextmanager
def audited(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Audit]:
    audit = Audit(root)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", audit.also(os.stat))
        patch.setattr(os, "getgrouplist", audit.also(os.getgrouplist, anywhere=True))
        for name in ("getpwnam", "getpwuid"):
            patch.setattr(pwd, name, audit.also(getattr(pwd, name), anywhere=True))
        try:
            yield audit
        finally:
            audit.end()


async def read(bench: Story, job: str, attempt: int) -> bytes:
    return (await bench.engine.output(AttemptId(job, attempt), 0)).data


def test_a8_no_file_and_no_user_is_looked_up_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A launch, a read of its output, a stop, an end by itself, a launch that is refused, and the
    adoption of what an earlier engine left."""
    tmp_path.chmod(0o755)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"uid": NOBODY.pw_uid, "user": "nobody", "workdir": "/"}

    async def story(bench: Story) -> None:
        bench.job("a", "sleep", "600", **user)
        bench.job("b", "echo", "well")
        bench.job("c", "true", stop_signal="SIGNONE")
        with audited(tmp_path, monkeypatch) as audit:
            await bench.order(Start(0, "a", on(0)))
            assert await read(bench, "a", 1) == b""
            assert isinstance(await bench.event(), JobStarted)
            await bench.order(Start(1, "b", on(1)))
            assert await bench.ended() == JobFinished("b", 1)
            assert await read(bench, "b", 1) == b"well\n"
            followed = bench.engine.follow(AttemptId("b", 1), 0)
            assert [piece.data async for piece in followed] == [b"well\n"]
            await bench.order(Start(2, "c", on(1)))
            assert await bench.ended() == JobFailed("c", 2, 0.0)
            assert audit.found == []
        await bench.engine.close()
        bench.engine.folders.make("99", 1, "abcd", action=7)
        bench.fresh_engine()
        row = Job(spec("a"), 0, Phase.RUNNING, 0.0, 0.0, allocation=on(0), action=0, attempt=0)
        with audited(tmp_path, monkeypatch) as audit:
            await bench.engine.adopt([row], [AttemptId("a", 1)])
            await bench.order(Stop(3, "a"))
            assert await bench.event() == JobStopped("a", 3, 0.0)
            await asyncio.gather(*bench.engine._tasks)
            assert audit.found == []
            # The audit itself does see such things.
            bench.engine.folders.live()
            tmp_path.stat()
            assert len(audit.found) == 2

    tell(tmp_path, story)
