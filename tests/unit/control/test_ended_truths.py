"""What is shown of jobs that have ended, and of what is not known, is what was so."""

from pathlib import Path

import pytest

from tests.store.made import attempt
from tests.unit.control.memory import ME, Bench, play
from treadle.control.api.spells import Now, page_of
from treadle.control.jobs import JobRecord, as_shown, row_of
from treadle.control.jobs.records import attempt_body
from treadle.control.loop import wall
from treadle.core.cluster import Node
from treadle.store.rows import AttemptRow, Batch
from treadle.store.store import Store
from treadle.wire.jobs import AttemptView, CompanyView, State


def test_an_ended_job_has_the_devices_that_it_used_last(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        one = await here.submit("forever", devices="2")
        await here.reached(one, State.RUNNING)
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

    play(story, tmp_path)


def test_a_job_that_ran_into_its_time_limit_says_so_in_the_list(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        one = await here.submit("forever", time_limit_s=0.05)
        await here.reached(one, State.TIMEOUT)
        await here.settle()
        [view] = (await here.live.jobs(ended=True)).jobs
        assert view.because == "reached its time limit of 0.05 s"
        failure = (await here.live.job(one)).failure
        assert failure is not None
        assert failure.advice == (await here.live.why(one)).change

    play(story, tmp_path)


def test_a_failure_that_is_not_retried_any_more_is_not_advised_to_be_retried(
    tmp_path: Path,
) -> None:
    async def story(here: Bench) -> None:
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

    play(story, tmp_path)


def test_no_job_is_shown_faster_in_company_than_alone() -> None:
    spells = (CompanyView(jobs=("2",), seconds=9.0, relative=1.57),)
    assert [spell.relative for spell in as_shown(spells, None)] == [1.0]


def test_the_busy_share_of_a_slot_is_that_of_its_job(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        one = await here.submit("forever", devices="1")
        await here.reached(one, State.RUNNING)
        here.world.busy[one] = 0.25
        context = here.live.context
        seen = context.engine.measurements()
        context.learner.seen.see(seen, {}, {}, now=context.clock.now(), wall_at=wall())
        [node] = here.live.nodes()
        assert sorted(device.busy or 0.0 for device in node.devices) == [0.0, 0.0, 0.0, 0.25]
        assert [d.busy for d in node.devices if d.jobs] == [0.25]

    play(story, tmp_path)


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


def test_when_the_store_begins_is_said(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever"), State.RUNNING)
        await here.settle()
        page = await here.live.spells(since_at=0.0)
        assert page.begins_at is not None
        assert page.begins_at <= page.spells[0].from_at <= wall()

    play(story, tmp_path)
