"""`treadle why` where the machine or the policy is the reason, and for jobs that run or have
ended."""

import asyncio
import os
import pwd
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.control.asking import LONG, looked_at, runs, short, told, waits
from tests.control.living import ME, bash, ended, living, local, text_of, until, view_of
from treadle.control.api import LiveService
from treadle.core.job import JobId
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
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
        why = await live.why(job)
        assert short(why) == ("closed", "treadle device here:1 manage (for admins)", False, 1)
        assert (why.numbers["asked"], why.numbers["open"]) == (2, 1)
        assert why.numbers["devices"] == ("here:1",)
        await live.manage(ME, "here:1", "manage")
        await until(live, State.RUNNING, jobs=(job,))

    told(story, tmp_path, slots=2)


def test_too_few_devices_are_left_open_though_jobs_hold_the_others(tmp_path: Path) -> None:
    """1. One of three is avoided, and a job holds the others. 2. These are avoided as well."""

    async def story(live: LiveService) -> None:
        await live.manage(ME, "here:0", "avoid")
        await runs(live, devices="2")
        job = await waits(live, devices="3")
        why = await live.why(job)
        assert short(why)[:2] == ("closed", "treadle device here:0 manage (for admins)")
        assert (why.numbers["asked"], why.numbers["open"]) == (3, 2)
        assert (await live.why(await waits(live, devices="2"))).code == "devices"
        await live.manage(ME, "here:1", "avoid")
        await live.manage(ME, "here:2", "avoid")
        await looked_at(live)
        assert (await live.why(job)).numbers["open"] == 0

    told(story, tmp_path, slots=3)


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
            assert why.code == "closed"
            assert why.numbers["because"] == f"process {pid} of {user} is on device here:0"
            assert why.change == "here:0 opens once the foreign process has left it"
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
        why = await live.why(job)
        assert short(why)[:2] == (
            "closed",
            "treadle device here:0 unquarantine (for admins), once it is clean",
        )
        assert why.numbers["because"] == "device here:0 still has 9.0 GiB in use"
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
        await looked_at(live)
        why = await live.why(job)
        assert (why.code, why.numbers["failures"]) == ("backoff", 1)
        assert 25.0 < why.numbers["in_s"] <= 30.0  # type: ignore[operator]
        assert (await view_of(live, job)).cause == "backoff"

    told(story, tmp_path, patience=Patience(wait_s=30.0))


def test_starting_running_and_stopping(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        body = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        job = await runs(live, body, devices="2", grace_s=0.5)
        why = await live.why(job)
        assert (short(why), why.numbers["size"]) == (("running", "", False, None), 2)
        while "ready" not in await text_of(live, job):
            await asyncio.sleep(0.01)
        await live.cancel(ME, job)
        why = await live.why(job)
        assert (why.code, why.numbers["by"]) == ("leaving", "cancel")
        behind = await waits(live, devices="4")
        assert (await view_of(live, behind)).state is State.STARTING
        found = await live.why(behind)
        assert (found.code, found.numbers["jobs"]) == ("releasing", (job,))
        while (await live.why(job)).numbers.get("in_s") != 0.0:
            if (await view_of(live, job)).state.ended:
                break
            await asyncio.sleep(0.005)
        await until(live, State.RUNNING, jobs=(behind,))

    told(story, tmp_path)


def test_a_job_that_is_preempted_says_for_whom(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        body = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        first = await runs(live, body, devices="4", resumable=True, grace_s=2.9)
        while "ready" not in await text_of(live, first):
            await asyncio.sleep(0.01)
        urgent = await waits(live, priority=3)
        await until(live, State.STOPPING, jobs=(first,))
        why = await live.why(first)
        assert (why.code, why.numbers["by"], why.numbers["for_job"]) == (
            "leaving",
            "policy",
            urgent,
        )
        assert 0.0 < why.numbers["in_s"] <= 2.9  # type: ignore[operator]

    told(story, tmp_path)


def test_draining(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        first = await runs(live, devices="4")
        job = await waits(live)
        await live.shut_down(ME, "drain")
        assert (await live.why(job)).code == "daemon-draining"
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
        why = await live.why(job)
        assert short(why) == ("policy", "treadle policy fifo", False, 1)
        assert why.numbers == {"policy": "backfill", "because": "it divides by zero devices"}
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

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        raise ValueError("no words")


def test_a_policy_that_cannot_rank_stops_no_job(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        guarded = live.context.scheduler.policy
        guarded.inner = Muddled(guarded.inner)  # type: ignore[attr-defined]
        done = await waits(live, "true")
        await ended(live, done)
        await runs(live, devices="4")
        job = await waits(live)
        why = await live.why(job)
        assert why.code == "policy"
        assert why.numbers["because"] == f"it cannot rank job {job}: no rank"
        await live.set_policy(ME, PolicyChange(policy="fifo"))
        assert (await live.why(job)).code == "devices"

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("body", "fields", "expected"),
    [
        ("true", {}, ("succeeded", None, "")),
        (
            "echo 'ModuleNotFoundError: No module named numpyy' >&2; exit 1",
            {},
            None,
        ),
        (
            LONG,
            {"time_limit_s": 0.1},
            ("timeout", None, "submit it again with a longer --time-limit"),
        ),
        (
            "kill -KILL $$",
            {"retries": 0},
            ("failed", 137, None),
        ),
        (
            "exit 7",
            {},
            ("failed", 7, None),
        ),
    ],
)
def test_how_it_ended(
    tmp_path: Path,
    body: str,
    fields: dict[str, object],
    expected: tuple[str, int | None, str | None] | None,
) -> None:
    async def story(live: LiveService) -> None:
        job = await waits(live, body, **fields)
        await ended(live, job)
        why = await live.why(job)
        assert (why.never, why.position, why.estimate) == (False, None, None)
        if expected is None:
            assert (why.code, why.numbers["exit"]) == ("failed", 1)
            assert why.change == "fix the cause, then submit it again"
            assert why.details == (("output", "ModuleNotFoundError: No module named numpyy"),)
            return
        code, exit_code, change = expected
        assert (why.code, why.numbers.get("exit")) == (code, exit_code)
        assert change is None or why.change == change
        assert why.numbers.get("signal", "") == ("SIGKILL" if exit_code == 137 else "")
        if body == "exit 7":
            assert why.change.startswith(f"treadle logs {job} ")

    told(story, tmp_path)


def test_it_was_cancelled(tmp_path: Path) -> None:
    async def story(live: LiveService) -> None:
        job = await runs(live)
        await live.cancel(ME, job)
        await ended(live, job)
        why = await live.why(job)
        assert (short(why), why.numbers["by"]) == (("cancelled", "", False, None), "me")
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
        assert why.numbers["failures"] == 3
        assert (why.numbers["given_up"], why.numbers["most"]) == ("repeats", 3)
        assert why.change == "find the cause first: it failed 3 times"

    told(story, tmp_path, patience=Patience(wait_s=0.0))
