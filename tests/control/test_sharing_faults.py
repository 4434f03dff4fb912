"""U9: a job that runs out of GPU memory beside another is the scheduler's to run again, alone.

Real processes on one slot of the CPU that two jobs share: the policy here puts them together.
"""

import asyncio
from pathlib import Path

from tests.control.asking import events_of
from tests.control.living import ME, bash, ended, living, until, view_of
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


def dies_beside(folder: Path, error: str) -> str:
    """A job that fails as long as another runs, which is until the file `alone` is there."""
    traceback = f'Traceback (most recent call last):\\n  File "t.py", line 1, in <module>\\n{error}'
    return (
        f"test -e {folder}/alone && exit 0; until test -e {folder}/met; do sleep 0.02; done; "
        f"printf '{traceback}\\n' >&2; exit 1"
    )


async def both_run(live, folder: Path, error: str) -> tuple[str, str]:
    live.context.scheduler.set_policy(Together(), live.context.clock.now())
    body = f"until test -e {folder}/done; do sleep 0.02; done"
    stays = (await live.submit(ME, bash(body))).id
    await until(live, State.RUNNING, jobs=(stays,))
    dies = (await live.submit(ME, bash(dies_beside(folder, error), retries=0))).id
    await until(live, State.RUNNING, jobs=(dies,))
    return stays, dies


def test_u9_out_of_memory_while_sharing_costs_no_retry_and_is_run_again_alone(tmp_path: Path):
    """1. Two jobs share a slot, and one dies of GPU memory; it has no retries. 2. It waits for the
    slot to be empty. 3. The other ends: it runs again, alone, and succeeds."""

    async def story() -> None:
        async with living(tmp_path, slots=1) as live:
            stays, dies = await both_run(live, tmp_path, OOM)
            (tmp_path / "met").touch()
            await until(live, State.PENDING, jobs=(dies,))
            detail = await live.job(dies)
            assert detail.alone_because == f"it ran out of GPU memory beside job {stays}"
            assert detail.job.failures == 0
            assert live.context.scheduler.jobs[dies].spec.exclusive
            started = [event.text for event in await events_of(live, dies, "Start")]
            assert [text.partition(", ")[2] for text in started] == [f"beside job {stays}"]
            (tmp_path / "alone").touch()
            (tmp_path / "done").touch()
            views = await ended(live, stays, dies)
            assert [view.state for view in views] == [State.SUCCEEDED, State.SUCCEEDED]
            detail = await live.job(dies)
            assert [run.code for run in detail.attempts] == [1, 0]
            first = detail.attempts[0].failure
            assert first is not None
            assert (first.rule, first.retried) == ("gpu-out-of-memory", True)
            (met,) = [end for end in ends(live, dies) if end.beside]
            assert met.beside == (stays,)
            assert met.seen is not None
            assert [(spell.jobs, spell.fault) for spell in met.seen.company] == [
                ((stays,), "gpu-out-of-memory")
            ]

    asyncio.run(asyncio.wait_for(story(), 120.0))


def test_u9_a_victim_of_the_mps_server_is_run_again_alone(tmp_path: Path):
    async def story() -> None:
        async with living(tmp_path, slots=1) as live:
            stays, dies = await both_run(live, tmp_path, MPS)
            (tmp_path / "met").touch()
            await until(live, State.PENDING, jobs=(dies,))
            assert (await live.job(dies)).alone_because == (
                f"the CUDA MPS server that it ran under failed beside job {stays}"
            )
            assert live.context.jobs.records[dies].mps_failed
            (tmp_path / "alone").touch()
            (tmp_path / "done").touch()
            assert [view.state for view in await ended(live, dies)] == [State.SUCCEEDED]

    asyncio.run(asyncio.wait_for(story(), 120.0))


def test_u9_a_failure_of_the_mps_server_without_company_costs_no_retry_once(tmp_path: Path):
    """1. A job may share, so it runs under the server, and has no company; the server fails. 2. It
    runs again by itself, now exclusive and so without MPS, and fails in the same way: its own."""

    async def story() -> None:
        async with living(tmp_path, slots=1) as live:
            live.context.scheduler.set_policy(Together(), live.context.clock.now())
            (tmp_path / "met").touch()
            job = (await live.submit(ME, bash(dies_beside(tmp_path, MPS), retries=0))).id
            (view,) = await ended(live, job)
            assert view.state is State.FAILED
            detail = await live.job(job)
            assert [run.code for run in detail.attempts] == [1, 1]
            assert detail.alone_because == "the CUDA MPS server that it ran under failed"
            assert [end.mps_failed for end in ends(live, job)] == [True, False]
            assert live.context.belief.record.stored() == {}, "its kind is not to blame"

    asyncio.run(asyncio.wait_for(story(), 120.0))


def test_u9_a_job_that_hangs_in_company_is_stopped_and_run_again_alone(tmp_path: Path):
    """1. Two jobs share. 2. One is found to hang (as `Sightings.hung` says after ten minutes).
    3. It is stopped, waits for an empty slot, and no failure is counted."""

    async def story() -> None:
        async with living(tmp_path, slots=1) as live:
            stays, hangs = await both_run(live, tmp_path, OOM)
            context = live.context

            async def seen_together() -> None:
                while not context.learner.seen.lately(hangs, context.clock.now()):
                    await asyncio.sleep(0.02)

            await asyncio.wait_for(seen_together(), 60.0)
            context.inbox.tell(JobHeld(hangs, COMPANY))
            await until(live, State.PENDING, jobs=(hangs,))
            detail = await live.job(hangs)
            assert detail.alone_because == f"it made no progress beside job {stays}"
            assert detail.job.failures == 0
            (tmp_path / "alone").touch()
            (tmp_path / "done").touch()
            assert [view.state for view in await ended(live, hangs)] == [State.SUCCEEDED]
            (met,) = [end for end in ends(live, hangs) if end.beside]
            assert met.seen is not None
            assert [spell.fault for spell in met.seen.company] == ["hang"]

    asyncio.run(asyncio.wait_for(story(), 120.0))


def test_u9_out_of_memory_alone_is_the_jobs_own_failure(tmp_path: Path):
    async def story() -> None:
        async with living(tmp_path, slots=1) as live:
            (tmp_path / "met").touch()
            job = (await live.submit(ME, bash(dies_beside(tmp_path, OOM), retries=3))).id
            (view,) = await ended(live, job)
            assert (view.state, view.failures) == (State.FAILED, 1)
            assert (await live.job(job)).alone_because == ""

    asyncio.run(asyncio.wait_for(story(), 120.0))


def test_u9_another_failure_while_sharing_is_the_jobs_own(tmp_path: Path):
    async def story() -> None:
        async with living(tmp_path, slots=1) as live:
            _, dies = await both_run(live, tmp_path, "KeyError: loss")
            (tmp_path / "met").touch()
            (view,) = await ended(live, dies)
            assert (view.state, view.failures) == (State.FAILED, 1)
            (tmp_path / "done").touch()

    asyncio.run(asyncio.wait_for(story(), 120.0))


def test_what_an_ended_job_used_is_kept(tmp_path: Path):
    """1. A job spins until it was measured twice. 2. It ends. 3. Another controller shows it."""

    async def story() -> None:
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

    asyncio.run(asyncio.wait_for(story(), 120.0))


def ends(live, job: str) -> list[AttemptEnded]:
    """The journaled ends of a job."""
    with_ends = live.context.commit._store.lines(0, job=job, kinds=("AttemptEnded",), limit=100)
    found = [decode(row.body)[1] for row in with_ends]
    return [fact for fact in found if isinstance(fact, AttemptEnded)]
