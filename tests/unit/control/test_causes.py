"""Causes that are kept with decisions and counted in usage."""

from pathlib import Path

import pytest

from tests.store.made import attempt
from tests.unit.control.memory import ME, Bench, playing
from treadle.control.api.decision_causes import Happened, cause, happened, swaps_of
from treadle.control.api.spells import Now
from treadle.control.api.usage_days import days_of
from treadle.control.loop import wall
from treadle.core.cluster import Device, Node
from treadle.core.events import DeviceOpened, JobFinished, JobStarted, NodeJoined
from treadle.store.rows import AttemptRow, Batch
from treadle.store.store import Store
from treadle.wire.decisions import Decision, DecisionChange
from treadle.wire.jobs import State
from treadle.wire.machine import PolicyChange
from treadle.wire.usage_days import UsageDayRow


def test_its_own_wish_and_the_devices_that_became_free() -> None:
    change = _change("5", (), ("h:0", "h:1"))
    before = [
        Happened("ann submitted job 5", asks="5"),
        Happened("job 3 finished", frees=frozenset({"h:1", "h:2"})),
        Happened("job 4 finished", frees=frozenset({"h:3"})),
    ]
    numbers = cause(change, before, swaps_of([change])).numbers
    assert numbers["asked"] == ("ann submitted job 5",)
    assert numbers["freed"] == ("job 3 finished",)


def test_one_job_makes_way_for_another() -> None:
    shrinks, starts = (
        _change("1", ("h:0", "h:1", "h:2"), ("h:0",)),
        _change("2", (), ("h:1", "h:2")),
    )
    swaps = swaps_of([shrinks, starts])
    assert cause(starts, [], swaps).numbers["from_jobs"] == ("1",)
    assert cause(shrinks, [], swaps).numbers["to_jobs"] == ("2",)
    assert cause(shrinks, [], swaps, for_job="9").numbers["to_jobs"] == ("9",)


def test_what_an_event_asks_and_frees() -> None:
    assert happened(JobFinished("3", 1), "x", "3", ("h:0",)).frees == {"h:0"}
    assert happened(JobStarted("3", 1, 0.0, 1.0), "x", "3", ("h:0",)) == Happened("x")
    assert happened(DeviceOpened(Device("h", 2)), "x", "", ()).frees == {"h:2"}
    assert happened(NodeJoined(Node("n", 2)), "x", "", ()).frees == {"n:0", "n:1"}


def _change(job: str, before: tuple[str, ...], after: tuple[str, ...]) -> DecisionChange:
    return DecisionChange(job=job, kind="", before=before, after=after)


# -- Reasons outlive the daemon, within bounds; another policy is a reason too ---------------------


def decision(number: int, because: str = "") -> Decision:
    change = DecisionChange(job="1", kind="start", before=(), after=("here:0",), because=because)
    return Decision(
        id=number,
        at=float(number),
        policy="fifo",
        cpu_ms=0.1,
        events=(),
        changes=(change,),
        running=1,
        waiting=0,
        free=0,
    )


@playing(devices=2, policy="fifo")
async def test_a_start_that_follows_from_another_policy_says_so(here: Bench) -> None:
    """Under fifo a job waits behind a large one; the other policy lets it overtake."""
    await here.runs()
    await here.submit("forever", devices="2", estimate_s=1000)
    small = await here.submit("forever", estimate_s=10)
    await here.settle()
    assert here.state(small) is State.PENDING
    await here.live.set_policy(ME, PolicyChange(policy="srtf"))
    await here.reached(small, State.RUNNING)
    while not (found := here.live.decisions(job=small).decisions):
        await here.settle()
    assert found[0].events[0] == "the policy is now srtf"
    [change] = found[0].changes
    assert change.because


# -- Usage: an hour is wasted for one cause, and what runs is measured like what has ended ---------


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


@playing()
async def test_what_runs_is_used_and_idle_before_it_ends(here: Bench) -> None:
    """Of two jobs that run, the devices of one are measured."""
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


@playing()
async def test_what_was_lost_with_a_node_has_not_failed(here: Bench) -> None:
    job = await here.runs()
    here.memory.lose_node("here")
    await here.reached(job, State.PENDING)
    await here.settle()
    [row], [whole] = (await here.live.usage_days()).rows, await here.live.usage()
    assert whole.allocated_h > 0.0
    assert row.failed_h == whole.failed_h == 0.0
    (attempt,) = (await here.live.job(job)).attempts
    assert attempt.failure is not None
    assert attempt.failure.sentence == "A node was lost."
    events = (await here.live.events(job=job)).events
    assert any(e.text == f"attempt 1 of job {job} was lost with its node" for e in events)
