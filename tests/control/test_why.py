"""`treadle why` for each kind of waiting, and for jobs that run or have ended; what it says would
help does help."""

import asyncio
from pathlib import Path

import pytest

from tests.control.asking import (
    LONG,
    counts,
    events_of,
    looked_at,
    runs,
    short,
    telling,
    telling_in_memory,
    told,
    waits,
)
from tests.control.living import ME, bash, ended, living, text_of, until, view_of
from treadle.control.api import LiveService
from treadle.control.api.why_array import why_array
from treadle.core.job import JobId
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.failures.failure_history import Patience
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.wire.jobs import JobChange, State
from treadle.wire.machine import PolicyChange
from treadle.wire.problems import ConflictError


@telling_in_memory()
async def test_all_devices_are_taken(live: LiveService) -> None:
    first = await runs(live, devices="4")
    job = await waits(live)
    why = await live.why(job)
    assert short(why) == ("devices", "", False, 1)
    assert (counts(why), why.numbers["holders"]) == ((1, 0, 4), (first,))
    behind = await waits(live, devices="2")
    why = await live.why(behind)
    assert (short(why), counts(why)) == (("devices", "", False, 2), (2, 0, 4))
    await live.cancel(ME, first)
    await until(live, State.RUNNING, jobs=(job, behind))


@telling_in_memory(policy="afs")
async def test_some_devices_are_free_and_a_smaller_job_would_start(live: LiveService) -> None:
    await runs(live, devices="3")
    job = await waits(live, devices="2..4")
    why = await live.why(job, verbose=True)
    assert (why.code, counts(why)) == ("devices", (2, 1, 4))
    assert dict(why.alternatives)["fewer"] == "with --devices 1 it would start now"
    assert (await live.why(job)).alternatives == (), "nothing is tried unless it is asked for"
    await runs(live, devices="1")  # as it was told


@pytest.mark.parametrize(
    ("body", "fields", "how"),
    [
        ("exit 3", {"retries": 0}, "failed"),
        (LONG, {}, "was cancelled"),
        (LONG, {"time_limit_s": 0.1}, "ran into its time limit"),
    ],
)
@telling_in_memory()
async def test_what_it_waits_for_can_never_be(
    live: LiveService, body: str, fields: dict[str, object], how: str
) -> None:
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


@telling_in_memory()
async def test_a_dependency_that_ended_long_ago_or_within_a_moment_counts(
    live: LiveService,
) -> None:
    for _ in range(8):
        first = (await live.submit(ME, bash("true"))).id
        job = (await live.submit(ME, bash("true", after=(first,)))).id
        views = await ended(live, first, job)
        assert [view.state for view in views] == [State.SUCCEEDED] * 2
    late = (await live.submit(ME, bash("true", after=(first,)))).id
    await ended(live, late)


@telling_in_memory(slots=2)
async def test_members_that_end_while_it_is_computed_are_not_counted(live: LiveService) -> None:
    array = await live.submit(ME, bash(LONG, array="0-2"))
    await until(live, State.RUNNING, jobs=array.jobs[:2])
    records = [live.context.jobs.records[name] for name in array.jobs]
    before = live.context.frozen()
    await live.cancel(ME, array.jobs[0])
    await ended(live, array.jobs[0])
    await until(live, State.RUNNING, jobs=array.jobs[2:])
    found = why_array(before, array.id, records, State.RUNNING)
    assert (found.members, found.sentence) == (2, "2 running")


@telling_in_memory(policy="fifo")
async def test_fifo_lets_no_job_overtake(live: LiveService) -> None:
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


@telling_in_memory()
async def test_a_higher_priority_stops_what_can_resume(live: LiveService) -> None:
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


class Resting(Wrapper):
    def decide(self, snapshot: Snapshot) -> Schedule:
        return Schedule()


@telling_in_memory(policy="las")
async def test_its_rank_under_a_policy(live: LiveService) -> None:
    """Between two decisions a job may wait although it fits; a policy that rests shows it."""
    rests = Resting(live.context.scheduler.policy)
    live.context.scheduler.policy = rests
    one, other = await waits(live), await waits(live)
    for ahead, job in enumerate((one, other)):
        why = await live.why(job)
        assert (why.code, why.numbers["ahead"], why.position) == ("rank", ahead, ahead + 1)


@telling_in_memory(patience=Patience(wait_s=30.0))
async def test_it_failed_and_is_tried_again_later(live: LiveService) -> None:
    job = await waits(live, "exit 75")  # EX_TEMPFAIL: try again later
    why = await live.why(job)
    assert (why.code, why.numbers["failures"]) == ("backoff", 1)
    assert 25.0 < why.numbers["in_s"] <= 30.0  # type: ignore[operator]
    assert (await view_of(live, job)).cause == "backoff"


