"""Decisions, queue, spells, and usage by day of a controller."""

import asyncio
from pathlib import Path

import pytest

from tests.control.asking import LONG, end_all, looked_at, memory, runs, telling_in_memory, waits
from tests.control.living import ME, bash, ended, living
from tests.telling import within
from treadle.control.api import LiveService
from treadle.core.job_report import Report
from treadle.wire.decisions import Decision
from treadle.wire.machine import PolicyChange


async def decided(live: LiveService, kind: str, job: str) -> Decision:
    """The first decision that did this to a job, once its reasons are known."""
    while True:
        for decision in live.decisions().decisions:
            if any(change.job == job and change.kind == kind for change in decision.changes):
                return decision
        await asyncio.sleep(0.01)


@telling_in_memory()
async def test_a_decision_says_what_it_changed_why_and_what_it_took(live: LiveService) -> None:
    job = await runs(live, devices="2")
    decision = await decided(live, "start", job)
    assert f"me submitted job {job} for 2 devices" in decision.events
    assert decision.policy == "backfill"
    assert decision.cpu_ms > 0
    assert (decision.running, decision.waiting, decision.free) == (1, 0, 2)
    [change] = decision.changes
    assert change.before == ()
    assert change.after == (await live.job(job)).job.devices
    assert change.because == f"me submitted job {job} for 2 devices"
    await waits(live, devices="4")
    page = live.decisions()
    assert page.others > 0, "that one changed nothing"
    assert live.decisions(after=page.next).decisions == ()


@telling_in_memory()
async def test_a_job_that_waited_starts_because_another_ended(live: LiveService) -> None:
    first = await runs(live, devices="4")
    second = await waits(live, devices="2")
    await live.cancel(ME, first)
    [change] = (await decided(live, "start", second)).changes
    assert change.because.startswith(f"job {first} was cancelled by me")


@telling_in_memory(policy="weave")
async def test_a_job_with_a_reservation_starts_because_its_turn_has_come(live: LiveService) -> None:
    first = await runs(live, devices="1")
    gang = await waits(live, devices="4")
    for _ in range(8):
        later = await runs(live, devices="1")
        await live.cancel(ME, later)
        await ended(live, later)
    await looked_at(live)
    assert (await live.why(gang)).code == "reservation"
    await live.cancel(ME, first)
    [change] = [one for one in (await decided(live, "start", gang)).changes if one.job == gang]
    assert (change.code, change.numbers["turn"]) == ("changed", True)


@telling_in_memory(policy="afs")
async def test_a_resize_names_the_devices_before_and_after(live: LiveService) -> None:
    job = await runs(live, devices="1..4", resumable=True)
    first = (await live.job(job)).job.devices
    assert len(first) == 4
    await live.submit(ME, bash(LONG, devices="2", grace_s=0.2, priority=5))
    decision = await decided(live, "shrink", job)
    [change] = [each for each in decision.changes if each.job == job]
    assert change.before == first
    assert len(change.after) < 4


@within(180)
async def test_spells_are_the_same_after_the_daemon_began_again(tmp_path: Path) -> None:
    engine = memory(4)
    async with living(tmp_path, engine=engine) as live:
        job = await runs(live, devices="3", name="first", tenant="lab")
        short = (await live.submit(ME, bash("true"))).id
        await ended(live, short)
        before = await live.spells()
    async with living(tmp_path, engine=engine) as live:
        after = await live.spells()
        assert after.spells == before.spells
        held = {spell.job: spell for spell in after.spells}
        assert len(held[job].devices) == 3
        assert (held[job].name, held[job].tenant, held[job].to_at) == ("first", "lab", None)
        assert held[short].to_at is not None
        assert [(node.name, node.devices) for node in after.nodes] == [("here", 4)]
        past = await live.spells(until_at=held[job].from_at - 1.0)
        assert past.spells == (), "nothing ran yet"
        await end_all(live)


@telling_in_memory()
async def test_a_closed_device_is_in_the_spells_with_its_cause(live: LiveService) -> None:
    await live.manage(ME, "here:2", "avoid")
    await looked_at(live)
    [closed] = (await live.spells()).closed
    assert (closed.device, closed.cause, closed.to_at) == ("here:2", "avoided", None)
    assert closed.from_at is not None
    await live.manage(ME, "here:2", "manage")
    await looked_at(live)
    [closed] = (await live.spells()).closed
    assert closed.to_at is not None
    assert closed.to_at >= (closed.from_at or 0.0)


@telling_in_memory()
async def test_the_queue_says_who_waits_for_what_and_how_free_devices_lie(
    live: LiveService,
) -> None:
    first = await runs(live, devices="3", tenant="lab", estimate_s=600)
    job = await waits(live, devices="2", tenant="shop")
    found = await live.queue()
    [waiting] = found.jobs
    assert (waiting.job, waiting.place, waiting.asks) == (job, 1, "2 devices")
    assert waiting.because == (await live.why(job)).sentence
    assert waiting.start is not None
    assert waiting.start.latest_s is not None
    assert waiting.start.latest_s > 60
    assert (found.fragmentation.free, found.fragmentation.largest_gang) == (1, 1)
    shares = {share.tenant: share for share in found.shares}
    assert (shares["lab"].used, shares["lab"].deserved) == (3.0, None)
    assert (shares["shop"].used, shares["shop"].waiting) == (0.0, 1)
    assert first


@telling_in_memory()
async def test_a_quota_larger_than_the_cluster_is_taken_with_a_warning(live: LiveService) -> None:
    assert live.policy().warning == ""
    found = await live.set_policy(ME, PolicyChange(policy="weave-l?quotas=lab:400/shop:4"))
    assert found.policy == "weave-l?quotas=lab:400/shop:4"
    assert found.warning == "a quota is larger than the cluster's 4 devices: 400 of lab"
    found = await live.set_policy(ME, PolicyChange(policy="weave-l?quotas=lab:4"))
    assert found.warning == ""


@telling_in_memory()
async def test_usage_by_day_adds_up_to_usage(live: LiveService) -> None:
    jobs = [(await live.submit(ME, bash(body, tenant="lab"))).id for body in ("true", "false")]
    await ended(live, *jobs)
    [whole] = await live.usage()
    found = await live.usage_days()
    assert sum(row.allocated_h for row in found.rows) == pytest.approx(whole.allocated_h)
    assert sum(row.failed_h for row in found.rows) == pytest.approx(whole.failed_h)
    assert whole.failed_h > 0
    assert {(row.user, row.tenant) for row in found.rows} == {(whole.user, "lab")}
    assert all(day.capacity_h for day in found.days)


@telling_in_memory()
async def test_the_history_of_a_job_has_its_losses_and_its_bottleneck(live: LiveService) -> None:
    job = await runs(live)
    assert (await live.job_history(job)).progress == ()
    for step in (10, 20, 30):
        stages = {"load": 0.3, "compute": 0.1, "step": 0.4}
        said = Report(step=step, total=100, loss=5.0 / step, stages=stages)
        await live.report(ME, job, said)
        await looked_at(live)
    found = await live.job_history(job)
    assert found.progress[-1].step == 30
    assert found.progress[-1].loss == pytest.approx(5.0 / 30)
    assert [point.step for point in found.progress] == sorted(p.step for p in found.progress)
    assert found.bottleneck == "loading data takes 75% of a step"
