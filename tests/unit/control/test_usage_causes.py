"""Usage: an hour is wasted for one cause, and what runs is measured like what has ended."""

from pathlib import Path

import pytest

from tests.store.made import attempt
from tests.unit.control.memory import Bench, play
from treadle.control.api.spells import Now
from treadle.control.api.usage_days import days_of
from treadle.control.loop import wall
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded
from treadle.engines.fleet.gang import LEASE_OVER
from treadle.store.rows import AttemptRow, Batch
from treadle.store.store import Store
from treadle.wire.jobs import State
from treadle.wire.usage_days import UsageDayRow

HOUR = 3600.0


def ran(job: str, busy: float | None, *, failed: bool = False) -> AttemptRow:
    """For an hour on one device."""
    row = attempt(job, started_at=HOUR, ended_at=2 * HOUR)
    return row._replace(devices=("here:0",), busy=busy, failed=failed)


def day(root: Path, *rows: AttemptRow) -> UsageDayRow:
    with Store.open(f"sqlite:///{root}/treadle.db") as store:
        store.write(Batch(attempts=list(rows)))
        [found] = days_of(store, Now((), {}), {}, (0.0, 10 * HOUR), 10 * HOUR).rows
    return found


def test_what_a_failed_attempt_held_idly_is_wasted_once(tmp_path: Path) -> None:
    found = day(tmp_path, ran("a", 0.25, failed=True), ran("b", 0.5), ran("c", None))
    assert (found.allocated_h, found.failed_h) == (3.0, 1.0)
    assert (found.measured_h, found.used_h, found.idle_h) == (2.0, 0.75, 0.5)


def test_what_runs_is_used_and_idle_before_it_ends(tmp_path: Path) -> None:
    """Of two jobs that run, the devices of one are measured."""

    async def story(here: Bench) -> None:
        measured = await here.submit("forever", devices="2")
        other = await here.submit("forever")
        await here.reached(measured, State.RUNNING)
        await here.reached(other, State.RUNNING)
        await here.settle()
        here.world.busy[measured] = 0.25
        context = here.live.context
        seen = context.engine.measurements()
        context.learner.seen.see(seen, {}, {}, now=context.clock.now(), wall_at=wall())
        [row], [whole] = (await here.live.usage_days()).rows, await here.live.usage()
        assert row.used_h == pytest.approx(0.25 * row.measured_h)
        assert row.idle_h == pytest.approx(0.75 * row.measured_h)
        assert 0.0 < row.measured_h < row.allocated_h
        assert row.used_h is not None
        assert whole.used_h is not None
        assert row.used_h <= whole.used_h < 0.25 * whole.allocated_h, "asked a moment later"

    play(story, tmp_path)


def test_what_was_lost_with_a_node_has_not_failed(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever")
        await here.reached(job, State.RUNNING)
        here.memory.lose_node("here")
        await here.reached(job, State.PENDING)
        [row], [whole] = (await here.live.usage_days()).rows, await here.live.usage()
        assert whole.allocated_h > 0.0
        assert row.failed_h == whole.failed_h == 0.0
        (attempt,) = (await here.live.job(job)).attempts
        assert attempt.failure is not None
        assert attempt.failure.sentence == "A node was lost."
        events = (await here.live.events(job=job)).events
        assert any(e.text == f"attempt 1 of job {job} was lost with its node" for e in events)

    play(story, tmp_path)


def test_what_was_lost_because_an_agent_hung_does_not_say_that_its_node_was(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="2")
        await here.reached(job, State.RUNNING)
        why = LEASE_OVER.format("here")
        end = AttemptEnded(job, 0, 1, How.LOST, 137, error=why, node_lost=True)
        here.live.context.inbox.tell(end)
        await here.settle()
        detail = await here.live.job(job)
        failure = detail.attempts[0].failure
        assert failure is not None
        assert (failure.sentence, failure.evidence) == ("The lease of its node ran out.", why)
        assert detail.job.failures == 0
        events = (await here.live.events(job=job)).events
        said = f"attempt 1 of job {job} was lost: {why}"
        assert any(each.text == said for each in events)

    play(story, tmp_path)
