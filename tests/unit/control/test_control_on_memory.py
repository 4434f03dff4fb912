"""The whole controller on an engine in memory: gates, reasons, ends, learning, adoption."""

from math import inf, nan
from pathlib import Path

import pytest

from tests.unit.control.memory import ME, OTHER, PATIENCE, Bench, play_on, playing
from treadle.control.jobs import Rebuilt, first_cluster, record_of
from treadle.control.loop import PolicyInCharge
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, Event, JobFinished, JobProgressed
from treadle.core.job_report import Report
from treadle.core.live_plans import ModelSize
from treadle.core.scheduler import Scheduler
from treadle.engines.memory_world import MemoryWorld
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import shipped
from treadle.policies.live.naming import PLACEMENT
from treadle.store.rows import JobFilter
from treadle.wire.jobs import Estimate, JobChange, JobRequest, State
from treadle.wire.machine import Role, Who
from treadle.wire.problems import ConflictError, NotAllowedError

RUNS, DONE = State.RUNNING, State.SUCCEEDED


# -- gates ----------------------------------------------------------------------------------------


@playing()
async def test_a_job_starts_after_the_one_it_depends_on(here: Bench) -> None:
    first = await here.submit("forever")
    second = await here.submit("true", after=(first,))
    await here.reached(first, RUNS)
    assert here.state(second) is State.HELD
    why = await here.live.why(second)
    assert (why.code, why.numbers["after"]) == ("dependency", (("job", first, "running"),))
    here.memory.finish(first)
    await here.reached(second, DONE)


@playing()
async def test_a_dependency_that_failed_can_be_dropped(here: Bench) -> None:
    first = await here.submit("exit", "3", retries=0)
    await here.reached(first, State.FAILED)
    second = await here.submit("true", after=(first,))
    await here.settle()
    why = await here.live.why(second)
    assert (why.code, why.never) == ("broken", True)
    assert why.sentence.endswith(f"job {first} failed")
    await here.live.release(ME, second)
    await here.reached(second, DONE)


@playing()
async def test_an_array_keeps_to_its_limit(here: Bench) -> None:
    answer = await here.live.submit(ME, JobRequest(command=("forever",), array="0-3%2"))
    await here.reached(answer.jobs[1], RUNS)
    await here.settle()
    states = [here.state(job) for job in answer.jobs]
    assert states == [RUNS, RUNS, State.PENDING, State.PENDING]
    here.memory.finish(answer.jobs[0])
    await here.reached(answer.jobs[2], RUNS)
    assert here.state(answer.jobs[3]) is State.PENDING


# -- ends as records ------------------------------------------------------------------------------


@playing()
async def test_an_end_becomes_a_record_with_its_verdict(here: Bench) -> None:
    text = "echo ModuleNotFoundError: No module named numpyy ; exit 1"
    job = await here.submit(*text.split(), retries=3)
    await here.reached(job, State.FAILED)
    detail = await here.live.job(job)
    assert (detail.job.code, detail.job.failures, detail.job.attempts) == (1, 1, 1)
    assert detail.failure is not None
    assert detail.failure.kind == "deterministic"
    assert detail.failure.evidence == "ModuleNotFoundError: No module named numpyy"
    assert not detail.failure.retried


@pytest.mark.parametrize(
    ("how", "state", "shown"),
    [(How.TIME_LIMIT, State.TIMEOUT, "time-limit"), (How.OOM_KILLED, State.FAILED, "oom-killed")],
)
@playing()
async def test_an_end_from_outside_keeps_its_name(
    here: Bench, how: How, state: State, shown: str
) -> None:
    job = await here.runs(retries=0)
    here.memory.finish(job, 137, how)
    await here.reached(job, state)
    assert [attempt.told for attempt in (await here.live.job(job)).attempts] == [shown]


@playing()
async def test_a_command_that_cannot_be_launched_is_not_tried_again(here: Bench) -> None:
    job = await here.submit("no-such-command", retries=3)
    await here.reached(job, State.FAILED)
    detail = await here.live.job(job)
    assert detail.failure is not None
    assert (detail.job.attempts, detail.failure.rule) == (1, "not-launched")


@playing()
async def test_a_cancelled_job_is_cancelled_however_its_attempt_ends(here: Bench) -> None:
    job = await here.runs()
    here.memory.hang(job)
    await here.live.cancel(ME, job)
    await here.settle()
    assert here.state(job) is State.STOPPING
    here.memory.finish(job, 1)
    await here.reached(job, State.CANCELLED)


