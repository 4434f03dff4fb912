"""Jobs that people pause and resume, as the daemon keeps and shows them."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import HOME, ME, OTHER, Bench, play_on, playing
from treadle.control.jobs.attempts import closed
from treadle.control.jobs.records import attempt_body, attempt_of
from treadle.core.allocation import Pause
from treadle.core.attempt import How, LastProgress
from treadle.core.cluster import Device, Node
from treadle.core.events import AttemptEnded
from treadle.core.sighting import Load, Sighting
from treadle.engines.memory_world import MemoryWorld
from treadle.models.learning.kinds import by_command
from treadle.models.learning.outcome import Outcome
from treadle.store.rows import AttemptRow
from treadle.wire.job_orders import JobsOrder, Verb
from treadle.wire.jobs import AttemptView, State
from treadle.wire.problems import ConflictError, NotAllowedError


@playing(devices=1)
async def test_a_paused_job_leaves_its_device_and_goes_on_where_it_was(here: Bench) -> None:
    """1. ada pauses a. 2. b runs on its device. 3. a is resumed, and goes on when b has ended."""
    job = await here.runs()
    (view,) = await here.live.pause(ME, job)
    assert view.state is State.PAUSED
    other = await here.runs()
    await here.settle()
    (view,) = (await here.live.jobs(name="", states=("PAUSED",))).jobs
    assert (view.id, view.devices, view.cause) == (job, (), "paused")
    assert view.pause is not None
    assert (view.pause.how, view.pause.by, view.pause.devices) == (
        Pause.FROZEN,
        ME.user,
        ("here:0",),
    )
    why = await here.live.why(job)
    assert (why.code, why.numbers["by"], why.numbers["jobs"]) == ("paused", ME.user, (other,))
    assert why.change == f"treadle resume {job}"
    assert here.live.status().paused == 1
    (device,) = here.live.nodes()[0].devices
    assert (device.jobs, device.paused) == ((other,), (job,))
    (device,) = (await here.live.order_node(ME, "here", "drain")).devices
    assert (device.jobs, device.paused) == ((other,), (job,))
    await here.live.order_node(ME, "here", "undrain")
    assert (await here.live.why(job, verbose=True)).alternatives == ()
    (view,) = await here.live.resume(ME, job)
    assert view.state is State.PAUSED
    here.memory.finish(other)
    await here.reached(job, State.RUNNING)
    detail = await here.live.job(job)
    assert (detail.job.attempts, detail.job.pause) == (1, None)
    assert [run.number for run in detail.attempts] == [1]
    events = (await here.live.events(after=0, limit=500)).events
    changes = [event.body for event in events if event.job == job and event.kind == "Change"]
    assert [bool(body.get("resumes")) for body in changes] == [False, True]
    (released,) = [event.body for event in events if event.kind == "JobReleased"]
    assert released["by"] == ME.user


@playing(devices=1)
async def test_time_that_it_is_paused_counts_as_no_time_of_the_job(here: Bench) -> None:
    job = await here.runs()
    record, rows = here.live.context.jobs.records[job], here.live.context.scheduler.jobs
    began_s = record.began_s
    await here.live.pause(ME, job)
    await here.settle()
    done, held_s, paused_s = rows[job].iterations_done, rows[job].held_s, record.paused_s
    await here.live.resume(ME, job)
    await here.reached(job, State.RUNNING)
    now = here.live.context.clock.now()
    assert began_s is not None
    assert record.began_s is not None
    assert paused_s is not None
    away_s = record.began_s - began_s
    assert 0 < away_s <= now - paused_s
    assert rows[job].iterations_done >= done > 0
    assert held_s <= rows[job].held_at(now) < now - paused_s + held_s


@playing(devices=1)
async def test_a_hold_pauses_a_running_job_where_it_can(here: Bench) -> None:
    job = await here.runs(resumable=True)
    (view,) = await here.live.hold(ME, job)
    assert view.state is State.PAUSED
    here.world.pauses = ()
    other = await here.runs(resumable=True)
    await here.live.hold(ME, other)
    await here.reached(other, State.HELD)
    await here.live.release(ME, job)
    await here.reached(job, State.RUNNING)


@playing(devices=1)
async def test_a_job_that_cannot_be_paused_runs_on(here: Bench) -> None:
    """1. It said that it can be, and cannot. 2. It did not say so."""
    job = await here.runs()
    here.world.refusing[job] = "its memory cannot be moved"
    await here.live.pause(ME, job)
    await here.settle()
    assert here.state(job) is State.RUNNING
    detail = await here.live.job(job)
    assert (detail.pauses, detail.not_paused) == ((), "its memory cannot be moved")
    with pytest.raises(ConflictError, match="its memory cannot be moved"):
        await here.live.pause(ME, job)


@playing(devices=1)
async def test_pausing_many_pauses_those_that_can_be_and_holds_those_that_wait(here: Bench) -> None:
    runs, waits = await here.runs(), await here.submit("true")
    order = JobsOrder(verb=Verb.PAUSE, ids=(runs, waits, "99"), how=Pause.SUSPENDED)
    done = await here.live.order(ME, order)
    assert (done.done, done.refused) == (2, 1)
    await here.settle()
    assert (here.state(runs), here.state(waits)) == (State.PAUSED, State.HELD)
    with pytest.raises(NotAllowedError):
        await here.live.resume(OTHER, runs)


@pytest.mark.parametrize("verb", ["pause", "hold"])
@playing(devices=1)
async def test_a_job_that_is_starting_is_paused_once_it_runs_and_loses_nothing(
    here: Bench, verb: str
) -> None:
    here.memory.hang("1")
    job = await here.submit("forever")
    await here.reached(job, State.STARTING)
    await getattr(here.live, verb)(ME, job)
    here.memory.release(job)
    await here.reached(job, State.PAUSED)
    await here.live.resume(ME, job)
    await here.reached(job, State.RUNNING)
    assert (await here.live.job(job)).job.attempts == 1


@playing(devices=1)
async def test_a_frozen_job_cannot_be_suspended_and_says_so(here: Bench) -> None:
    job = await here.runs()
    await here.live.pause(ME, job)
    with pytest.raises(ConflictError):
        await here.live.pause(ME, job, how=Pause.SUSPENDED)
    (view,) = await here.live.pause(ME, job)
    assert view.pause is not None
    assert view.pause.how is Pause.FROZEN


@playing(devices=1)
async def test_a_paused_job_ends_if_it_is_cancelled(here: Bench) -> None:
    job = await here.runs()
    await here.live.pause(ME, job)
    await here.settle()
    await here.live.cancel(ME, job)
    await here.reached(job, State.CANCELLED)
    assert here.world.running() == []


def test_a_paused_job_is_paused_after_a_restart_of_the_daemon(tmp_path: Path) -> None:
    world, jobs = MemoryWorld.of(Node("here", 1, "none")), list[str]()

    async def before(here: Bench) -> None:
        jobs.append(await here.runs())
        await here.live.pause(ME, jobs[0])
        await here.settle()

    async def after(here: Bench) -> None:
        await here.settle()
        assert here.state(jobs[0]) is State.PAUSED
        await here.live.resume(ME, jobs[0])
        await here.reached(jobs[0], State.RUNNING)
        assert len(world.attempts) == 1

    play_on(world, before, tmp_path)
    play_on(world, after, tmp_path)


def test_an_attempt_that_was_paused_began_when_it_began() -> None:
    """It ran from 100 to 110 s and from 125 to 130 s; charged is what it ran."""
    row = AttemptRow(
        *("1", 1, 0, "ada", "", ("here:0",)),
        started_at=100.0,
        ended_at=None,
        busy=None,
        failed=False,
        body=attempt_body(AttemptView(number=1, devices=("here:0",), started_at=100.0)),
    )
    ended = AttemptEnded("1", 0, 1, How.EXITED, code=0, ran_s=15.0, ended_at=130.0)
    done = closed(row, ended, None, 131.0, away_s=15.0)
    assert attempt_of(done.body).started_at == 100.0
    assert (done.started_at, done.ended_at) == (115.0, 130.0)
    set_back = closed(row, replace(ended, ended_at=40.0), None, 41.0, away_s=15.0)
    assert attempt_of(set_back.body).started_at == 10.0


@playing(devices=2)
async def test_a_start_that_a_person_holds_up_is_unknown_and_says_so(here: Bench) -> None:
    """1. A is paused, and its dependent waits for it. 2. A is resumed, and its device is closed;
    of b, on the other device, nothing is known."""
    a = await here.runs()
    dependent = await here.submit("true", after=(a,))
    await here.live.pause(ME, a)
    await here.settle()
    start = await here.start(dependent)
    assert (start.earliest_s, start.latest_s, start.unknown) == (None, None, ())
    assert start.sentence == f"job {a} is paused"
    there = await here.runs()
    here.memory.close_device(Device("here", 0), "avoided", "an admin avoids it")
    await here.runs()
    await here.live.resume(ME, a)
    await here.settle()
    for job in (a, dependent):
        start = await here.start(job)
        assert (start.latest_s, start.unknown) == (None, ())
        assert start.sentence == "device here:0 is closed"
    assert (await here.live.why(a)).numbers["jobs"] == (there,)


@playing(devices=1)
async def test_what_a_paused_job_has_done_and_had_is_not_lost_nor_added_to(here: Bench) -> None:
    """It keeps checkpoints, has none yet, and is paused: it goes on where it was."""
    job = await here.runs(resumable=True)
    context = here.live.context
    context.learner.hear(job, LastProgress(60.0, 100.0, 1.0, measured_s=20.0))
    before = await here.live.job(job)
    await here.live.pause(ME, job)
    await here.settle()
    first, second = await here.live.job(job), await here.live.job(job)
    assert dict((await here.live.why(job)).details).keys() == {"done", "devices"}
    (run,), (later,) = first.attempts, second.attempts
    assert 0 < run.paused_s < later.paused_s
    assert before.job.device_s < first.job.device_s == second.job.device_s
    await here.live.resume(ME, job)
    await here.reached(job, State.RUNNING)
    here.memory.finish(job)
    await here.reached(job, State.SUCCEEDED)
    ended = await here.live.job(job)
    (run,) = ended.attempts
    assert run.ended_at is not None
    assert run.paused_s > later.paused_s
    ran_s = run.ended_at - run.started_at - run.paused_s
    assert ended.job.device_s == pytest.approx(ran_s, abs=0.01)


@pytest.mark.parametrize("share", ["on", "off"])
def test_a_start_may_be_earlier_by_sharing_only_where_the_job_may_share(
    share: str, tmp_path: Path
) -> None:
    """One job is paused for an urgent one, another waits, and how much both use is known."""
    known, other = (
        by_command(ME.user, model, ("forever",), folder=HOME) for model in ("", "other")
    )
    sight = Sighting(alone_s=30.0, load=Load(busy=0.4), device_memory_peak_gib=3.0)

    async def story(here: Bench) -> None:
        profiles = here.live.context.learner.profiles
        for _ in range(3):
            profiles.observe(known, Outcome(1, 100.0, whole=True, seen=sight))
            profiles.observe(other, Outcome(1, 50.0, whole=True))
        paused = await here.runs(guaranteed=False)
        await here.runs(model="other", priority=1, exclusive=True)
        waits = await here.submit("forever")
        await here.settle()
        assert (here.state(paused), here.state(waits)) == (State.PAUSED, State.PENDING)
        status = here.live.status()
        assert (status.running, status.waiting, status.paused) == (1, 1, 1)
        assert "share" not in (await here.start(paused)).sentence
        assert ("share" in (await here.start(waits)).sentence) == (share == "on")

    world = MemoryWorld.of(Node("here", 1, "none"))
    play_on(world, story, tmp_path, policy=f"weave-l?share={share}")


def test_a_job_on_several_nodes_is_refused_to_be_paused_by_their_number(tmp_path: Path) -> None:
    """While it starts as well: it is known where it will be."""

    async def story(here: Bench) -> None:
        here.memory.hang("1")
        job = await here.submit("forever", devices="2")
        for state in (State.STARTING, State.RUNNING):
            await here.reached(job, state)
            with pytest.raises(ConflictError, match="it is on 2 nodes"):
                await here.live.pause(ME, job)
            here.memory.release(job)

    play_on(MemoryWorld.of(Node("a", 1, "none"), Node("b", 1, "none")), story, tmp_path)
