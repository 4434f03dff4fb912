"""`treadle why` for each kind of waiting, word by word, against real processes; and what it says
would help does help."""

from pathlib import Path

import pytest

from tests.control.asking import LONG, looked_at, runs, short, told, waits
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
        assert short(why) == (
            "devices",
            "it asks for 1 device and all 4 are taken",
            "",
            False,
            1,
        )
        assert why.evidence == ("1 job holds devices, all 4 devices are taken, 1 job waits",)
        assert why.estimate is not None
        assert why.estimate.sentence == f"how long job {first} will run is not known"
        behind = await waits(live, devices="2")
        assert short(await live.why(behind)) == (
            "devices",
            "it asks for 2 devices and all 4 are taken",
            "",
            False,
            2,
        )
        listed = {view.id: view.because for view in (await live.jobs()).jobs}
        assert listed[behind] == (await live.why(behind)).because, "one reason, wherever it is"
        await live.cancel(ME, first)
        await until(live, State.RUNNING, jobs=(job, behind))

    told(story, tmp_path)


def test_some_devices_are_free_and_a_smaller_job_would_start(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await runs(live, devices="3")
        job = await waits(live, devices="2")
        assert short(await live.why(job)) == (
            "devices",
            "it asks for 2 devices and 1 of 4 is free",
            "submitted with --devices 1 it would start now",
            False,
            1,
        )
        await runs(live, devices="1")  # as it was told

    told(story, tmp_path)


def test_the_reason_of_an_elastic_job_names_its_smallest_size(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await runs(live, devices="3")
        job = await waits(live, devices="2..4")
        assert short(await live.why(job))[:3] == (
            "devices",
            "it needs at least 2 devices and 1 of 4 is free",
            "submitted with --devices 1 it would start now",
        )

    told(story, tmp_path, policy="afs")


def test_who_is_expected_to_end_next_is_said_where_that_is_known(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live, devices="4", estimate_s=600)
        job = await waits(live)
        assert (await live.why(job)).change == (
            f"wait: job {first} is expected to end in about 10 min, which frees 1 device for it"
        )
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
        assert short(await live.why(job)) == (
            "held",
            "its user holds it",
            f"treadle release {job} lets it start",
            False,
            None,
        )
        await live.release(ME, job)
        await until(live, State.RUNNING, jobs=(job,))

    told(story, tmp_path)


def test_it_waits_for_other_jobs(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        one, other = await runs(live), await waits(live, held=True)
        job = await waits(live, "true", after=(one,))
        assert short(await live.why(job)) == (
            "dependency",
            f"it starts after job {one} (running)",
            "",
            False,
            None,
        )
        both = await waits(live, "true", after_any=(one, other))
        assert (
            await live.why(both)
        ).because == f"it starts after jobs {one} (running), {other} (held)"
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
        assert short(await live.why(job)) == (
            "dependency",
            f"it can never start: it depends on the success of a job, and job {first} {how}",
            f"treadle release {job} runs it anyway; treadle cancel {job} drops it",
            True,
            None,
        )
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
        assert (await live.why(job)).because.startswith(f"it starts after array {array} (")
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
        assert (found.members, found.because) == (2, "2 run")

    told(story, tmp_path, slots=2)


def test_its_array_has_reached_its_limit(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        array = await live.submit(ME, bash(LONG, array="0-2%1", grace_s=0.2))
        await until(live, State.RUNNING, jobs=array.jobs[:1])
        assert short(await live.why(array.jobs[1])) == (
            "array",
            f"at most 1 member of array {array.id} may run at once: 1 runs",
            "",
            False,
            None,
        )
        two = await live.submit(ME, bash(LONG, array="0-2%2", grace_s=0.2))
        await until(live, State.RUNNING, jobs=two.jobs[:2])
        assert (await live.why(two.jobs[2])).because == (
            f"at most 2 members of array {two.id} may run at once: 2 run"
        )
        await live.cancel(ME, array.jobs[0])
        await until(live, State.RUNNING, jobs=array.jobs[1:2])

    told(story, tmp_path)


def test_it_waits_for_capacity(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        job = await waits(live, devices="9", wait_for_capacity=True)
        assert short(await live.why(job)) == (
            "capacity",
            "it waits until there is room for it: it asks for 9 devices and the cluster has 4",
            "",
            False,
            None,
        )
        await runs(live, devices="4")

    told(story, tmp_path)


def test_jobs_of_higher_priority_are_ahead(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await runs(live, devices="4")
        job = await waits(live)
        high = await waits(live, priority=5)
        assert short(await live.why(job)) == (
            "devices",  # Without the other it would wait as well.
            "it asks for 1 device and all 4 are taken",
            "",
            False,
            2,
        )
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
        assert short(await live.why(job)) == (
            "order",
            (
                "2 devices are free and it asks for 1, but this policy lets no job overtake, and "
                f"job {big} ahead of it waits for 4"
            ),
            f"treadle priority {job} 1 (for admins) starts it now",
            False,
            2,
        )
        await live.change(ME, job, JobChange(priority=1))
        await until(live, State.RUNNING, jobs=(job,))

    told(story, tmp_path, policy="fifo")


def test_a_higher_priority_stops_what_can_resume(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live, devices="4", resumable=True)
        job = await waits(live)
        assert (await live.why(job)).change == (
            f"treadle priority {job} 1 (for admins) starts it now and stops job {first}"
        )
        await live.change(ME, job, JobChange(priority=1))
        await until(live, State.RUNNING, jobs=(job,))
        await until(live, State.PENDING, jobs=(first,))
        assert (await live.why(first)).because == ("it asks for 4 devices and 3 of 4 are free")

    told(story, tmp_path, policy="backfill+steady?run_s=0&rest_s=0")


def test_its_rank_under_a_policy(tmp_path: Path) -> None:
    """Between two decisions a job may wait although it fits; a policy that rests shows it."""

    async def story(live: LiveService) -> None:
        rests = Resting(live.context.scheduler.policy)
        live.context.scheduler.policy = rests
        one, other = await waits(live), await waits(live)
        assert short(await live.why(one)) == (
            "rank",
            "it ranks first and 4 devices are free; the policy has not chosen it yet",
            "",
            False,
            1,
        )
        assert (await live.why(other)).because == (
            "it ranks behind 1 waiting job and is started when its turn comes"
        )

    told(story, tmp_path, policy="las")


class Resting(Wrapper):
    def decide(self, snapshot: Snapshot) -> Schedule:
        return Schedule()
