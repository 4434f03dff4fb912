"""Stories with warm interpreters: make one, run scripts with and without it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.engines.bench import Story, on

from treadle.core.actions import Start
from treadle.core.events import AttemptEnded, JobStarted

WAIT = """
import os, sys, time
{imports}
while not os.path.exists("go"):
    time.sleep(0.005)
"""


class Ran(NamedTuple):
    """One attempt that has ended."""

    code: int
    log: str
    status: dict[str, Any]

    @property
    def warm(self) -> bool:
        return bool(self.status["warm"])


class WarmStory:
    """A bench with a warm interpreter for scripts in its folder."""

    def __init__(self, bench: Story, **details: Any) -> None:
        self.bench = bench
        self.details = details
        self.bench.machine.warm.prepare_after_s = 0.0
        self._orders = 0

    async def warm_up(
        self, imports: str = "", *, python: Sequence[str] = ("python",), count: int = 1
    ) -> None:
        """Begin a warm interpreter that has imported so much, and wait until so many are ready."""
        self.write("wait.py", WAIT.format(imports=imports))
        (self.bench.root / "go").unlink(missing_ok=True)
        job = await self.start(*python, "wait.py")
        await self.bench.until(lambda: sum(each.ready for each in self.templates) >= count)
        (self.bench.root / "go").touch()
        await self.end_of(job)

    @property
    def templates(self) -> list[Any]:
        found = list(self.bench.machine.warm._templates.values())
        for each in found:
            each.listen()
        return found

    def write(self, name: str, text: str) -> None:
        path = self.bench.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    async def run(self, *command: str, warm: bool = True, **details: Any) -> Ran:
        """Run a command to its end."""
        self._orders += 1
        job = f"job-{self._orders}"
        self.bench.job(job, *command, warm=warm, **{**self.details, **details})
        await self.bench.order(Start(self._orders, job, on(0)))
        return await self.end_of(job)

    async def start(self, *command: str, **details: Any) -> str:
        """Start a command; its job."""
        self._orders += 1
        job = f"job-{self._orders}"
        self.bench.job(job, *command, **{**self.details, **details})
        await self.bench.order(Start(self._orders, job, on(0)))
        await self.bench.until(lambda: job in self._started())
        return job

    def _started(self) -> set[str]:
        return {fact.job for fact in self.bench.jobs.facts if isinstance(fact, JobStarted)}

    async def end_of(self, job: str) -> Ran:
        def ended() -> AttemptEnded | None:
            return next((each for each in self.bench.ends if each.job == job), None)

        end = await self.bench.until(ended)
        status = json.loads(Path(self.bench.folder(job), "status.json").read_bytes())
        code = end.code if end.code is not None else status["code"]
        return Ran(code, self.bench.log(job), status)

    async def both(self, *command: str, **details: Any) -> tuple[Ran, Ran]:
        """The same command launched cold and warm."""
        cold = await self.run(*command, warm=False, **details)
        warm = await self.run(*command, **details)
        assert not cold.warm
        assert warm.warm, warm.status["cold"]
        return cold, warm
