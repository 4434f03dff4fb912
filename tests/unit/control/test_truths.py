"""What lists, pages and details say is so: of queues, of ended jobs, of the page."""

from pathlib import Path

import pytest

from tests.store.made import attempt
from tests.unit.control.memory import HOME, ME, Bench, play, play_on, playing
from treadle.control.api.spells import Now, page_of
from treadle.control.jobs import JobRecord, company_views, row_of
from treadle.control.jobs.records import attempt_body
from treadle.control.loop import wall
from treadle.core.cluster import Node
from treadle.core.sighting import Company, Sighting
from treadle.engines.memory_world import MemoryWorld
from treadle.models.learning.kinds import by_command
from treadle.models.learning.outcome import Outcome
from treadle.store.rows import AttemptRow, Batch
from treadle.store.store import Store
from treadle.wire.jobs import AttemptView, State


@pytest.mark.parametrize(
    ("policy", "deserved"),
    [
        ("philly?quotas=lab:3/shop:1", {"lab": 3.0, "shop": 1.0}),
        ("philly", {"lab": 4.0}),
        ("weave-l?quotas=lab:3/shop:1+defrag", {"lab": 3.0, "shop": 1.0}),
        ("weave?quotas=lab:3/shop:1", {"lab": 3.0, "shop": 1.0}),
        ("rubick?quotas=lab:2", {"lab": 2.0}),
        ("antman?quotas=lab:2", {"lab": 2.0}),
        ("antman", {"lab": None}),
        ("fifo", {"lab": None}),
    ],
)
def test_the_quotas_of_every_policy_that_has_some_are_shown(
    tmp_path: Path, policy: str, deserved: dict[str, float | None]
) -> None:
    async def story(here: Bench) -> None:
        await here.runs(tenant="lab")
        shares = (await here.live.queue()).shares
        assert {share.tenant: share.deserved for share in shares} == deserved

    play(story, tmp_path, policy=policy)


@playing(devices=2)
async def test_a_device_that_is_avoided_and_idle_is_not_said_to_be_taken(here: Bench) -> None:
    """One device is taken and one avoided. One job waits for the first, one for both."""
    await here.live.manage(ME, "here:1", "avoid")
    await here.settle()
    await here.runs()
    both = await here.submit("forever", devices="2")
    await here.settle()
    queue = await here.live.queue()
    assert (queue.fragmentation.free, queue.jobs[0].cause) == (0, "closed")
    why = await here.live.why(both)
    assert (why.numbers["asked"], why.numbers["open"]) == (2, 1)
    assert why.sentence == queue.jobs[0].because


@playing(devices=2, policy="fifo")
async def test_a_place_is_the_same_in_the_queue_in_the_list_and_in_why(here: Bench) -> None:
    """The first in line asks for both devices, and the second one is expected to start earlier."""
    await here.runs(estimate_s=100)
    await here.submit("forever", devices="2", estimate_s=10)
    small = await here.submit("forever", time_limit_s=20, estimate_s=5)
    urgent = await here.submit("forever", devices="2", priority=1, estimate_s=10)
    await here.settle()
    listed = [(each.job, each.place) for each in (await here.live.queue()).jobs]
    whys = [((await here.live.why(job)).id, place) for job, place in listed]
    assert listed[0] == (urgent, 1)
    assert small in dict(listed)
    assert whys == listed
    assert [(await here.live.why(job)).position for job, _ in listed] == [1, 2, 3][: len(listed)]


# -- What is shown of jobs that have ended, and of what is not known, is what was so ---------------


@playing()
async def test_an_ended_job_has_the_devices_that_it_used_last(here: Bench) -> None:
    one = await here.runs(devices="2")
    held = (await here.live.job(one)).job.devices
    await here.live.cancel(ME, one)
    await here.reached(one, State.CANCELLED)
    await here.settle()
    [view] = (await here.live.jobs(ended=True)).jobs
    assert (view.devices, view.used) == ((), held)
    assert view.because == "cancelled by me"
    assert (await here.live.why(one)).sentence == view.because
    events = (await here.live.events_last(job=one)).events
    assert f"job {one} was cancelled by me" in [event.text for event in events]


@playing()
async def test_a_job_that_ran_into_its_time_limit_says_so_in_the_list(here: Bench) -> None:
    one = await here.submit("forever", time_limit_s=0.05)
    await here.reached(one, State.TIMEOUT)
    await here.settle()
    [view] = (await here.live.jobs(ended=True)).jobs
    assert view.because == "reached its time limit of 0.05 s"
    failure = (await here.live.job(one)).failure
    assert failure is not None
    assert view.failures == 0, "it did what it was to do"
    assert failure.advice == (await here.live.why(one)).change


@playing()
async def test_a_failure_that_is_not_retried_any_more_is_not_advised_to_be_retried(
    here: Bench,
) -> None:
    one = await here.submit("exit", "75", retries=1)
    await here.reached(one, State.FAILED)
    await here.settle()
    record, detail = here.live.context.jobs.record(one), await here.live.job(one)
    assert record is not None
    assert record.failure is not None
    assert record.failure.advice.startswith("retry"), "so says the rule"
    assert detail.failure is not None
    assert not detail.failure.advice.startswith("retry")
    assert detail.failure.advice == (await here.live.why(one)).change


