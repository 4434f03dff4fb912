"""Things that happen at the worst moment: while the controller writes down what it has decided."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.control.asking import looked_at, telling
from tests.control.living import ME, bash, ended, until, view_of
from treadle.control.api import LiveService
from treadle.control.jobs import Fact
from treadle.core.actions import Action, Change
from treadle.core.attempt import LastProgress
from treadle.core.events import AttemptEnded
from treadle.wire.jobs import JobChange, State


def when_changed(live: LiveService, go: Path) -> None:
    """Let jobs end while a change is being written: their end is unread when it is given."""
    commit, queue = live.context.commit, live.context.inbox._queue  # type: ignore[attr-defined]
    applied, settled = commit.apply, commit.settle
    changes: list[Action] = []

    def apply(now: float, facts: Sequence[Fact], actions: Sequence[Action]) -> None:
        applied(now, facts, actions)
        changes.extend(action for action in actions if isinstance(action, Change))

    async def slow() -> None:
        await settled()
        if changes:
            go.touch()
            while not any(isinstance(fact, AttemptEnded) for fact in queue):
                await asyncio.sleep(0.005)
            changes.clear()

    commit.apply, commit.settle = apply, slow  # type: ignore[method-assign]


@pytest.mark.parametrize(("code", "state"), [(0, State.SUCCEEDED), (3, State.FAILED)])
@telling(policy="max-min")
async def test_a_job_that_ends_while_it_is_to_be_resized_is_not_started_again(
    live: LiveService, tmp_path: Path, code: int, state: State
) -> None:
    go, starts = tmp_path / "go", tmp_path / "starts"
    when_changed(live, go)
    wait = f"until test -e {go}; do sleep 0.01; done"
    body = f"echo $TREADLE_ATTEMPT >> {starts}; {wait}; exit {code}"
    request = bash(body, devices="1..4", resumable=True, ranks="one", retries=0)
    job = (await live.submit(ME, request)).id
    await until(live, State.RUNNING, jobs=(job,))
    other = (await live.submit(ME, bash("true", devices="2"))).id
    views = await ended(live, job, other)
    assert [view.state for view in views] == [state, State.SUCCEEDED]
    assert views[0].code == code
    assert starts.read_text() == "1\n"
    attempts = (await live.job(job)).attempts
    assert [attempt.told for attempt in attempts] == [""]


@telling()
async def test_two_changes_at_once_do_not_undo_each_other(live: LiveService) -> None:
    """A user raises the priority while a report of progress is about to change the length."""
    job = (await live.submit(ME, bash("exec sleep 60", grace_s=0.2))).id
    await until(live, State.RUNNING, jobs=(job,))
    scheduler = live.context.scheduler
    row = scheduler.jobs[job]
    change = asyncio.ensure_future(live.change(ME, job, JobChange(priority=7)))
    await asyncio.sleep(0)
    gauge = live.context.learner.gauge(job)
    assert gauge is not None
    gauge.seen_share = 0.5
    said = LastProgress(50, 100, share=0.5, share_per_s=0.01)
    live.context.inbox.tell(*live._reporting._progress._facts(row, said, gauge))
    await change
    await looked_at(live)
    spec = scheduler.jobs[job].spec
    assert spec.priority == 7
    assert spec.iterations == pytest.approx(100.0)
    assert not live.context.inbox._specs
    assert (await view_of(live, job)).priority == 7
