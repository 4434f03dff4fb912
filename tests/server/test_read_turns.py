"""Reads take turns: a user with many waits in a line of their own."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.telling import within
from treadle.server.access import TABLE, Load
from treadle.server.app import offered
from treadle.server.limits import TooFastError
from treadle.server.read_turns import ReadTurns, Turns
from treadle.server.routes import PREFIX
from treadle.wire.problems import BusyError


async def woken(*tasks: "asyncio.Task[Any]") -> list[bool]:
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


@within(60)
async def test_a12_lines_of_users_are_served_one_after_the_other() -> None:
    turns = Turns(most=2, per_user=2)
    await turns.enter("ada")
    await turns.enter("ada")
    again = [asyncio.create_task(turns.enter("ada")) for _ in range(3)]
    assert await woken(*again) == [False, False, False]
    other = asyncio.create_task(turns.enter("bob"))
    await woken(other)
    turns.leave("ada")
    assert await woken(*again, other) == [True, False, False, False]
    turns.leave("ada")
    assert await woken(*again, other) == [True, False, False, True]
    again[1].cancel()
    await woken(again[1])
    turns.leave("bob")
    assert await woken(again[2]) == [True]


@within(60)
async def test_a12_a_line_that_is_too_long_is_refused() -> None:
    turns = Turns(most=1, per_user=1, waiting_per_user=1, waiting_most=2)
    await turns.enter("ada")
    waiting = [asyncio.create_task(turns.enter(name)) for name in ("ada", "bob")]
    await woken(*waiting)
    with pytest.raises(TooFastError, match="1 read of ada wait already"):
        await turns.enter("ada")
    with pytest.raises(BusyError, match="too many reads"):
        await turns.enter("eve")
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/v1/jobs"), ("GET", "/api/v1/health"), ("GET", "/api/v1/status")],
)
@within(180)
async def test_a12_orders_and_status_need_no_turn(method: str, path: str) -> None:
    turns = ReadTurns()
    scopes = [{"method": method, "path": path}] * 20
    entered = [await turns.of(scope, "ada").__aenter__() for scope in scopes]
    assert len(entered) == 20


async def _entered(turns: ReadTurns, *routes: tuple[str, str]) -> list[bool]:
    """Whether each of these requests of one user has its turn, if none is given back."""
    async with contextlib.AsyncExitStack() as held:
        scopes = [{"method": method, "path": f"/api/v1{path}"} for method, path in routes]
        tasks = [
            asyncio.create_task(held.enter_async_context(turns.of(scope, "ada")))
            for scope in scopes
        ]
        found = await woken(*tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found


@pytest.mark.parametrize("name", ["status", "nodes", "health", "dry-run"])
def test_a12_a_job_with_the_name_of_a_route_has_turns_like_any_other(name: str) -> None:
    reads = [("GET", f"/jobs/{name}")] * 3
    assert asyncio.run(_entered(ReadTurns(), *reads)) == [True, True, False]


def test_a12_what_must_be_computed_has_turns_of_its_own() -> None:
    routes = [("GET", "/jobs/7/why"), ("POST", "/jobs/dry-run"), ("GET", "/jobs/7")]
    assert asyncio.run(_entered(ReadTurns(), *routes)) == [True, False, True]


@within(180)
async def test_a12_simulations_of_two_users_keep_no_computed_read_waiting() -> None:
    turns = ReadTurns()
    asked = {"method": "POST", "path": "/api/v1/what-if"}
    first = turns.of(asked, "ada")
    await first.__aenter__()
    second = asyncio.create_task(turns.of(asked, "bob").__aenter__())
    assert await woken(second) == [False]
    for user in ("ada", "eve"):
        await turns.of({"method": "GET", "path": "/api/v1/queue"}, user).__aenter__()
    await first.__aexit__(None, None, None)
    assert await woken(second) == [True]


def test_there_are_routes_of_every_load() -> None:
    assert {TABLE[each].load for each in offered()} == set(Load)


async def _begins(turns: ReadTurns, method: str, path: str) -> None:
    async with turns.of({"method": method, "path": f"{PREFIX}{path}"}, "ada"):
        pass


@within(180)
async def test_no_read_begins_while_an_order_is_under_way() -> None:
    turns = ReadTurns()
    async with turns.of({"method": "POST", "path": f"{PREFIX}/jobs"}, "bob"):
        reads = [("GET", "/jobs"), ("GET", "/snapshot"), ("POST", "/jobs/dry-run")]
        tasks = [asyncio.create_task(_begins(turns, *read)) for read in reads]
        status = asyncio.create_task(_begins(turns, "GET", "/status"))
        assert await woken(*tasks, status) == [False, False, False, True]
    assert await woken(*tasks) == [True, True, True]


@within(180)
async def test_orders_without_a_pause_keep_a_read_for_a_moment_only() -> None:
    turns = ReadTurns()
    async with turns.of({"method": "POST", "path": f"{PREFIX}/jobs"}, "bob"):
        await _begins(turns, "GET", "/jobs")


@within(180)
async def test_reads_do_not_wait_for_the_reports_of_jobs() -> None:
    turns = ReadTurns()
    async with turns.of({"method": "POST", "path": f"{PREFIX}/jobs/7/report"}, "bob"):
        read = asyncio.create_task(_begins(turns, "GET", "/jobs"))
        assert await woken(read) == [True]
