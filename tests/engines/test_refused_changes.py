"""Ranks that are added or replaced while a job runs, and fail: the job goes on."""

import os
import signal
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, tell, telling
from tests.engines.test_live_changes import Flexible

from treadle.core.attempt import How
from treadle.core.events import RankReplaced
from treadle.core.job import Job
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent import live_changes
from treadle.engines.node import order_document
from treadle.testing.builders import job as spec


@telling()
async def test_a2_a_newcomer_that_hangs_is_given_up_and_the_others_go_on(
    bench: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_document, "NEWCOMER_READY_S", 2.0)
    wait = tmp_path / "wait"
    wait.touch()
    job = Flexible(bench, str(wait))
    await job.start(0)
    refused = await job.change(1, 0, 1)
    assert (refused.attempt, refused.refused) == (1, "rank 1 was not ready to train after 2 s")
    assert bench.ends == []
    await bench.until(lambda: job.held() == {0})
    wait.unlink()
    grown = await job.change(2, 0, 1)  # It goes on, and can be changed again.
    assert (grown.attempt, grown.refused) == (1, "")


@pytest.mark.parametrize("code", [1, 137])
@telling()
async def test_a1_a_newcomer_that_ends_ends_only_itself(
    bench: Story, tmp_path: Path, code: int
) -> None:
    wait = tmp_path / "wait"
    wait.touch()
    job = Flexible(bench, str(wait), str(tmp_path / "crash"))
    await job.start(0)
    (tmp_path / "crash").write_text(str(code))
    wait.unlink()
    refused = await job.change(1, 0, 1)
    said = f"rank 1 ended with exit code {code} before it trained"
    assert (refused.attempt, refused.refused) == (1, said)
    assert bench.ends == []
    assert not [fact for fact in bench.jobs.facts if isinstance(fact, RankReplaced)]
    await bench.until(lambda: job.held() == {0})
    (tmp_path / "crash").unlink()
    grown = await job.change(2, 0, 1)
    assert (grown.attempt, grown.refused) == (1, "")


@telling()
async def test_a1_a_job_that_could_not_grow_goes_on_after_a_restart_of_the_engine(
    bench: Story, tmp_path: Path
) -> None:
    wait, crash = tmp_path / "wait", tmp_path / "crash"
    wait.touch()
    job = Flexible(bench, str(wait), str(crash))
    await job.start(0)
    crash.write_text("1")
    wait.unlink()
    assert (await job.change(1, 0, 1)).refused
    crash.unlink()
    await bench.engine.close()
    bench.jobs.facts.clear()
    bench.fresh_engine()
    row = Job(spec("a"), 0, Phase.RUNNING, 0.0, 0.0, allocation=on(0), action=1, attempt=0)
    await bench.engine.adopt([row], [AttemptId("a", 1)])
    assert (await job.reached(1)).attempt == 1
    grown = await job.change(2, 0, 1)
    assert (grown.attempt, grown.refused) == (1, "")
    assert bench.ends == []


@telling()
async def test_a_member_whose_replacement_is_killed_is_replaced_again(
    bench: Story, tmp_path: Path
) -> None:
    crash = tmp_path / "crash"
    job = Flexible(bench, str(tmp_path / "wait"), str(crash))
    await job.start(0, 1)
    crash.write_text("137")
    os.kill(job.pids()["m1"], signal.SIGKILL)
    await bench.until(lambda: "m2" in job.pids() or "m3" in job.pids())
    crash.unlink()
    await bench.until(lambda: len(job.pids()) == 2 and "of 2" in job.log(_newest(job)))
    assert bench.ends == []


def _newest(job: Flexible) -> int:
    return max(int(name[1:]) for name in job.pids())


def test_a_change_that_cannot_be_written_holds_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, document: object) -> None:
        raise OSError(28, "No space left on device")

    async def story(bench: Story) -> None:
        job = Flexible(bench)
        await job.start(0)
        monkeypatch.setattr(live_changes, "_write", full)
        assert (await job.change(1, 0, 1)).refused
        assert job.held() == {0}

    tell(tmp_path, story)


@telling()
async def test_a1_a_job_that_cannot_shrink_while_it_runs_is_restarted_with_another_identity(
    bench: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_document, "NEWCOMER_READY_S", 2.0)
    (tmp_path / "wait").touch()
    job = Flexible(bench, str(tmp_path / "wait"))
    await job.start(0)
    moved = await job.change(1, 1)  # It is to leave its device, which others may be given.
    assert (moved.attempt, moved.refused) == (2, "")
    assert [end.how for end in bench.ends] == [How.REPLACED]
