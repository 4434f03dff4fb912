"""Policies that decide live: every one of them sees work through, switching stops no job, and
retries, resizing, resting and priorities do what they promise."""

import asyncio
from pathlib import Path

import pytest

from tests.control.asking import (
    LONG,
    end_all,
    engine_of,
    in_memory,
    looked_at,
    runs,
    telling,
    telling_in_memory,
    waits,
)
from tests.control.living import ME, bash, ended, living, until, view_of
from tests.shared import THOROUGH
from tests.waiting import until as there
from treadle.control.api import LiveService
from treadle.failures.failure_history import Patience
from treadle.policies.live.naming import wrapped
from treadle.policies.registry import BUILT_IN
from treadle.testing.checks import check
from treadle.wire.jobs import JobChange, State
from treadle.wire.machine import PolicyChange
from treadle.wire.problems import InvalidRequestError

NCCL = "torch.distributed.DistBackendError: NCCL error: unhandled system error"
DAILY = ("afs", "muri-l", "philly", "rubick", "weave-l")  # those with most of their own
LIMIT_S = 0.5  # of a job that is held before


@pytest.mark.parametrize("policy", BUILT_IN if THOROUGH else DAILY)
def test_every_policy_sees_a_small_workload_through(tmp_path: Path, policy: str) -> None:
    async def story(live: LiveService) -> None:
        jobs = []
        for number in range(6):
            request = bash(
                "sleep 0.15",
                devices=("1", "2", "1..4")[number % 3],
                resumable=number % 2 == 1,
                guaranteed=number % 3 != 0,
                tenant=("", "lab")[number % 2],
                priority=number % 2,
                estimate_s=0.2,
            )
            jobs.append((await live.submit(ME, request)).id)
        views = await ended(live, *jobs)
        assert [view.state for view in views] == [State.SUCCEEDED] * 6
        assert live.policy().error == ""

    parameters = {"philly": "?retry_s=0.1&tick_s=0.05"}.get(policy, "")
    in_memory(story, tmp_path, policy=f"{policy}{parameters}")


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("afs", "afs+live"),
        ("afs?quotas=a:2", "afs+live?quotas=a:2"),
        ("las+defrag", "las+defrag+live"),
    ],
)
def test_the_live_decision_is_around_what_a_user_names(text: str, whole: str) -> None:
    assert wrapped(text) == whole


