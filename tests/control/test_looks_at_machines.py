"""An answer about many jobs looks at the machines once, and not once for each job."""

from dataclasses import replace
from pathlib import Path

from tests.control.living import ME, living, until
from tests.telling import within
from treadle.core.machine import NodeView
from treadle.core.ports import Engine
from treadle.engines.memory import memory_engine
from treadle.engines.registry import EngineContext, EngineOptions
from treadle.wire.jobs import JobRequest, State

JOBS = 40


def wide(context: EngineContext) -> Engine:
    return memory_engine(replace(context, options=EngineOptions(devices=JOBS)))


@within(60)
async def test_many_jobs_that_are_being_stopped_cost_few_looks(tmp_path: Path) -> None:
    async with living(tmp_path, policy="fifo", engine=wide) as live:
        request = JobRequest(command=("forever",), array=f"0-{JOBS - 1}", workdir="/")
        made = await live.submit(ME, request)
        await until(live, State.RUNNING, jobs=made.jobs)
        engine, looks = live.context.engine, 0
        before = engine.view

        def counted() -> tuple[NodeView, ...]:
            nonlocal looks
            looks += 1
            return before()

        engine.view = counted  # type: ignore[method-assign]
        assert len(await live.cancel(ME, made.id)) == JOBS
        assert 0 < looks < JOBS / 4
