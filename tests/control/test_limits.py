"""Bounds: of memory, of pages, of arrays, of those who follow slowly; and what is asked twice."""

import asyncio
import pwd
from pathlib import Path

import pytest

from tests.control.asking import (
    end_all,
    events_of,
    in_memory,
    looked_at,
    memory,
    runs,
    telling_in_memory,
    waits,
)
from tests.control.living import ME, bash, ended, living, until, view_of
from tests.shared import THOROUGH
from tests.telling import within
from treadle.control.api import LiveService
from treadle.control.api import commands as wishes_module
from treadle.control.api import history as history_module
from treadle.control.api.start_draws import RUNS
from treadle.control.jobs import job_table as table_module
from treadle.testing.checks import check
from treadle.wire.jobs import Code, JobRequest, State
from treadle.wire.machine import EventView, Role, Who
from treadle.wire.problems import ConflictError, InvalidRequestError, NotFoundError, TooManyError

NOBODY = pwd.getpwnam("nobody").pw_uid

NOTHING = JobRequest(command=("/bin/true",))


@telling_in_memory()
async def test_records_of_ended_jobs_are_kept_in_bounds_and_read_from_the_store(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "ENDED_MAX", 3)
    answer = await live.submit(ME, JobRequest(command=("/bin/true",), array="0-9"))
    await ended(live, *answer.jobs)
    await looked_at(live)
    jobs, gates, learner = live.context.jobs, live.context.gates, live.context.learner
    assert len(jobs._ended) == 3
    assert not any((jobs.records, jobs.arrays, jobs.open, jobs._changed))
    assert not any((learner.meter._gauges, learner._heard))
    seen = learner.seen
    assert not any((seen._watches, seen._restarts, seen._company, seen._over))
    assert not any((gates._open, gates._queued, gates._waiting))
    assert not live.context.inbox._specs
    assert not live.context.commit._riders
    views = [await view_of(live, job) for job in answer.jobs]
    assert all(view.state is State.SUCCEEDED for view in views)
    assert [view.id for view in (await live.jobs(ended=True)).jobs] == list(reversed(answer.jobs))


@telling_in_memory()
async def test_pages_of_jobs_follow_one_another_without_gaps(live: LiveService) -> None:
    done = await live.submit(ME, JobRequest(command=("/bin/true",), array="0-6"))
    await ended(live, *done.jobs)
    waiting = await live.submit(ME, JobRequest(command=("/bin/true",), array="0-4", held=True))
    seen: list[str] = []
    cursor = ""
    while True:
        page = await live.jobs(ended=True, limit=2, cursor=cursor)
        seen += [view.id for view in page.jobs]
        cursor = page.cursor
        if not cursor:
            break
    assert seen == [*waiting.jobs, *reversed(done.jobs)]
    for bad in ("x", "a", "e1", "e1,2,3", "a-", "e,"):
        with pytest.raises(InvalidRequestError):
            await live.jobs(cursor=bad)
    with pytest.raises(InvalidRequestError):
        await live.jobs(states=("SLEEPING",))


@telling_in_memory()
async def test_pages_of_the_journal_follow_one_another(live: LiveService) -> None:
    answer = await live.submit(ME, JobRequest(command=("/bin/true",), array="0-4"))
    await ended(live, *answer.jobs)
    whole = await events_of(live)
    seen: list[EventView] = []
    after = 0
    while (page := await live.events(after=after, limit=3)).events:
        seen += page.events
        after = page.next
    assert seen == whole
    assert list((await live.events_last(limit=4)).events) == whole[-4:]
    job = answer.jobs[2]
    own = (await live.events(job=job, limit=1000)).events
    assert list(own) == [event for event in whole if event.job == job]
    assert [event.kind for event in own][:2] == ["JobSubmitted", "Start"]


