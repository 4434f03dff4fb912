"""A controller that is killed while it launches, or returns while a supervisor begins."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, tell
from tests.engines.test_local_adoption import row

from treadle.core.actions import Change
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent import adoption
from treadle.engines.node import attempt_folders as folders


def test_an_attempt_whose_supervisor_just_begins_is_not_launched_a_second_time(tmp_path: Path):
    """1. A supervisor has the lock and has written nothing yet. 2. The controller returns."""

    async def story(bench: Story) -> None:
        places = bench.engine.folders
        mark = AttemptId("a", 1)
        with folders.locked(places.make(*mark, action=8)):
            starting = row("a", Phase.STARTING, allocation=on(0), action=8, attempt=8)
            plan = adoption.plan(places, [starting], [mark])
        assert [(each.owed, each.found and each.found.alive) for each in plan.jobs] == [
            (None, True)
        ]
        assert not plan.strays
        assert not plan.over

    tell(tmp_path, story)


def killed_at(call: int) -> Callable[..., None]:
    calls = count(1)

    def step(*_: object, **__: object) -> None:
        if next(calls) == call:
            raise SystemExit

    return step


def test_an_attempt_that_was_about_to_be_launched_is_owed_and_not_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """1. The controller is killed while it makes the folder, at each point. 2. It returns."""

    async def story(bench: Story) -> None:
        places = bench.engine.folders
        starting = row("a", Phase.STARTING, allocation=on(0), action=8, attempt=8)
        points = [(Path, "mkdir", 1), (folders, "_refuse_link", 1), (folders, "_refuse_link", 2)]
        for number, (where, point, call) in enumerate([*points, (folders, "replace", 1)], 1):
            mark = AttemptId("a", number)
            with monkeypatch.context() as patched:
                patched.setattr(where, point, killed_at(call))
                with pytest.raises(SystemExit):
                    places.make(*mark, action=8)
            plan = adoption.plan(places, [starting], [mark])
            assert [each.owed for each in plan.jobs] == [Change(8, "a", on(0))]
            assert not plan.over
            assert mark not in [stray.id for stray in plan.strays]

    tell(tmp_path, story)