@telling()
async def test_starting_running_and_stopping(live: LiveService) -> None:
    body = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    job = await runs(live, body, devices="2", grace_s=0.5, resumable=True)
    why = await live.why(job)
    assert (short(why), why.numbers["size"]) == (("running", "", False, None), 2)
    while "ready" not in await text_of(live, job):
        await asyncio.sleep(0.01)
    urgent = await waits(live, devices="4", priority=3)
    why = await live.why(job)
    assert (why.code, why.numbers["by"]) == ("leaving", "policy")
    assert why.numbers["for_job"] == urgent
    assert 0.0 <= why.numbers["in_s"] <= 0.5  # type: ignore[operator]
    assert (await view_of(live, urgent)).state is State.STARTING
    found = await live.why(urgent)
    assert (found.code, found.numbers["jobs"]) == ("releasing", (job,))
    await live.cancel(ME, job)
    assert (await live.why(job)).numbers["by"] == "cancel"
    await until(live, State.RUNNING, jobs=(urgent,))


def test_draining(tmp_path: Path) -> None:
    async def drained() -> None:
        async with living(tmp_path) as live:
            first = await runs(live, devices="4")
            job = await waits(live)
            await live.shut_down(ME, "drain")
            assert (await live.why(job)).code == "daemon-draining"
            with pytest.raises(ConflictError, match="the daemon is draining and takes no jobs"):
                await live.submit(ME, bash("true"))
            await live.cancel(ME, first)
            await asyncio.wait_for(live.stopped.wait(), 30)
            assert (await view_of(live, job)).state is State.PENDING

    async def again(live: LiveService) -> None:
        await until(live, State.RUNNING, jobs=("2",))

    asyncio.run(asyncio.wait_for(drained(), 180))
    told(again, tmp_path)


class Broken(Wrapper):
    def decide(self, snapshot: Snapshot) -> Schedule:
        raise RuntimeError("it divides by zero devices")


@telling_in_memory()
async def test_a_policy_that_fails_keeps_the_last_schedule_and_can_be_replaced(
    live: LiveService,
) -> None:
    first = await runs(live)
    live.context.scheduler.policy = Broken(live.context.scheduler.policy)
    job = await waits(live)
    other = await waits(live)
    why = await live.why(job)
    assert short(why) == ("policy", "treadle policy fifo", False, 1)
    assert why.numbers == {"policy": "backfill", "because": "it divides by zero devices"}
    assert live.policy().error == live.decisions().decisions[-1].error
    assert live.policy().error == "it divides by zero devices"
    assert (await view_of(live, first)).state is State.RUNNING
    notes = [event.text for event in await events_of(live, kind="Noted")]
    assert notes[1:] == ["policy failed: it divides by zero devices"]
    await live.set_policy(ME, PolicyChange(policy="fifo"))
    await until(live, State.RUNNING, jobs=(first, job, other))
    assert live.policy().error == ""
    assert (await view_of(live, first)).attempts == 1


class Muddled(Wrapper):
    """It fails at everything but decisions."""

    def rank(self, job: object, now: float) -> object:  # type: ignore[override]
        raise ValueError("no rank")

    def never_fits(self, spec: object, cluster: object) -> str | None:
        raise ValueError("no idea")

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        raise ValueError("no words")


@telling_in_memory()
async def test_a_policy_that_cannot_rank_stops_no_job(live: LiveService) -> None:
    guarded = live.context.scheduler.policy
    guarded.inner = Muddled(guarded.inner)  # type: ignore[attr-defined]
    await ended(live, await waits(live, "true"))
    await runs(live, devices="4")
    job = await waits(live)
    why = await live.why(job)
    assert why.code == "policy"
    assert why.numbers["because"] == f"it cannot rank job {job}: no rank"
    await live.set_policy(ME, PolicyChange(policy="fifo"))
    assert (await live.why(job)).code == "devices"


NO_MODULE = "ModuleNotFoundError: No module named numpyy"
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"


@pytest.mark.parametrize(
    ("body", "fields", "numbers", "change"),
    [
        ("true", {}, {}, ""),
        (f"echo '{NO_MODULE}'; exit 1", {}, {"exit": 1}, "fix the cause, then submit it again"),
        (LONG, {"time_limit_s": 0.1}, {}, "submit it again with a longer --time-limit"),
        ("exit 137", {"retries": 0}, {"exit": 137, "signal": "SIGKILL"}, None),
        ("exit 7", {}, {"exit": 7, "signal": ""}, "treadle logs 1 "),
        (
            f"echo '{RESET}'; exit 1",
            {"retries": 5},
            {"failures": 3, "given_up": "repeats", "most": 3},
            "find the cause first: it failed 3 times",
        ),
    ],
)
@telling_in_memory()
async def test_how_it_ended(
    live: LiveService,
    body: str,
    fields: dict[str, object],
    numbers: dict[str, object],
    change: str | None,
) -> None:
    (view,) = await ended(live, await waits(live, body, **fields))
    why = await live.why(view.id)
    assert (why.never, why.position, why.estimate) == (False, None, None)
    assert why.code == view.state.value.lower()
    assert numbers.items() <= why.numbers.items()
    assert change is None or why.change.startswith(change)
    assert NO_MODULE not in body or dict(why.details)["output"] == NO_MODULE