def test_a_slow_follower_misses_nothing_and_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "RECENT_MAX", 5)
    monkeypatch.setattr(history_module, "PAGE_MAX", 4)

    async def story(live: LiveService) -> None:
        slow: list[int] = []
        quick: list[int] = []
        of_one: list[int] = []

        async def follow(into: list[int], pause_s: float, job: str = "") -> None:
            async for event in live.follow(after=0, job=job):
                into.append(event.id)
                await asyncio.sleep(pause_s)

        before = {*live._history._followers}
        tasks = [
            asyncio.ensure_future(follow(slow, 0.01)),
            asyncio.ensure_future(follow(quick, 0.0)),
            asyncio.ensure_future(follow(of_one, 0.0, "1_3")),
        ]
        answer = await live.submit(ME, JobRequest(command=("/bin/true",), array="0-9"))
        await ended(live, *answer.jobs)
        await looked_at(live)
        last = live.context.commit.last_line
        while not (slow and slow[-1] == last and quick[-1] == last):
            await asyncio.sleep(0.01)
            last = live.context.commit.last_line
        assert slow == quick == list(range(1, last + 1))
        known: list[int] = []
        while page := (
            await live.events(job="1_3", after=max(known, default=0), limit=1000)
        ).events:
            known += [event.id for event in page]
        assert of_one == known
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert live._history._followers == before
        assert len(live._history._recent) <= 5

    in_memory(story, tmp_path)


# -- asked twice ----------------------------------------------------------------------------------


@telling_in_memory()
async def test_the_same_key_gives_the_same_job_and_another_request_a_conflict(
    live: LiveService,
) -> None:
    first = await live.submit(ME, NOTHING, "key")
    again = await live.submit(ME, NOTHING, "key")
    assert (again.id, again.repeated, first.repeated) == (first.id, True, False)
    with pytest.raises(ConflictError, match="was used for another request"):
        await live.submit(ME, bash("true"), "key")
    other = Who(user="nobody", role=Role.USER, uid=NOBODY)
    assert (await live.submit(other, NOTHING, "key")).id != first.id
    await ended(live, first.id)
    assert (await live.submit(ME, NOTHING, "key")).id == first.id


@telling_in_memory()
async def test_the_same_key_at_the_same_moment_makes_one_job(live: LiveService) -> None:
    results = await asyncio.gather(
        *(live.submit(ME, NOTHING, "key") for _ in range(20)),
        live.submit(ME, bash("true"), "key"),
        return_exceptions=True,
    )
    assert isinstance(results[-1], ConflictError)
    ids = {answer.id for answer in results[:-1]}  # type: ignore[union-attr]
    assert ids == {"1"}
    assert sum(not answer.repeated for answer in results[:-1]) == 1  # type: ignore[union-attr]
    await ended(live, "1")
    assert len((await live.jobs(ended=True)).jobs) == 1


@telling_in_memory()
async def test_a_submission_whose_client_went_away_is_kept_or_not_and_never_half(
    live: LiveService,
) -> None:
    asked = asyncio.ensure_future(live.submit(ME, NOTHING, "key"))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    again = await live.submit(ME, NOTHING, "key")
    await ended(live, again.id)
    assert len((await live.jobs(ended=True)).jobs) == 1


# -- how many -------------------------------------------------------------------------------------


@telling_in_memory()
async def test_one_user_cannot_fill_the_queue(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wishes_module, "JOBS_OF_ONE_MAX", 5)
    monkeypatch.setattr(wishes_module, "JOBS_MAX", 8)
    other = Who(user="nobody", role=Role.USER, uid=NOBODY)
    held = JobRequest(command=("/bin/true",), array="0-4", held=True)
    await live.submit(ME, held)
    with pytest.raises(TooManyError, match="me has 5 active jobs and asks for 1 more"):
        await live.submit(ME, NOTHING)
    with pytest.raises(TooManyError, match="limit is 8 active jobs"):
        await live.submit(other, held)


@within(300)
async def test_an_array_of_thousands_is_taken_shown_and_cancelled(tmp_path: Path) -> None:
    members = 10_000 if THOROUGH else 2_000
    async with living(tmp_path, policy="afs", engine=memory(4)) as live:
        first = await runs(live, devices="4")
        request = JobRequest(command=("sleep", "60"), array=f"0-{members - 1}%50", grace_s=0.2)
        answer = await live.submit(ME, request)
        assert len(answer.jobs) == members
        last = answer.jobs[-1]
        assert (await view_of(live, last)).cause == "array"
        assert (await live.why(answer.jobs[0])).position == 1
        assert len((await live.jobs(limit=members)).jobs) == members
        await live.cancel(ME, first)
        await until(live, State.RUNNING, jobs=answer.jobs[:4])
        await live.cancel(ME, answer.id)
        await ended(live, *answer.jobs[:4], last)
        check(live.context.scheduler)


