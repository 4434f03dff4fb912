"""U9: a job that runs out of GPU memory beside another is the scheduler's to run again, alone.

Two jobs share one slot: the policy here puts them together.
"""

import asyncio
from pathlib import Path

import pytest

from tests.control.asking import engine_of, events_of, runs, telling_in_memory
from tests.control.living import ME, bash, ended, living, until, view_of
from tests.telling import within
from treadle.control.api import LiveService
from treadle.control.jobs import COMPANY
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded, JobHeld
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.journal.codec import decode
from treadle.wire.jobs import State

SLOT = Device("here", 0)
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
MPS = "RuntimeError: CUDA error: the MPS client has been terminated by the MPS server"


class Together(Policy):
    """Two jobs share the one slot, except those that must be alone."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        changes = {}
        here = dict(snapshot.tenants.get(SLOT, {}))
        for job in snapshot.waiting():
            closed = any(snapshot.jobs[other].spec.exclusive for other in here.values())
            turn = min({0, 1} - set(here), default=None)
            if turn is None or closed or (job.spec.exclusive and here):
                continue
            here[turn] = job.id
            changes[job.id] = Allocation((SLOT,), turn=turn)
        return Schedule(changes)


def dies(live: LiveService, job: str, error: str) -> None:
    trace = f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n{error}\n'
    engine_of(live).write(job, trace.encode())
    engine_of(live).finish(job, 1)


async def both_run(live: LiveService) -> tuple[str, str]:
    live.context.scheduler.set_policy(Together(), live.context.clock.now())
    return await runs(live), await runs(live, retries=0)


async def goes_on_alone(live: LiveService, stays: str, job: str) -> None:
    """The other ends: the job that waited for an empty slot runs again, and succeeds."""
    engine_of(live).finish(stays)
    await until(live, State.RUNNING, jobs=(job,))
    engine_of(live).finish(job)
    assert [view.state for view in await ended(live, stays, job)] == [State.SUCCEEDED] * 2


@telling_in_memory(slots=1)
async def test_u9_out_of_memory_while_sharing_costs_no_retry_and_is_run_again_alone(
    live: LiveService,
) -> None:
    """1. Two jobs share a slot, and one dies of GPU memory; it has no retries. 2. It waits for the
    slot to be empty. 3. The other ends: it runs again, alone, and succeeds."""
    stays, victim = await both_run(live)
    dies(live, victim, OOM)
    await until(live, State.PENDING, jobs=(victim,))
    detail = await live.job(victim)
    assert detail.alone_because == f"it ran out of GPU memory beside job {stays}"
    assert detail.job.failures == 0
    assert live.context.scheduler.jobs[victim].spec.exclusive
    started = [event.text for event in await events_of(live, victim, "Start")]
    assert [text.partition(", ")[2] for text in started] == [f"beside job {stays}"]
    await goes_on_alone(live, stays, victim)
    detail = await live.job(victim)
    assert [run.code for run in detail.attempts] == [1, 0]
    first = detail.attempts[0].failure
    assert first is not None
    assert (first.rule, first.retried) == ("gpu-out-of-memory", True)
    (met,) = [end for end in ends(live, victim) if end.beside]
    assert met.beside == (stays,)
    assert met.seen is not None
    assert [(spell.jobs, spell.fault) for spell in met.seen.company] == [
        ((stays,), "gpu-out-of-memory")
    ]


@telling_in_memory(slots=1)
async def test_u9_a_victim_of_the_mps_server_is_run_again_alone(live: LiveService) -> None:
    stays, victim = await both_run(live)
    dies(live, victim, MPS)
    await until(live, State.PENDING, jobs=(victim,))
    assert (await live.job(victim)).alone_because == (
        f"the CUDA MPS server that it ran under failed beside job {stays}"
    )
    assert live.context.jobs.records[victim].mps_failed
    await goes_on_alone(live, stays, victim)


@telling_in_memory(slots=1)
async def test_u9_a_failure_of_the_mps_server_without_company_costs_no_retry_once(
    live: LiveService,
) -> None:
    """1. A job may share, so it runs under the server, and has no company; the server fails. 2. It
    runs again by itself, now exclusive and so without MPS, and fails in the same way: its own."""
    live.context.scheduler.set_policy(Together(), live.context.clock.now())
    (view,) = await ended(live, await runs(live, f"echo '{MPS}'; exit 1", retries=0))
    assert view.state is State.FAILED
    detail = await live.job(view.id)
    assert [run.code for run in detail.attempts] == [1, 1]
    assert detail.alone_because == "the CUDA MPS server that it ran under failed"
    assert [end.mps_failed for end in ends(live, view.id)] == [True, False]
    assert live.context.belief.record.stored() == {}, "its kind is not to blame"


@telling_in_memory(slots=1)
async def test_u9_a_job_that_hangs_in_company_is_stopped_and_run_again_alone(
    live: LiveService,
) -> None:
    """1. Two jobs share. 2. One is found to hang (as `Sightings.hung` says after ten minutes).
    3. It is stopped, waits for an empty slot, and no failure is counted."""
    stays, hangs = await both_run(live)
    context = live.context
    context.learner.seen.meet(hangs, (stays,), context.clock.now())
    context.inbox.tell(JobHeld(hangs, COMPANY))
    await until(live, State.PENDING, jobs=(hangs,))
    detail = await live.job(hangs)
    assert detail.alone_because == f"it made no progress beside job {stays}"
    assert detail.job.failures == 0
    await goes_on_alone(live, stays, hangs)
    (met,) = [end for end in ends(live, hangs) if end.beside]
    assert met.seen is not None
    assert [spell.fault for spell in met.seen.company] == ["hang"]


@pytest.mark.parametrize(("error", "alone"), [(OOM, True), ("KeyError: loss", False)])
@telling_in_memory(slots=1)
async def test_u9_out_of_memory_alone_or_another_failure_is_the_jobs_own(
    live: LiveService, error: str, alone: bool
) -> None:
    stays, job = await both_run(live)
    if alone:
        engine_of(live).finish(stays)
        await ended(live, stays)
        live.context.learner.seen.forget([job])  # It was alone for long.
    dies(live, job, error)
    (view,) = await ended(live, job)
    assert (view.state, view.failures) == (State.FAILED, 1)
    assert (await live.job(job)).alone_because == ""


@within(120.0)
async def test_what_an_ended_job_used_is_kept(tmp_path: Path) -> None:
    """1. A job spins until it was measured twice. 2. It ends. 3. Another controller shows it."""
    async with living(tmp_path, slots=1) as live:
        body = f"until test -e {tmp_path}/done; do :; done"
        job = (await live.submit(ME, bash(body))).id
        await until(live, State.RUNNING, jobs=(job,))

        async def measured() -> None:
            while not any(each.mean.cores for each in (await live.job_history(job)).attempts):
                await asyncio.sleep(0.05)

        await asyncio.wait_for(measured(), 60.0)
        (tmp_path / "done").touch()
        await ended(live, job)
    async with living(tmp_path, slots=1) as live:
        assert (await view_of(live, job)).state is State.SUCCEEDED
        (attempt,) = (await live.job_history(job)).attempts
        assert attempt.mean.cores is not None
        assert attempt.mean.cores > 0.05
        assert attempt.mean.busy is not None
        assert attempt.points
        (end,) = [end for end in ends(live, job) if end.attempt]
        assert end.seen is not None
        assert end.seen.load.cores is not None


def ends(live: LiveService, job: str) -> list[AttemptEnded]:
    """The journaled ends of a job."""
    with_ends = live.context.commit._store.lines(0, job=job, kinds=("AttemptEnded",), limit=100)
    found = [decode(row.body)[1] for row in with_ends]
    return [fact for fact in found if isinstance(fact, AttemptEnded)]