def test_a_job_on_a_lost_node_starts_again_on_another(tmp_path: Path) -> None:
    world = MemoryWorld.of(Node("one", 1, "none"), Node("two", 1, "none"))

    async def story(here: Bench) -> None:
        job = await here.runs(retries=3)
        (device,) = (await here.live.job(job)).job.devices
        lost = device.split(":")[0]
        here.memory.lose_node(lost)
        await here.settle()
        await here.reached(job, RUNS)
        view = await here.live.job(job)
        assert view.job.devices != (device,)
        assert [attempt.told for attempt in view.attempts] == ["lost", ""]
        there = {node.name for node in here.live.nodes() if node.health != "lost"}
        assert there == {"one", "two"} - {lost}

    play_on(world, story, tmp_path)


# -- changes --------------------------------------------------------------------------------------


@playing(policy="max-min")
async def test_a_change_that_the_attempt_announced_keeps_the_attempt(here: Bench) -> None:
    job = await here.submit(
        "announce", "size", ";", "forever", devices="1..4", resumable=True, ranks="one"
    )
    await here.reached(job, RUNS)
    await here.runs(devices="2")
    await here.settle()
    detail = await here.live.job(job)
    view = detail.job
    assert (len(view.devices), view.attempts, view.resizes) == (2, 1, 1)
    assert [attempt.devices for attempt in detail.attempts] == [view.devices]
    gauge = here.live.context.learner.gauge(job)
    assert gauge is not None
    assert gauge.size == 2
    before_s = here.live.context.jobs.records[job].device_s
    assert before_s > 0  # the time on four devices is counted as such
    here.memory.finish(job)
    await here.reached(job, DONE)
    ended = (await here.live.job(job)).job
    assert before_s <= ended.device_s <= before_s + 2 * ended.running_s


@playing(policy="max-min")
async def test_a_change_that_was_not_announced_begins_another_attempt(here: Bench) -> None:
    job = await here.runs(devices="1..4", resumable=True, ranks="one")
    await here.runs(devices="2")
    await here.settle()
    detail = await here.live.job(job)
    assert (len(detail.job.devices), detail.job.attempts) == (2, 2)
    assert [attempt.told for attempt in detail.attempts] == ["stopped", ""]


@playing(policy="max-min")
async def test_a_resized_job_keeps_its_time_limit_and_its_progress(here: Bench) -> None:
    """The next attempt is launched before the end of the last one is a record."""
    job = await here.submit(
        "forever", devices="1..4", resumable=True, ranks="one", time_limit_s=9000.0
    )
    await here.reached(job, RUNS)
    own = Who(user="me", role=Role.VIEWER, job=job)
    await here.live.report(own, job, Report(step=40, total=100))
    await here.runs(devices="2")
    await here.reached(job, RUNS)
    launches = [
        attempt.launch for identity, attempt in here.world.attempts.items() if identity.job == job
    ]
    assert launches[0].time_limit_s == 9000.0
    assert launches[1].time_limit_s is not None
    assert launches[1].time_limit_s < 9000.0
    assert launches[1].resumed
    spec = here.live.context.scheduler.jobs[job].spec
    assert launches[1].iterations_done == pytest.approx(0.4 * spec.iterations)


# -- reasons --------------------------------------------------------------------------------------


def test_an_avoided_device_is_the_reason_and_stays_so_over_a_restart(tmp_path: Path) -> None:
    world = MemoryWorld.of(Node("here", 1, "none"))

    async def first(here: Bench) -> None:
        node = await here.live.manage(ME, "here:0", "avoid")
        assert node.devices[0].state == "avoided"
        await here.settle()

    async def second(here: Bench) -> None:
        job = await here.submit("true")
        await here.settle()
        why = await here.live.why(job)
        assert why.code == "closed"
        assert why.change == "treadle device here:0 manage (for admins)"
        await here.live.manage(ME, "here:0", "manage")
        await here.reached(job, DONE)

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


@playing(devices=1)
async def test_a_foreign_device_opens_again_by_itself(here: Bench) -> None:
    device = Device("here", 0)
    here.memory.close_device(device, "foreign", "process 7 of anna is on device here:0")
    job = await here.submit("true")
    await here.settle()
    assert (await here.live.why(job)).change.startswith("here:0 opens once")
    here.memory.open_device(device)
    await here.reached(job, DONE)


