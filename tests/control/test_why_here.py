"""`treadle why` where the machine or the policy is the reason, and for jobs that run or have
ended."""

import asyncio
import os
import pwd
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.control.asking import LONG, looked_at, runs, short, told, waits
from tests.control.living import ME, bash, ended, living, local, text_of, until, view_of
from treadle.control.api import LiveService
from treadle.core.job import JobId
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.failures.failure_history import Patience
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.testing.gpus import FakeGpus
from treadle.wire.jobs import State
from treadle.wire.machine import PolicyChange
from treadle.wire.problems import ConflictError


def test_an_admin_has_devices_avoided(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        await live.manage(ME, "here:1", "avoid")
        job = await waits(live, devices="2")
        assert short(await live.why(job)) == (
            "closed",
            (
                "it needs 2 devices; 1 of 2 is free and one more cannot be used: "
                "an admin avoids device here:1"
            ),
            "treadle device here:1 manage (for admins) opens it again",
            False,
            1,
        )
        assert (await live.why(job)).evidence[-1] == (
            "here:1 is closed: an admin avoids device here:1"
        )
        await live.manage(ME, "here:1", "manage")
        await until(live, State.RUNNING, jobs=(job,))

    told(story, tmp_path, slots=2)


def test_too_few_devices_are_left_open_though_jobs_hold_the_others(tmp_path: Path) -> None:
    """1. One of three is avoided, and a job holds the others. 2. These are avoided as well."""

    async def story(live: LiveService) -> None:
        await live.manage(ME, "here:0", "avoid")
        await runs(live, devices="2")
        job = await waits(live, devices="3")
        assert short(await live.why(job))[:3] == (
            "closed",
            "it needs 3 devices; only 2 of 3 are open: an admin avoids device here:0",
            "treadle device here:0 manage (for admins) opens it again",
        )
        assert (await live.why(await waits(live, devices="2"))).cause == "devices"
        await live.manage(ME, "here:1", "avoid")
        await live.manage(ME, "here:2", "avoid")
        await looked_at(live)
        because = (await live.why(job)).because
        assert because.startswith("it needs 3 devices; none of 3 is open: an admin avoids ")

    told(story, tmp_path, slots=3)


def test_what_an_admin_has_avoided_stays_so_over_a_restart(tmp_path: Path) -> None:
    async def first(live: LiveService) -> None:
        await live.manage(ME, "here:0", "avoid")
        await looked_at(live)

    async def second(live: LiveService) -> None:
        job = await waits(live, devices="2")
        assert (await live.why(job)).cause == "closed"
        assert live.nodes()[0].devices[0].state == "avoided"
        await live.manage(ME, "here:0", "manage")
        await until(live, State.RUNNING, jobs=(job,))

    told(first, tmp_path, slots=2)
    told(second, tmp_path, slots=2)


@asynccontextmanager
async def stranger() -> AsyncIterator[int]:
    """A process that Treadle did not start."""
    process = subprocess.Popen(["/bin/sleep", "60"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


async def closed(live: LiveService, *, count: int) -> None:
    while len(live.context.scheduler.closed) != count:
        await local(live).device_watch.look()
        await asyncio.sleep(0.01)


def test_a_foreign_process_is_on_the_device(tmp_path: Path) -> None:
    gpus = FakeGpus(1)
    user = pwd.getpwuid(os.geteuid()).pw_name

    async def story(live: LiveService) -> None:
        async with stranger() as pid:
            gpus.put(0, pid)
            await closed(live, count=1)
            job = await waits(live)
            why = await live.why(job)
            assert why.because.startswith("it needs 1 device; the only idle one cannot be used: ")
            assert why.because.endswith(f"process {pid} of {user} is on device here:0")
            assert why.cause == "closed"
            assert why.change == "here:0 opens again as soon as the foreign process has left it"
        gpus.put(0)
        await closed(live, count=0)
        await until(live, State.RUNNING, jobs=(job,))

    told(story, tmp_path, devices=gpus)


def test_a_device_that_was_foreign_is_used_again_after_a_restart(tmp_path: Path) -> None:
    gpus = FakeGpus(1)

    async def first(live: LiveService) -> None:
        async with stranger() as pid:
            gpus.put(0, pid)
            await closed(live, count=1)
            gpus.put(0, pid)
            await looked_at(live)

    async def second(live: LiveService) -> None:
        assert (await ended(live, (await live.submit(ME, bash("true"))).id))[0].code == 0

    told(first, tmp_path, devices=gpus)
    gpus.put(0)
    told(second, tmp_path, devices=gpus)


def test_a_quarantined_device_is_named_and_stays_quarantined_over_a_restart(tmp_path: Path) -> None:
    gpus = FakeGpus(1)

    async def first(live: LiveService) -> None:
        local(live).device_watch.quarantine(0, "device here:0 still has 9.0 GiB in use")
        await looked_at(live)

    async def second(live: LiveService) -> None:
        job = await waits(live)
        assert short(await live.why(job))[:3] == (
            "closed",
            (
                "it needs 1 device; the only idle one cannot be used: "
                "device here:0 still has 9.0 GiB in use"
            ),
            "treadle device here:0 unquarantine (for admins), once it is clean",
        )
        await live.unquarantine(ME, "here:0")
        await until(live, State.RUNNING, jobs=(job,))

    told(first, tmp_path, devices=gpus)
    told(second, tmp_path, devices=gpus)


def test_it_failed_and_is_tried_again_later(tmp_path: Path) -> None:
    text = "torch.distributed.DistBackendError: NCCL error: unhandled system error"

    async def story(live: LiveService) -> None:
        body = f'test "$TREADLE_ATTEMPT" -ge 2 || {{ echo "{text}"; exit 1; }}'
        job = await waits(live, body)
        while not (await view_of(live, job)).failures:
            await asyncio.sleep(0.01)
        why = await live.why(job)
        assert why.cause == "backing off"
        assert why.because in {
            f"it failed once and is tried again in {left}, or as soon as a job of lower priority "
            "would start"
            for left in ("30 s", "29 s")
        }
        assert why.evidence[-1] == "it failed once so far"
        assert (await view_of(live, job)).cause == "backing off"

    told(story, tmp_path, patience=Patience(wait_s=30.0))


def test_starting_running_and_stopping(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        body = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        job = await runs(live, body, devices="2", grace_s=0.5)
        assert short(await live.why(job)) == (
            "running",
            "it has run on 2 devices for a moment",
            "",
            False,
            None,
        )
        while "ready" not in await text_of(live, job):
            await asyncio.sleep(0.01)
        await live.cancel(ME, job)
        assert (
            await live.why(job)
        ).because == "it was cancelled; it has a moment left to end by itself"
        behind = await waits(live, devices="4")
        assert (await view_of(live, behind)).state is State.STARTING
        assert (await live.why(behind)).because == f"it waits for job {job} to release its devices"
        while not (await live.why(job)).because.endswith("it is killed"):
            if (await view_of(live, job)).state.ended:
                break
            await asyncio.sleep(0.005)
        await until(live, State.RUNNING, jobs=(behind,))

    told(story, tmp_path)


def test_a_job_that_makes_way_says_so(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        body = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        first = await runs(live, body, devices="4", resumable=True, grace_s=2.9)
        while "ready" not in await text_of(live, first):
            await asyncio.sleep(0.01)
        await waits(live, priority=3)
        await until(live, State.STOPPING, jobs=(first,))
        assert re.fullmatch(
            "it is preempted and will resume later; it has [123] s left to end by itself",
            (await live.why(first)).because,
        )

    told(story, tmp_path, policy="backfill+steady?run_s=0&rest_s=0")


def test_draining(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live, devices="4")
        job = await waits(live)
        await live.shut_down(ME, "drain")
        assert short(await live.why(job)) == (
            "draining",
            "the daemon is draining and starts no more jobs",
            "run treadle up once it has stopped",
            False,
            1,
        )
        with pytest.raises(ConflictError, match="the daemon is draining and takes no jobs"):
            await live.submit(ME, bash("true"))
        await live.cancel(ME, first)
        await asyncio.wait_for(live.stopped.wait(), 30)
        assert (await view_of(live, job)).state is State.PENDING

    async def drained() -> None:
        async with living(tmp_path) as live:
            await story(live)

    async def again(live: LiveService) -> None:
        await until(live, State.RUNNING, jobs=("2",))

    asyncio.run(asyncio.wait_for(drained(), 180))
    told(again, tmp_path)


class Broken(Wrapper):
    def decide(self, snapshot: Snapshot) -> Schedule:
        raise RuntimeError("it divides by zero devices")


def test_a_policy_that_fails_keeps_the_last_schedule_and_can_be_replaced(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live)
        live.context.scheduler.policy = Broken(live.context.scheduler.policy)
        job = await waits(live)
        other = await waits(live)
        assert short(await live.why(job)) == (
            "policy",
            "the policy backfill fails, so no job is started: it divides by zero devices",
            "treadle policy fifo switches to another policy",
            False,
            1,
        )
        assert live.policy().error == "it divides by zero devices"
        assert (await view_of(live, first)).state is State.RUNNING
        while not (
            notes := [e for e in (await live.events_last()).events if e.kind == "Noted"][1:]
        ):
            await asyncio.sleep(0.01)
        assert [note.text for note in notes] == ["policy failed: it divides by zero devices"]
        await live.set_policy(ME, PolicyChange(policy="fifo"))
        await until(live, State.RUNNING, jobs=(first, job, other))
        assert live.policy().error == ""
        assert (await view_of(live, first)).attempts == 1

    told(story, tmp_path)


class Muddled(Wrapper):
    """It fails at everything but decisions."""

    def rank(self, job: object, now: float) -> object:  # type: ignore[override]
        raise ValueError("no rank")

    def never_fits(self, spec: object, cluster: object) -> str | None:
        raise ValueError("no idea")

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        raise ValueError("no words")


def test_a_policy_that_cannot_rank_stops_no_job(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        guarded = live.context.scheduler.policy
        guarded.inner = Muddled(guarded.inner)  # type: ignore[attr-defined]
        done = await waits(live, "true")
        await ended(live, done)
        await runs(live, devices="4")
        job = await waits(live)
        assert (await live.why(job)).because == (
            f"the policy backfill fails, so no job is started: it cannot rank job {job}: no rank"
        )
        await live.set_policy(ME, PolicyChange(policy="fifo"))
        assert (await live.why(job)).cause == "devices"

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("body", "fields", "expected"),
    [
        ("true", {}, ("succeeded", "it ended with exit code 0", "")),
        (
            "echo 'ModuleNotFoundError: No module named numpyy' >&2; exit 1",
            {},
            None,
        ),
        (
            LONG,
            {"time_limit_s": 0.1},
            (
                "timeout",
                "it ran into its time limit of 0.1 s",
                "submit it again with a longer --time-limit",
            ),
        ),
        (
            "kill -KILL $$",
            {"retries": 0},
            ("failed", "it failed with exit code 137 (SIGKILL)", None),
        ),
        (
            "exit 7",
            {},
            ("failed", "it failed with exit code 7", None),
        ),
    ],
)
def test_how_it_ended(
    tmp_path: Path,
    body: str,
    fields: dict[str, object],
    expected: tuple[str, str, str | None] | None,
) -> None:
    async def story(live: LiveService) -> None:
        job = await waits(live, body, **fields)
        await ended(live, job)
        why = await live.why(job)
        assert (why.never, why.position, why.estimate) == (False, None, None)
        if expected is None:
            assert why.because.startswith("it failed with exit code 1: ")
            assert why.change == (
                "mend the cause before it is submitted again; it would fail in the same way"
            )
            assert why.evidence == ("ModuleNotFoundError: No module named numpyy",)
            return
        cause, because, change = expected
        assert why.cause == cause
        assert why.because == because or (change is None and why.because.startswith(because))
        assert change is None or why.change == change
        if body == "exit 7":
            assert why.change == (
                f"treadle logs {job} shows what it printed; submitted with --retries it is tried "
                "again"
            )

    told(story, tmp_path)


def test_it_was_cancelled(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        job = await runs(live)
        await live.cancel(ME, job)
        await ended(live, job)
        assert short(await live.why(job)) == (
            "cancelled",
            "it was cancelled by me",
            "",
            False,
            None,
        )
        assert (await view_of(live, job)).state is State.CANCELLED

    told(story, tmp_path)


def test_b10_why_says_that_a_failure_that_repeats_is_not_retried_as_often_as_asked(
    tmp_path: Path,
) -> None:
    async def story(live: LiveService) -> None:
        body = "echo 'ConnectionResetError: [Errno 104] Connection reset by peer' >&2; exit 1"
        job = await waits(live, body, retries=5)
        await ended(live, job)
        why = await live.why(job)
        assert why.because.endswith(
            "(it was tried 3 times, although --retries 5 allows more: the same failure 3 times "
            "in a row is not retried again)"
        )
        assert why.change == (
            "find the cause before it is submitted again; it failed 3 times and may fail again"
        )

    told(story, tmp_path, patience=Patience(wait_s=0.0))