def test_switching_the_policy_stops_no_job(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        jobs = [await runs(live, resumable=True) for _ in range(4)]
        waiting = await waits(live)
        for policy in ("fifo", "srtf", "muri-s", "las", "afs", "rubick"):
            shown = await live.set_policy(ME, PolicyChange(policy=policy))
            assert shown.policy == policy
            await looked_at(live)
        for job in jobs:
            view = await view_of(live, job)
            assert (view.state, view.attempts) == (State.RUNNING, 1)
        with pytest.raises(InvalidRequestError, match="did you mean srtf"):
            await live.set_policy(ME, PolicyChange(policy="srft"))
        assert (await view_of(live, waiting)).state is State.PENDING

    async def again(live: LiveService) -> None:
        assert live.policy().policy == "rubick"

    in_memory(story, tmp_path)
    in_memory(again, tmp_path, policy="")  # It is as it was.


# -- retries --------------------------------------------------------------------------------------


@telling_in_memory()
async def test_a_transient_failure_is_tried_again_on_other_devices(live: LiveService) -> None:
    job = await runs(live, retries=5)
    for failures in (1, 2):
        broken = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        engine_of(live).write(job, broken)
        engine_of(live).finish(job, 1)
        while (await view_of(live, job)).failures < failures:
            await asyncio.sleep(0.01)
        await until(live, State.RUNNING, jobs=(job,))
    detail = await live.job(job)
    assert len({attempt.devices for attempt in detail.attempts}) == 3
    assert detail.attempts[0].failure is not None
    assert detail.attempts[0].failure.advice == "retry on other devices"


@telling_in_memory()
async def test_the_time_limit_counts_running_time_and_is_a_state_of_its_own(
    live: LiveService,
) -> None:
    job = await waits(live, LONG, time_limit_s=0.3, retries=5)
    (view,) = await ended(live, job)
    assert (view.state, view.attempts) == (State.TIMEOUT, 1)
    resumable = await runs(live, LONG, time_limit_s=LIMIT_S, resumable=True)
    await live.hold(ME, resumable)
    await until(live, State.PAUSED, jobs=(resumable,))
    used_s = (await view_of(live, resumable)).running_s
    assert used_s > 0
    await live.release(ME, resumable)
    (view,) = await ended(live, resumable)
    assert view.state is State.TIMEOUT
    assert view.running_s >= LIMIT_S


@telling(patience=Patience(wait_s=600.0))
async def test_backing_off_lets_no_lower_priority_pass(live: LiveService) -> None:
    body = f'test "$TREADLE_ATTEMPT" -ge 2 || {{ echo "{NCCL}"; exit 1; }}'
    job = await waits(live, body, devices="4")
    while not (await view_of(live, job)).failures:
        await asyncio.sleep(0.01)
    equal = await waits(live, "true")  # It may pass: nobody is more important.
    await ended(live, equal)
    assert (await view_of(live, job)).attempts == 1
    lower = await waits(live, "true", priority=-1)
    views = await ended(live, job, lower)
    assert [view.state for view in views] == [State.SUCCEEDED] * 2
    first, second = (view.started_at or 0.0 for view in views)
    ends = (await live.job(job)).attempts[1].ended_at
    assert ends is not None
    assert second >= ends - 0.5
    assert first < second


# -- resizing -------------------------------------------------------------------------------------

RESUMES = """
at=$(cat $TREADLE_CHECKPOINT_DIR/step 2>/dev/null || echo 0)
echo "$TREADLE_ATTEMPT $WORLD_SIZE $TREADLE_RESUME $at" >> $STORY
trap 'echo $at > $TREADLE_CHECKPOINT_DIR/step; exit 143' TERM
while [ $at -lt 40 ]; do sleep 0.05 & wait $!; at=$((at + 1)); touch $STORY-stepped; done
"""


def test_an_elastic_job_is_resized_by_stop_checkpoint_and_relaunch(tmp_path: Path) -> None:
    story_path = tmp_path / "story"

    async def whole() -> None:
        async with living(tmp_path, policy="max-min") as live:
            job = await live.submit(
                ME,
                bash(
                    RESUMES,
                    devices="1..4",
                    resumable=True,
                    env={"STORY": str(story_path)},
                    grace_s=2.0,
                    ranks="one",
                ),
            )
            await until(live, State.RUNNING, jobs=(job.id,))
            await asyncio.to_thread(there, (tmp_path / "story-stepped").exists)
            other = await live.submit(ME, bash("exec sleep 0.6", devices="2", resumable=False))
            views = await ended(live, job.id, other.id)
            assert [view.state for view in views] == [State.SUCCEEDED] * 2
            assert views[0].resizes >= 1
            assert views[0].failures == 0
            sizes = [len(attempt.devices) for attempt in (await live.job(job.id)).attempts]
            assert len(set(sizes)) > 1
            check(live.context.scheduler)

    asyncio.run(asyncio.wait_for(whole(), 180))
    lines = [line.split() for line in story_path.read_text().splitlines()]
    assert len(lines) >= 2
    steps = [int(words[-1]) for words in lines]
    assert steps[0] == 0
    assert all(step > 0 for step in steps[1:]), "it went on from its checkpoint"
    assert lines[1][2] == "1", "it is told that it resumes"


@telling_in_memory()
async def test_a_higher_priority_preempts_what_can_resume_and_never_what_cannot(
    live: LiveService,
) -> None:
    rigid = await runs(live, devices="2")
    soft = await runs(live, devices="2", resumable=True)
    high = await waits(live, devices="2", priority=5)
    await until(live, State.RUNNING, jobs=(high,))
    assert (await view_of(live, soft)).state is State.PENDING
    higher = await waits(live, devices="4", priority=9)
    await looked_at(live)
    assert (await view_of(live, rigid)).state is State.RUNNING
    assert (await view_of(live, rigid)).attempts == 1
    assert (await view_of(live, higher)).state is State.PENDING
    await live.change(ME, higher, JobChange(priority=0))
    await end_all(live)