def test_no_job_is_shown_faster_in_company_than_alone() -> None:
    seen = Sighting(company=(Company(("2",), 9.0, relative=1.57),))
    assert [spell.relative for spell in company_views(seen)] == [1.0]


@playing()
async def test_the_busy_share_of_a_slot_is_that_of_its_job(here: Bench) -> None:
    one = await here.runs(devices="1")
    here.world.busy[one] = 0.25
    context = here.live.context
    seen = context.engine.measurements()
    context.learner.seen.see(seen, {}, {}, now=context.clock.now(), wall_at=wall())
    [node] = here.live.nodes()
    assert sorted(device.busy or 0.0 for device in node.devices) == [0.0, 0.0, 0.0, 0.25]
    assert [d.busy for d in node.devices if d.jobs] == [0.25]


def ran(name: str, from_at: float, to_at: float, told: str = "") -> AttemptRow:
    view = AttemptView(number=1, devices=("here:0",), started_at=from_at, ended_at=to_at, told=told)
    row = attempt(name, started_at=from_at, ended_at=to_at)
    return row._replace(devices=("here:0",), body=attempt_body(view))


@pytest.mark.parametrize(("told", "overlap_s", "to_at"), [
    ("stopped", 1.0, 99.0),
    ("stopped", 50.0, 100.0),
    ("", 1.0, 100.0),
])  # fmt: skip
def test_a_handover_is_no_company(
    tmp_path: Path, told: str, overlap_s: float, to_at: float
) -> None:
    """A job that is stopped for another overlaps with it for less than its grace of 30 s."""
    with Store.open(f"sqlite:///{tmp_path}/treadle.db") as store:
        rows = [ran("1", 10.0, 100.0, told), ran("2", 100.0 - overlap_s, 200.0)]
        records = [
            JobRecord(id=n, number=int(n), name="", owner="ada", command=("x",), submitted_at=1.0)
            for n in ("1", "2")
        ]
        store.write(Batch(attempts=rows, jobs=[row_of(record, None) for record in records]))
        page = page_of(store, Now((Node("here", 1, "none"),), {}), 0.0, 300.0)
    assert {spell.job: spell.to_at for spell in page.spells} == {"1": to_at, "2": 200.0}


# -- page truths -----------------------------------------------------------------------------------


def measured(here: Bench, step_s: float, *, size: int = 1) -> None:
    """Another job of the same kind did steps."""
    keys = by_command(ME.user, "", ("forever",), folder=HOME)
    outcome = Outcome(size, 100.0, step_s=step_s)
    here.live.context.learner.profiles.observe(keys, outcome)


@playing(devices=2, policy="fifo")
async def test_status_queue_and_decisions_count_the_same_jobs_as_waiting(here: Bench) -> None:
    """Of an array of which one member may run, one runs. A user holds another job. One waits."""
    array = await here.submit("forever", array="0-3%1", tenant="lab")
    await here.reached(f"{array}_0", State.RUNNING)
    await here.submit("forever", held=True)
    await here.submit("forever", devices="2", tenant="shop")
    await here.settle()
    queue, status = await here.live.queue(), here.live.status()
    assert (status.waiting, status.held) == (4, 1)
    assert (queue.waiting, queue.held_back, len(queue.jobs)) == (4, 3, 1)
    assert {share.tenant: share.waiting for share in queue.shares} == {"lab": 3, "shop": 1}
    # The next member starts, and the one after it is let through to nothing.
    await here.live.cancel(ME, f"{array}_0")
    await here.reached(f"{array}_1", State.RUNNING)
    await here.settle()
    while here.live.decisions().decisions[-1].changes[-1].job != f"{array}_1":
        await here.settle()
    assert here.live.decisions().decisions[-1].waiting == here.live.status().waiting == 3


def test_a_speed_is_predicted_from_others_and_stays_what_it_was(tmp_path: Path) -> None:
    """1. Others of its kind did 4 steps a second. 2. A job starts. 3. What its kind is known to do
    changes afterwards, and the daemon begins anew: the prediction is still that of its start."""
    world = MemoryWorld.of(Node("here", 2, "none"))

    async def starts(here: Bench) -> None:
        measured(here, 0.25)
        job = await here.runs()
        for _ in range(20):
            measured(here, 2.0)
        found = await here.live.job_history(job)
        assert found.predicted_per_s == pytest.approx(4.0)
        assert found.predicted_size == 1

    async def goes_on(here: Bench) -> None:
        found = await here.live.job_history("1")
        assert found.predicted_per_s == pytest.approx(4.0)
        assert found.predicted_size == 1

    play_on(world, starts, tmp_path)
    play_on(world, goes_on, tmp_path)


@playing(devices=2, policy="afs")
async def test_a_job_that_is_started_again_keeps_the_prediction_of_its_first_start(
    here: Bench,
) -> None:
    """Its own first attempt has taught its kind by then: to predict from that would be circular."""
    job = await here.runs(devices="1..2", resumable=True)
    measured(here, 0.25)
    await here.runs(priority=5)
    await here.reached(job, State.RUNNING)
    await here.settle()
    record = here.live.context.jobs.records[job]
    assert record.starts == 2
    assert (record.predicted_per_s, record.predicted_size) == (None, 2)
