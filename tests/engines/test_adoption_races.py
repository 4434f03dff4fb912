"""A controller that is killed while it launches, or returns while a supervisor begins."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, telling
from tests.engines.test_local_adoption import WAITS, adopt, restart, row

from treadle.core.actions import Start
from treadle.core.errors import EngineError
from treadle.core.events import JobFailed, JobFinished, JobStarted
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import DeviceOrder, Leftovers, NodeOrder
from treadle.engines.agent.found import look
from treadle.engines.node import attempt_folders as folders
from treadle.engines.node.attempt_folders import AttemptFolders

MARK = AttemptId("a", 1)


def test_an_attempt_whose_supervisor_just_begins_is_there(tmp_path: Path):
    """A supervisor has the lock and has written nothing yet: it answers the order of its mark."""
    places = AttemptFolders(tmp_path)
    with folders.locked(places.make(*MARK, action=8)):
        found = look(places, MARK)
    assert (found.alive, found.never_was, found.action) == (True, False, 8)


def killed_at(call: int) -> Callable[..., None]:
    calls = count(1)

    def step(*_: object, **__: object) -> None:
        if next(calls) == call:
            raise SystemExit

    return step


@pytest.mark.parametrize(
    ("where", "point", "call"),
    [
        (Path, "mkdir", 1),
        (folders, "_make", 1),
        (folders, "_make", 2),
        (folders, "put", 1),
    ],
)
@telling()
async def test_an_attempt_that_was_about_to_be_launched_is_launched(
    bench: Story, monkeypatch: pytest.MonkeyPatch, where: object, point: str, call: int
) -> None:
    """1. The controller is killed while it makes the folder. 2. It returns."""
    bench.job("a", "true")
    bench.jobs.numbers["a", 8] = 1
    with monkeypatch.context() as patched:
        patched.setattr(where, point, killed_at(call))
        with pytest.raises(SystemExit):
            bench.folders.make(*MARK, action=8)
    starting = row("a", Phase.STARTING, allocation=on(0), action=8, attempt=8)
    await bench.engine.adopt([starting], [MARK])
    assert await bench.event() == JobStarted("a", 8, 0.0, 1.0, attempt=1)
    assert await bench.event() == JobFinished("a", 8)
    assert [ended.attempt for ended in bench.ends] == [1]


@telling()
async def test_a_request_that_comes_before_the_adoption_ends_nothing(
    bench: Story, tmp_path: Path
) -> None:
    """The daemon answers while it begins: `logs` and `drain` may be there first."""
    bench.job("a", "sh", "-c", WAITS, str(tmp_path / "go"))
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await restart(bench)
    with pytest.raises(EngineError):
        await bench.engine.output(AttemptId("a", 1), 0)
    with pytest.raises(EngineError):
        await bench.engine.order_node("here", NodeOrder.DRAIN)
    with pytest.raises(EngineError):
        await bench.engine.order_device(on(0).devices[0], DeviceOrder.AVOID)
    assert await bench.engine.discard("a") == Leftovers()
    await adopt(bench, row("a", Phase.RUNNING, allocation=on(0)))
    (tmp_path / "go").touch()
    assert await bench.event() == JobFailed("a", 0, 0.0)
    assert [ended.code for ended in bench.ends] == [5]