@telling_in_memory()
async def test_what_is_not_there_is_said_in_one_sentence(live: LiveService) -> None:
    job = await waits(live, "true", name="resnet", held=True)
    with pytest.raises(NotFoundError, match="there is no job 'nobody'"):
        await live.job("nobody")
    with pytest.raises(NotFoundError, match="there is no attempt 7"):
        await live.log(job, attempt=7)
    with pytest.raises(NotFoundError, match="there is no device 'here:9'; expected here:0 to"):
        await live.manage(ME, "here:9", "avoid")
    with pytest.raises(InvalidRequestError, match="there is no such job"):
        await live.submit(ME, bash("true", after=("77",)))
    assert (await live.job("resnet")).job.id == job
    await waits(live, "true", name="resnet", held=True)
    with pytest.raises(InvalidRequestError, match="2 jobs are called 'resnet'"):
        await live.job("resnet")
    await end_all(live)
    with pytest.raises(ConflictError, match="has ended already"):
        await live.cancel(ME, job)


@telling_in_memory()
async def test_the_difference_of_the_code_is_kept_once_however_many_jobs_have_it(
    live: LiveService, tmp_path: Path
) -> None:
    diff = "+x = 1\n" * 100_000
    code = Code(commit="c0ffee", branch="main", dirty=True, diff=diff)
    request = JobRequest(command=("/bin/true",), code=code, array="0-49")
    answer = await live.submit(ME, request)
    more = await live.submit(ME, JobRequest(command=("/bin/true",), code=code))
    await ended(live, *answer.jobs, more.id)
    assert (await live.job(answer.jobs[7])).code == code
    assert (await live.job(more.id)).code == code
    assert len(list((tmp_path / "state" / "code").iterdir())) == 1
    assert (tmp_path / "treadle.db").stat().st_size < 2 * len(diff)


@telling_in_memory(slots=1)
async def test_no_start_is_estimated_for_a_job_that_thousands_wait_ahead_of(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.control.api.start_draws.STEPS", 1)
    await runs(live, devices="1", estimate_s=60.0)
    request = JobRequest(command=("sleep", "60"), array="0-29", estimate_s=60.0)
    answer = await live.submit(ME, request)
    await looked_at(live)
    near, far = [(await live.why(job)).estimate for job in (answer.jobs[0], answer.jobs[-1])]
    assert near is not None
    assert far is not None
    assert near.runs == RUNS
    assert (far.runs, far.sentence) == (0, "29 jobs are ahead of it")


@telling_in_memory(slots=1)
async def test_a_decision_that_had_to_wait_for_the_processor_leaves_starts_known(
    live: LiveService,
) -> None:
    await runs(live, devices="1", estimate_s=60.0)
    request = JobRequest(command=("sleep", "60"), array="0-11", estimate_s=60.0)
    last = (await live.submit(ME, request)).jobs[-1]
    await looked_at(live)
    live.context.charge.decided(2.0, 0.001)
    found = (await live.why(last)).estimate
    assert found is not None
    assert found.latest_s is not None


@telling_in_memory(slots=1)
async def test_no_range_is_claimed_of_a_start_behind_a_job_whose_end_is_unknown(
    live: LiveService,
) -> None:
    """Runs of other scripts alone say too little of a length: no range is claimed."""
    for _ in range(12):
        await ended(live, (await live.submit(ME, JobRequest(command=("/bin/true",)))).id)
    first = await runs(live, devices="1")
    waits = (await live.submit(ME, JobRequest(command=("/bin/true",)))).id
    await looked_at(live)
    end, start = (await live.why(first)).end, (await live.why(waits)).estimate
    assert end is not None
    assert start is not None
    assert (end.known, start.coverage) == (False, None)
