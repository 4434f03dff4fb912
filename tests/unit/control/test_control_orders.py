"""Orders of people: which go first, what they stop, and that they are kept."""

import threading
from pathlib import Path
from time import monotonic

import pytest
from msgspec.structs import replace

from tests.unit.control.memory import ME, Bench, playing
from treadle.control.jobs import JobRecord, UnwrittenCancels
from treadle.control.jobs.unwritten_cancels import FILE
from treadle.control.loop import commit, controller
from treadle.control.loop.condition import PASSED, REST_S, OrdersUnderWay
from treadle.core.events import JobCancelled
from treadle.store.rows import Batch
from treadle.wire.jobs import JobRequest, State
from treadle.wire.problems import ConflictError, InvalidRequestError

RUNS = State.RUNNING


@playing(devices=1)
async def test_u15_a_dependency_on_an_array_is_in_the_state_of_its_members(here: Bench) -> None:
    """1. All members wait. 2. One of them runs."""
    first = await here.runs()
    array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-1"))
    after = await here.submit("true", after=(array.id,))
    await here.settle()
    waits_for = (await here.live.why(after)).numbers["after"]
    assert waits_for == (("array", array.id, "pending"),)
    here.memory.finish(first)
    await here.reached(array.jobs[0], RUNS)
    waits_for = (await here.live.why(after)).numbers["after"]
    assert waits_for == (("array", array.id, "running"),)


@playing(devices=1)
async def test_holding_an_array_leaves_out_what_would_lose_its_work(here: Bench) -> None:
    """1. One member runs and cannot resume. 2. The others are held. 3. Alone it is refused."""
    here.world.pauses = ()
    array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-2"))
    await here.reached(array.jobs[0], RUNS)
    held = await here.live.hold(ME, array.id)
    assert [view.id for view in held] == list(array.jobs[1:])
    await here.settle()
    assert [here.state(job) for job in array.jobs] == [RUNS, State.HELD, State.HELD]
    with pytest.raises(ConflictError, match="holding it would lose its work"):
        await here.live.hold(ME, array.jobs[0])


@playing()
async def test_releasing_an_array_returns_only_what_was_held(here: Bench) -> None:
    """1. Nothing is held but by the array's limit. 2. One member is held by its user."""
    array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-3%1"))
    await here.reached(array.jobs[0], RUNS)
    assert await here.live.release(ME, array.id) == ()
    await here.live.hold(ME, array.jobs[2])
    released = await here.live.release(ME, array.id)
    assert [view.id for view in released] == [array.jobs[2]]


@playing()
async def test_a_dry_run_after_a_job_that_has_ended_starts_now(here: Bench) -> None:
    done = await here.submit("true")
    await here.reached(done, State.SUCCEEDED)
    running = await here.submit("forever")

    async def starts(**after: tuple[str, ...]) -> bool:
        request = JobRequest(command=("true",), **after)  # type: ignore[arg-type]
        return (await here.live.dry_run(ME, request)).starts_now

    assert await starts(after=(done,))
    assert await starts(after_any=(done,))
    assert not await starts(after=(done, running))
    with pytest.raises(InvalidRequestError, match="after names job 99"):
        await starts(after=("99",))


@playing()
async def test_a_job_that_stops_because_its_user_holds_it_can_be_released_before_it_has(
    here: Bench,
) -> None:
    here.world.pauses = ()
    job = await here.runs(resumable=True)
    here.memory.hang(job)
    (view,) = await here.live.hold(ME, job)
    await here.reached(job, State.STOPPING)
    (view,) = (await here.live.jobs()).jobs
    assert (view.state, view.cause) == (State.STOPPING, "leaving")
    assert view.numbers["by"] == "user"
    await here.live.release(ME, job)
    assert (await here.live.why(job)).numbers["by"] == "policy"
    here.memory.release(job)
    await here.reached(job, RUNS)


