"""Folders of a job that is started again and again: empty ones go, and output stays."""

from pathlib import Path

import pytest
from tests.engines.bench import Story, on, telling

from treadle.core.actions import Start
from treadle.core.events import JobFailed
from treadle.engines.agent import attempt_launch
from treadle.engines.node import leftovers
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.checkpoint_folders import CheckpointFolders


def test_old_attempts_without_output_go_and_those_with_output_or_alive_stay(tmp_path: Path) -> None:
    folders = AttemptFolders(tmp_path)
    for number in range(1, 31):
        folder = folders.make("7", number, action=number)
        (folder / "rank-0.log").write_text("lost much" if number == 3 else "")
        if number != 5:  # That one is alive.
            folders.forget("7", number)
    removed = leftovers.LeftoverFolders(folders, CheckpointFolders(tmp_path)).thin("7")
    assert removed == 8
    assert [attempt.number for attempt in folders.attempts("7")] == [3, 5, *range(11, 31)]


@telling()
async def test_a_launch_removes_what_earlier_attempts_of_the_job_left(
    bench: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "NEWEST_KEPT", 2)
    monkeypatch.setattr(attempt_launch, "NEWEST_KEPT", 2)
    bench.job("a", "sh", "-c", "exit 3")
    for action in range(4):
        await bench.order(Start(action, "a", on(0)))
        assert await bench.ended() == JobFailed("a", action, 0.0)
    there = bench.folders.attempts("a")
    assert [attempt.number for attempt in there] == [3, 4]
