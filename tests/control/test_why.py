"""`treadle why` for each kind of waiting, against real processes; and what it says would help does
help."""

from pathlib import Path

import pytest

from tests.control.asking import LONG, counts, events_of, looked_at, runs, short, told, waits
from tests.control.living import ME, bash, ended, until
from treadle.control.api import LiveService
from treadle.control.api.why_array import why_array
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.wire.jobs import JobChange, State


def test_all_devices_are_taken(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live, devices="4")
        job = await waits(live)
        why = await live.why(job)
        assert short(why) == ("devices", "", False, 1)
        assert (counts(why), why.numbers["holders"]) == ((1, 0, 4), (first,))
        assert why.estimate is not None
        assert why.estimate.unknown == (first,)
        behind = await waits(live, devices="2")
        assert short(await live.why(behind)) == ("devices", "", False, 2)
        listed = {view.id: view.because for view in (await live.jobs()).jobs}
        assert listed[behind] == (await live.why(behind)).sentence, "one reason, wherever it is"
        await live.cancel(ME, first)
        await until(live, State.RUNNING, jobs=(job, behind))

    told(story, tmp_path)


def test_some_devices_are_free_and_a_smaller_job_would_start(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await runs(live, devices="3")
        job = await waits(live, devices="2")
        why = await live.why(job, verbose=True)
        assert (why.code, counts(why)) == ("devices", (2, 1, 4))
        assert dict(why.alternatives)["fewer"] == "with --devices 1 it would start now"
        assert (await live.why(job)).alternatives == (), "nothing is tried unless it is asked for"
        await runs(live, devices="1")  # as it was told

    told(story, tmp_path)


def test_the_reason_of_an_elastic_job_names_its_smallest_size(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await runs(live, devices="3")
        job = await waits(live, devices="2..4")
        why = await live.why(job)
        assert (why.code, counts(why)) == ("devices", (2, 1, 4))

    told(story, tmp_path, policy="afs")


def test_who_is_expected_to_end_next_is_said_where_that_is_known(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live, devices="4", estimate_s=600)
        job = await waits(live)
        assert (await live.why(job)).freed_by == (first,)
        estimate = (await live.why(job)).estimate
        assert estimate is not None
        assert estimate.earliest_s is not None
        assert estimate.latest_s is not None
        # About half to twice what its user says.
        assert 200 < estimate.earliest_s <= 301
        assert 1190 < estimate.latest_s <= 1500

    told(story, tmp_path)


def test_its_user_holds_it(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        job = await waits(live, held=True)
        assert short(await live.why(job)) == ("held", f"treadle release {job}", False, None)
        await live.release(ME, job)
        await until(live, State.RUNNING, jobs=(job,))

    told(story, tmp_path)


def test_it_waits_for_other_jobs(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        one, other = await runs(live), await waits(live, held=True)
        job = await waits(live, "true", after=(one,))
        why = await live.why(job)
        assert short(why) == ("dependency", "", False, None)
        assert why.numbers["after"] == (("job", one, "running"),)
        both = await waits(live, "true", after_any=(one, other))
        first, second = (("job", one, "running"), ("job", other, "held"))
        assert (await live.why(both)).numbers["after"] == (first, second)
        await live.cancel(ME, other)
        await live.cancel(ME, one)
        assert (await ended(live, both))[0].state is State.SUCCEEDED

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("body", "fields", "how"),
    [
        ("exit 3", {"retries": 0}, "failed"),
        (LONG, {}, "was cancelled"),
        (LONG, {"time_limit_s": 0.1}, "ran into its time limit"),
    ],
)
def test_what_it_waits_for_can_never_be(
    tmp_path: Path, body: str, fields: dict[str, object], how: str
) -> None:
    async def story(live: LiveService) -> None:
        first = await waits(live, body, **fields)
        job = await waits(live, "true", after=(first,))
        if how == "was cancelled":
            await live.cancel(ME, first)
        await ended(live, first)
        await looked_at(live)
        why = await live.why(job)
        assert (why.code, why.never, why.position) == ("broken", True, None)
        assert why.numbers["because"] == f"job {first} {how}"
        assert f"treadle release {job} " in why.change
        await live.release(ME, job)
        assert (await ended(live, job))[0].state is State.SUCCEEDED

    told(story, tmp_path)


def test_a_dependency_that_ended_long_ago_or_within_a_moment_counts(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        for _ in range(8):
            first = (await live.submit(ME, bash("true"))).id
            job = (await live.submit(ME, bash("true", after=(first,)))).id
            views = await ended(live, first, job)
            assert [view.state for view in views] == [State.SUCCEEDED] * 2
        late = (await live.submit(ME, bash("true", after=(first,)))).id
        await ended(live, late)

    told(story, tmp_path)


def test_a_job_after_an_array_starts_when_all_members_have_ended(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        array = (await live.submit(ME, bash("sleep 0.1", array="0-4%2"))).id
        job = (await live.submit(ME, bash("true", after=(array,)))).id
        after = (await live.why(job)).numbers["after"]
        assert isinstance(after, tuple)
        assert [each[:2] for each in after] == [("array", array)]
        (view,) = await ended(live, job)
        assert view.state is State.SUCCEEDED
        assert all(view.state.ended for view in (await live.jobs(array=array, ended=True)).jobs)

    told(story, tmp_path)


def test_members_that_end_while_it_is_computed_are_not_counted(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        array = await live.submit(ME, bash(LONG, array="0-2", grace_s=0.2))
        await until(live, State.RUNNING, jobs=array.jobs[:2])
        records = [live.context.jobs.records[name] for name in array.jobs]
        before = live.context.frozen()
        await live.cancel(ME, array.jobs[0])
        await ended(live, array.jobs[0])
        await until(live, State.RUNNING, jobs=array.jobs[2:])
        found = why_array(before, array.id, records, State.RUNNING)
        assert (found.members, found.sentence) == (2, "2 running")

    told(story, tmp_path, slots=2)


def test_its_array_has_reached_its_limit(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        array = await live.submit(ME, bash(LONG, array="0-2%1", grace_s=0.2))
        await until(live, State.RUNNING, jobs=array.jobs[:1])
        why = await live.why(array.jobs[1])
        assert short(why) == ("array", "", False, None)
        assert (why.numbers["limit"], why.numbers["running"]) == (1, 1)
        two = await live.submit(ME, bash(LONG, array="0-2%2", grace_s=0.2))
        await until(live, State.RUNNING, jobs=two.jobs[:2])
        assert (await live.why(two.jobs[2])).numbers["running"] == 2
        await live.cancel(ME, array.jobs[0])
        await until(live, State.RUNNING, jobs=array.jobs[1:2])

    told(story, tmp_path)


def test_jobs_of_higher_priority_are_ahead(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await runs(live, devices="4")
        job = await waits(live)
        high = await waits(live, priority=5)
        assert short(await live.why(job)) == ("devices", "", False, 2), "it would wait anyway"
        assert (await live.why(high)).position == 1
        await waits(live, priority=6)
        assert (await live.why(job)).position == 3
        assert [view.priority for view in (await live.jobs()).jobs] == [0, 6, 5, 0]

    told(story, tmp_path)


def test_fifo_lets_no_job_overtake(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await runs(live, devices="2")
        big = await waits(live, devices="4")
        job = await waits(live)
        why = await live.why(job, verbose=True)
        assert (why.code, why.position) == ("order", 2)
        assert why.numbers == {"first_job": big, "asked": 4, "free": 2}
        tried = dict(why.alternatives)["priority"]
        assert tried == f"treadle priority {job} 1 starts it now"
        await live.change(ME, job, JobChange(priority=1))
        await until(live, State.RUNNING, jobs=(job,))

    told(story, tmp_path, policy="fifo")


def test_a_higher_priority_stops_what_can_resume(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live, devices="4", resumable=True)
        job = await waits(live)
        tried = dict((await live.why(job, verbose=True)).alternatives)["priority"]
        assert tried == f"treadle priority {job} 1 starts it now and preempts job {first}"
        await live.change(ME, job, JobChange(priority=1))
        await until(live, State.RUNNING, jobs=(job,))
        await until(live, State.PENDING, jobs=(first,))
        why, view = await live.why(first), (await live.job(first)).job
        assert (why.code, why.numbers["for_job"]) == ("preempted", job)
        assert (view.cause, view.preempted_for) == ("preempted", job)
        assert view.preempted_at is not None
        await live.cancel(ME, job)
        await until(live, State.RUNNING, jobs=(first,))
        view = (await live.job(first)).job
        assert (view.preempted_for, view.preempted_at) == ("", None)
        texts = [each.text for each in await events_of(live, first)]
        assert f"preempt job {first} for job {job}" in texts

    told(story, tmp_path)


def test_its_rank_under_a_policy(tmp_path: Path) -> None:
    """Between two decisions a job may wait although it fits; a policy that rests shows it."""

    async def story(live: LiveService) -> None:
        rests = Resting(live.context.scheduler.policy)
        live.context.scheduler.policy = rests
        one, other = await waits(live), await waits(live)
        for ahead, job in enumerate((one, other)):
            why = await live.why(job)
            assert (why.code, why.numbers["ahead"], why.position) == ("rank", ahead, ahead + 1)

    told(story, tmp_path, policy="las")


class Resting(Wrapper):
    def decide(self, snapshot: Snapshot) -> Schedule:
        return Schedule()