@playing(devices=2, policy="afs")
async def test_a_job_that_is_resized_in_place_is_not_said_to_restart(here: Bench) -> None:
    for announced in (("announce", "size"), ()):
        words = (*announced, ";", "forever") if announced else ("forever",)
        job = await here.runs(*words, devices="1,2", resumable=True, estimate_s=9000)
        await here.settle()
        here.memory.hang(job)
        other = await here.submit("forever", estimate_s=9000)
        await here.reached(job, State.RESIZING)
        (view,) = [view for view in (await here.live.jobs()).jobs if view.id == job]
        assert (view.cause, view.numbers["size"]) == ("resizing", 1)
        assert view.numbers["live"] is bool(announced)
        here.memory.release(job)
        for each in (job, other):
            await here.live.cancel(ME, each)
            await here.reached(each, State.CANCELLED)


# -- Somebody who waits for an order goes before those who wait for an answer ----------------------


def test_a_computation_rests_until_the_order_is_over() -> None:
    orders, rested = OrdersUnderWay(), threading.Event()

    def compute() -> None:
        orders.rest()
        rested.set()

    with orders.one():
        with orders.one():
            assert orders.number == 2
        thread = threading.Thread(target=compute)
        thread.start()
    assert rested.wait(30)
    thread.join()
    assert orders.number == 0


def test_orders_without_end_do_not_keep_a_computation() -> None:
    """It rests once, and passes the next places without a rest."""
    orders = OrdersUnderWay()
    with orders.one():
        orders.rest()
        begun_s = monotonic()
        for _ in range(PASSED):
            orders.rest()
        assert monotonic() - begun_s < PASSED * REST_S / 2


@playing()
async def test_a_submission_is_answered_before_the_policy_decides(
    here: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "QUICK_S", 0.0)
    await here.submit("forever")
    await here.settle()
    decisions = here.live.context.scheduler.decisions
    await here.submit("forever")
    assert here.live.context.scheduler.decisions == decisions
    await here.settle()
    assert here.live.context.scheduler.decisions > decisions


@playing()
async def test_a_quick_decision_is_written_with_the_submission(
    here: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "QUICK_S", 60.0)
    monkeypatch.setattr(commit, "LATER_S", 60.0)  # So that no other write comes between.
    written: list[list[str]] = []
    write = here.live.context.store.write

    def note(batch: Batch) -> tuple[int, ...]:
        written.append([row.kind for row in batch.journal if row.kind != "Decided"])
        return write(batch)

    monkeypatch.setattr(here.live.context.store, "write", note)
    await here.runs()
    await here.submit("forever", held=True)
    submitted = ["JobAccepted", "JobSubmitted"]
    assert written == [[*submitted, "Start"], ["JobStarted", *submitted, "JobHeld"]]


@playing(devices=4, policy="srtf")
async def test_an_urgent_job_stops_no_more_jobs_than_it_needs(here: Bench) -> None:
    before = [await here.submit("forever", resumable=True) for _ in range(4)]
    for job in before:
        await here.reached(job, State.RUNNING)
    await here.runs(priority=10)
    await here.settle()
    assert sorted(here.state(job) for job in before) == [State.PENDING, *[State.RUNNING] * 3]


# -- Cancellations that the store has not taken are on disk ----------------------------------------


ONE = JobRecord(
    id="5_1", number=5, name="a", owner="me", command=("x",), submitted_at=1.0, nonce="n"
)

OTHER = replace(ONE, id="5_2")


def test_they_outlive_the_daemon_and_are_of_one_member_alone(tmp_path: Path) -> None:
    UnwrittenCancels(tmp_path).add([ONE], "ada")
    found = UnwrittenCancels(tmp_path)
    records = {record.id: record for record in (ONE, OTHER)}
    assert found.facts(records) == [JobCancelled("5_1", "ada")]
    assert found.facts({"5_1": replace(ONE, nonce="another store")}) == []
    found.drop([ONE])
    assert not (tmp_path / FILE).exists()
    assert UnwrittenCancels(tmp_path).facts(records) == []


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[1]")
    assert UnwrittenCancels(tmp_path).facts({"5_1": ONE}) == []


def test_one_that_could_not_be_written_is_not_said_to_be(tmp_path: Path) -> None:
    found = UnwrittenCancels(tmp_path / "away")
    found.add([ONE], "ada")
    assert not found.has(ONE)
    (tmp_path / "away").mkdir()
    found.add([ONE], "ada")
    assert (found.has(ONE), found.has(OTHER)) == (True, False)