# -- learning -------------------------------------------------------------------------------------


@playing()
async def test_a_length_that_was_seen_is_the_estimate_of_the_next(here: Bench) -> None:
    fresh = await here.live.dry_run(ME, JobRequest(command=("forever",)))
    assert fresh.length == Estimate(because="no run of this script has ended here")
    job = await here.runs()
    here.memory.finish(job)
    await here.reached(job, DONE)
    known = await here.live.dry_run(ME, JobRequest(command=("forever",)))
    assert known.length is not None
    assert (known.length.known, known.length.coverage) == (True, 0.8)
    assert known.length.because == "from 1 run of this command"


@playing()
async def test_printed_progress_and_reports_are_heard(here: Bench) -> None:
    job = await here.runs(resumable=True)
    here.memory.write(job, b"step 45/100 loss 0.5\n")
    await here.live._reporting._progress.look()
    progress = (await here.live.job(job)).job.progress
    assert progress is not None
    assert (progress.step, progress.total, progress.source) == (45, 100, "log")
    own = Who(user="me", role=Role.VIEWER, job=job)
    await here.live.report(own, job, Report(step=60, total=100, checkpoint=50))
    here.memory.finish(job, 1)
    await here.settle()
    record = here.live.context.jobs.record(job)
    assert record is not None
    assert record.safe == 0.5
    assert record.progress is not None
    assert record.progress.step == 60


# -- owners ---------------------------------------------------------------------------------------


@playing()
async def test_only_the_owner_or_an_admin_changes_a_job(here: Bench) -> None:
    job = await here.submit("forever")
    with pytest.raises(NotAllowedError, match=f"job {job} is me's"):
        await here.live.change(OTHER, job, JobChange(name="mine"))
    view = await here.live.change(ME, job, JobChange(name="renamed", priority=3))
    assert (view.name, view.priority) == ("renamed", 3)


@playing()
async def test_the_time_limit_of_a_job_that_runs_stays_what_its_processes_were_given(
    here: Bench,
) -> None:
    runs = await here.submit("forever", devices="4", time_limit_s=100.0)
    waits = await here.submit("forever", devices="4", time_limit_s=100.0)
    await here.reached(runs, RUNS)
    longer = JobChange(time_limit_s=600.0)
    with pytest.raises(ConflictError, match="its time limit can be changed only while it wait"):
        await here.live.change(ME, runs, longer)
    assert (await here.live.job(runs)).time_limit_s == 100.0
    await here.live.change(ME, waits, longer)
    assert (await here.live.job(waits)).time_limit_s == 600.0


# -- names ---------------------------------------------------------------------------------------


def test_a_new_controller_takes_over_what_runs_and_what_ended(tmp_path: Path) -> None:
    world = MemoryWorld.of(Node("here", 2, "none"))

    async def first(here: Bench) -> None:
        for _ in range(3):
            await here.submit("forever")
        await here.reached("2", RUNS)
        await here.settle()

    async def second(here: Bench) -> None:
        assert [here.state(job) for job in ("1", "2", "3")] == [RUNS, RUNS, State.PENDING]
        here.memory.finish("1")
        await here.reached("1", DONE)
        await here.reached("3", RUNS)
        assert (await here.live.job("2")).job.attempts == 1

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


@playing()
async def test_the_output_of_a_failed_job_that_cannot_be_read_stops_nothing(here: Bench) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise EngineError("the node does not answer", retryable=True)

    job = await here.runs(retries=0)
    here.memory.output = broken  # type: ignore[assignment]
    here.memory.finish(job, 1)
    await here.reached(job, State.FAILED)
    assert not here.live.stopped.is_set()


@pytest.mark.parametrize(
    "wrong",
    [
        AttemptEnded("1", 0, 1, How.EXITED, code=0, ran_s=nan),
        AttemptEnded("1", 0, 1, How.EXITED, code=0, ended_at=inf, started_at=-inf),
        AttemptEnded("1", 0, 1, How.EXITED, code=0, error="\ud800"),
        AttemptEnded("1", 0, 99, How.EXITED, code=0),
        JobProgressed("1", 0, nan, inf),
        JobFinished("1", 0),
        "not a fact",
    ],
)
def test_what_a_faulty_engine_reports_can_be_read_back(tmp_path: Path, wrong: Event) -> None:
    world = MemoryWorld.of(Node("here", 1, "none"))

    async def first(here: Bench) -> None:
        await here.runs()
        here.memory._controls.tell(wrong)
        await here.settle()
        assert not here.live.stopped.is_set()

    async def second(here: Bench) -> None:
        (view,) = (await here.live.jobs(ended=True)).jobs
        assert view.state in (DONE, RUNS)
        still_open = [key for key in here.live.context.jobs.open if key.job == view.id]
        assert len(still_open) == (view.state is RUNS)

    play_on(world, first, tmp_path)
    play_on(world, second, tmp_path)


