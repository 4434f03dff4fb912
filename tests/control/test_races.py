"""Things that happen at the worst moment: while the controller writes down what it has decided."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.control.asking import told
from tests.control.living import ME, bash, ended, until, view_of
from treadle.control.api.service import Live
from treadle.core.actions import Action, Change
from treadle.core.events import Event, JobFailed, JobFinished
from treadle.engines.inbox import Inbox
from treadle.wire.jobs import JobChange, State


def when_changed(live: Live, go: Path, kind: type) -> None:
    """Let jobs end while a change is being written: their end is unread when it is given."""
    keep = live._controller._keep
    assert keep is not None

    async def slow(now: float, events: Sequence[Event], actions: Sequence[Action]) -> None:
        await keep(now, events, actions)
        if any(isinstance(action, Change) for action in actions):
            go.touch()
            while not any(isinstance(event, kind) for event in live.desk.inbox._queue):
                await asyncio.sleep(0.005)

    live._controller._keep = slow


@pytest.mark.parametrize(
    ("code", "kind", "state"),
    [(0, JobFinished, State.SUCCEEDED), (3, JobFailed, State.FAILED)],
)
def test_a_job_that_ends_while_it_is_to_be_resized_is_not_started_again(
    tmp_path: Path, code: int, kind: type, state: State
) -> None:
    go, starts = tmp_path / "go", tmp_path / "starts"

    async def story(live: Live) -> None:
        when_changed(live, go, kind)
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
        attempts = live.job(job).attempts
        assert [attempt.told for attempt in attempts] == ["", "called off"]

    told(story, tmp_path, policy="max-min+steady?run_s=0&rest_s=0")


def test_an_unread_end_answers_a_later_order_and_only_that_jobs() -> None:
    async def story() -> None:
        inbox = Inbox()
        inbox.put_nowait(None)
        inbox.put_nowait(JobFinished("a", 3))
        assert not inbox.answers("b", 5)
        assert not inbox.answers("a", 3)
        assert inbox.answers("a", 5)
        assert [inbox.get_nowait() for _ in range(2)] == [None, JobFinished("a", 5)]
        assert not inbox.answers("a", 6)

    asyncio.run(story())


def test_two_changes_at_once_do_not_undo_each_other(tmp_path: Path) -> None:
    """Somebody raises the priority while a report of progress is about to change the length."""

    async def story(live: Live) -> None:
        job = (await live.submit(ME, bash("exec sleep 60", grace_s=0.2))).id
        await until(live, State.RUNNING, jobs=(job,))
        desk = live.desk
        row = desk.scheduler.jobs[job]
        change = asyncio.ensure_future(live.change(ME, job, JobChange(priority=7)))
        await asyncio.sleep(0)
        gauge = desk.meter.gauge(job)
        assert gauge is not None
        gauge.seen_share = 0.5
        live._watching._tell(row, gauge, 0.01)
        await change
        await asyncio.sleep(0.05)
        spec = desk.scheduler.jobs[job].spec
        assert spec.priority == 7
        assert spec.iterations == pytest.approx(100.0)
        assert not desk.told
        assert view_of(live, job).priority == 7

    told(story, tmp_path)
