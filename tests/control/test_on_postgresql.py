"""The whole story on PostgreSQL, which is restarted and stopped in the middle."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.asking import end_all, runs, waits
from tests.control.living import ME, bash, ended, living, view_of
from tests.store.postgres import PostgresServer, running
from treadle.testing.checks import check
from treadle.wire.jobs import State
from treadle.wire.problems import UnavailableError

NCCL = "torch.distributed.DistBackendError: NCCL error: unhandled system error"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    yield from running()


def test_a_database_that_is_restarted_costs_nothing_but_time(
    tmp_path: Path, server: PostgresServer
) -> None:
    async def story() -> None:
        async with living(tmp_path, url=server.url, store_patience_s=0.5) as live:
            gate = f"until test -e {tmp_path}/go; do sleep 0.01; done"
            job = await runs(live, f"{gate}; exit 4", retries=0)
            again = await waits(
                live, f'test "$TREADLE_ATTEMPT" -ge 2 || {{ echo "{NCCL}"; exit 1; }}'
            )
            secret = await waits(live, 'test "$T" = hush-hush', secrets={"T": "hush-hush"})
            array = await live.submit(ME, bash("true", array="0-9%2"))
            after = await waits(live, "true", after=(array.id,))
            await asyncio.to_thread(server.restart)
            views = await ended(live, again, secret, after, *array.jobs)
            assert all(view.state is State.SUCCEEDED for view in views)

            await asyncio.to_thread(server.stop, "immediate")
            with pytest.raises(UnavailableError):
                await live.submit(ME, bash("true", name="lost?"), "key")
            assert view_of_running(live, job)
            (tmp_path / "go").touch()
            await asyncio.to_thread(server.start)
            (view,) = await ended(live, job)
            assert (view.state, view.code) == (State.FAILED, 4)
            kept = await live.submit(ME, bash("true", name="lost?"), "key")
            assert (await ended(live, kept.id))[0].state is State.SUCCEEDED
            named = [each for each in (await live.jobs(ended=True)).jobs if each.name == "lost?"]
            assert len(named) == 1
            await end_all(live)
            check(live.context.scheduler)
        async with living(tmp_path, url=server.url) as live:
            assert (await view_of(live, job)).code == 4
            assert live.status().store == "postgresql"
            assert not (await live.jobs()).jobs

    def view_of_running(live: object, job: str) -> bool:
        return live.context.jobs.records[job].state is State.RUNNING  # type: ignore[attr-defined]

    asyncio.run(asyncio.wait_for(story(), 120))