def test_a_node_that_is_gone_at_a_restart_is_a_lost_node(tmp_path: Path) -> None:
    nodes = Node("one", 1, "none"), Node("two", 1, "none")
    world = MemoryWorld.of(*nodes)

    async def first(here: Bench) -> None:
        for _ in range(2):
            await here.submit("forever", retries=3)
        await here.reached("2", RUNS)
        await here.settle()

    async def second(here: Bench) -> None:
        await here.settle()
        states = sorted(str(here.state(job)) for job in ("1", "2"))
        assert states == ["PENDING", "RUNNING"]
        assert [event.kind for event in (await here.live.events(limit=1000)).events].count(
            "NodeLost"
        ) == 1

    play_on(world, first, tmp_path)
    del world.nodes["two"]
    play_on(world, second, tmp_path)
    play_on(world, second, tmp_path)  # It is told once.


@playing(policy="max-min")
async def test_the_journal_alone_gives_every_record(here: Bench) -> None:
    good = await here.submit("true")
    bad = await here.submit("exit", "3", retries=0)
    words = ["echo", "NCCL", "error:", "unhandled", "system", "error", ";", "exit", "1"]
    again_and_again = await here.submit(*words, retries=2)
    await here.reached(good, DONE)
    await here.reached(bad, State.FAILED)
    await here.reached(again_and_again, State.FAILED)
    member = (await here.live.submit(ME, JobRequest(command=("true",), array="0-2%1"))).jobs[-1]
    await here.reached(member, DONE)
    elastic = await here.runs(devices="1..4", resumable=True, ranks="one")
    await here.live.report(
        Who(user="me", role=Role.VIEWER, job=elastic),
        elastic,
        Report(step=5, total=10, checkpoint=5),
    )
    high = await here.runs(devices="3", priority=5)
    waiting = await here.submit("forever", held=True)
    await here.live.change(ME, waiting, JobChange(name="later", time_limit_s=60.0))
    await here.live.cancel(ME, await here.submit("forever"))
    here.memory.finish(high)
    await here.reached(high, DONE)
    await here.settle()
    check_replay(here)


@playing(policy="rubick")
async def test_the_journal_alone_gives_the_plan_models_that_jobs_announced(here: Bench) -> None:
    size = ModelSize(10_000_000, batch=16, sequence=64, hidden=256, layers=4, heads=4)
    words = ("announce", "size", "plan", size.word, ";", "forever")
    await here.runs(*words, devices="1,2", resumable=True, ranks="one", model="mine")
    await here.settle()
    assert "mine" in here.live.context.learner.plans.types
    check_replay(here)


def rebuilt(here: Bench) -> Rebuilt:
    """What follows from the journal alone."""
    context, store = here.live.context, here.live.context.store
    policy = PolicyInCharge().make(context.charge.policy, PLACEMENT, context.belief)
    retry = Classified(live_verdicts(shipped()), PATIENCE)
    empty = Scheduler(policy, first_cluster(store, context.cluster), retry=retry)
    return Rebuilt(empty).apply(store.lines(0, limit=10_000))


def check_replay(here: Bench) -> None:
    """What the store holds follows from the journal and the rules, and from nothing else."""
    store, again = here.live.context.store, rebuilt(here)
    stored = {row.id: record_of(row) for row in store.jobs(JobFilter(), limit=100)}
    assert {**again.ended, **again.jobs.records} == stored
    rows = [row for job in stored for row in store.attempts(job)]
    assert len(rows) > len(stored) - 2
    assert again.attempts == {(row.job, row.number): row for row in rows}
    learned = {row.key: row.body for row in again.learner.changes(0.0)}
    assert learned == {row.key: row.body for row in store.profiles(1000)}
    assert learned


# -- submissions that cannot fit ------------------------------------------------------------------
