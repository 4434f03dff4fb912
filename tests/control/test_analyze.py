"""U16: what `treadle analyze` says of a live run is what the store says."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.control.asking import LONG, memory
from tests.control.living import ME, bash, ended, export, living, until
from treadle.control.api import LiveService
from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobSubmitted,
)
from treadle.core.scheduler import Scheduler
from treadle.engines.memory import NO_SUCH_COMMAND
from treadle.reports.recorder import Recorder
from treadle.sim.experiment import record_step
from treadle.store.rows import JobFilter
from treadle.study.analysis import Analysis, analyse
from treadle.study.record import replayed
from treadle.study.spells import PolicyFrom, in_turn
from treadle.testing.builders import job, scheduler
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import PolicyChange
from treadle.wire.problems import ConflictError

WORDS = {
    State.SUCCEEDED: "finished",
    State.FAILED: "failed",
    State.TIMEOUT: "failed",
    State.CANCELLED: "cancelled",
}


async def a_day(live: LiveService, folder: Path) -> None:
    """Jobs that end in every way, under three policies."""
    short = [(await live.submit(ME, bash("true"))).id for _ in range(6)]
    failing = (await live.submit(ME, bash("exit 3", retries=0))).id
    missing = (await live.submit(ME, JobRequest(command=(NO_SUCH_COMMAND,)))).id
    retried = (await live.submit(ME, bash("exit 75", retries=3))).id
    await ended(live, *short, failing, missing, retried)
    await live.set_policy(ME, PolicyChange(policy="fifo"))
    # Some of these have ended by themselves before they are told to stop.
    bodies = ["sleep 0.05"] * 8 + ["sleep 0.05; exit 4"] * 8
    quick = [(await live.submit(ME, bash(body))).id for body in bodies]
    await until(live, *State, jobs=tuple(quick))
    long = [(await live.submit(ME, bash(LONG))).id for _ in range(6)]
    await until(live, State.RUNNING, jobs=tuple(long[:1]))
    await live.set_policy(ME, PolicyChange(policy="afs"))
    await live.set_policy(ME, PolicyChange(policy="afs"))
    for view in (await live.jobs(limit=100)).jobs:
        with suppress(ConflictError):  # it has ended since it was listed
            await live.cancel(ME, view.id)
    timed = (await live.submit(ME, bash(LONG, time_limit_s=0.2))).id
    await ended(live, *quick, *long, timed)
    await export(live, folder / "live.journal")


class Stored(NamedTuple):
    """What the store has."""

    ends: Counter[str]
    failed: Counter[str]  # attempts of each job


def analysed(folder: Path) -> tuple[Analysis, Stored]:
    async def story() -> Stored:
        async with living(folder, engine=memory(2)) as live:
            await a_day(live, folder)
            rows = live.context.store.jobs(JobFilter(), limit=1000)
            attempts = [each for row in rows for each in live.context.store.attempts(row.id)]
            return Stored(
                Counter(WORDS[State(row.state)] for row in rows),
                Counter(each.job for each in attempts if each.failed),
            )

    stored = asyncio.run(asyncio.wait_for(story(), 180))
    return analyse(replayed(folder / "live.journal")), stored


def test_u16_a_live_run_is_counted_as_the_store_counts_it(tmp_path: Path) -> None:
    analysis, (stored, failed) = analysed(tmp_path)
    assert (analysis.failures.attempts, analysis.failures.jobs) == (failed.total(), len(failed))
    reasons = {one.name: one.attempts for one in analysis.failures.by_reason}
    assert (reasons["not-launched"], reasons["time-limit"]) == (1, 1)
    assert {end.status: end.jobs for end in analysis.ends} == stored
    waiting = analysis.waits[0].causes_s
    assert waiting is not None
    assert waiting["fragmentation"] == 0.0, "one node, and every job asks for one device"
    assert all(seconds >= 0.0 for seconds in waiting.values())
    assert analysis.usage.in_use is not None
    assert analysis.usage.in_use <= 1.0
    assert analysis.usage.progress is None, "how much work jobs did is an estimate here"
    assert [spell.policy for spell in analysis.spells] == ["backfill", "fifo", "afs"]
    assert analysis.how == "replayed from a journal, under 3 policies in turn"
    for word in ("finished", "failed", "cancelled"):
        assert sum(getattr(spell, word) for spell in analysis.spells) == stored[word]
    assert sum(spell.submitted for spell in analysis.spells) == stored.total()
    assert sum(spell.gpu_h for spell in analysis.spells) - analysis.usage.gpu_h < 1e-9


def test_a_machine_that_became_smaller_is_part_of_the_record(tmp_path: Path) -> None:
    """1. A job holds four slots and ends. 2. The next controller has two. 3. The journal still
    replays, from the machine that it began with."""

    async def story(slots: int) -> None:
        async with living(tmp_path, engine=memory(slots)) as live:
            job = (await live.submit(ME, bash("true", devices=str(slots)))).id
            await ended(live, job)
            await export(live, tmp_path / "live.journal")

    asyncio.run(story(4))
    asyncio.run(story(2))
    asyncio.run(story(3))
    stories = replayed(tmp_path / "live.journal").recorder.histories
    assert [story.status for story in stories.values()] == ["finished"] * 3


Step = tuple[float, list[Event], list[Action]]
HERE = Allocation((Device(scheduler(cluster="1x1").cluster.nodes[0].name, 0),))


def replay(steps: list[Step]) -> tuple[Scheduler, Recorder]:
    books, recorder = scheduler(cluster="1x1"), Recorder()
    for now, events, actions in steps:
        books.replay(events, actions, now, wake_at=None)
        record_step(recorder, now, events, actions, books, {})
    return books, recorder


def test_u16_a_job_that_finishes_after_the_order_to_stop_it_is_finished() -> None:
    """1. It is cancelled and ordered to stop. 2. Its end by itself is reported."""
    steps: list[Step] = [
        (0.0, [JobSubmitted(job("a"))], [Start(0, "a", HERE)]),
        (1.0, [JobStarted("a", 0, 0.0, 1.0)], []),
        (2.0, [JobCancelled("a")], [Stop(1, "a")]),
        (3.0, [JobFinished("a", 0)], []),
    ]
    _, recorder = replay(steps)
    assert recorder.histories["a"].status == "finished"
    assert recorder.histories["a"].ended_at == 3.0


def test_a7_an_attempt_that_fails_after_the_order_to_stop_it_has_failed_all_the_same() -> None:
    """1. The job is cancelled and ordered to stop. 2. It fails by itself: the job is cancelled."""
    steps: list[Step] = [
        (0.0, [JobSubmitted(job("a"))], [Start(0, "a", HERE)]),
        (1.0, [JobStarted("a", 0, 0.0, 1.0)], []),
        (2.0, [JobCancelled("a")], [Stop(1, "a")]),
        (3.0, [JobFailed("a", 0, 0.0, "disk-full")], []),
    ]
    _, recorder = replay(steps)
    assert recorder.histories["a"].status == "cancelled"
    assert [(one.job, one.reason, one.retried) for one in recorder.failures] == [
        ("a", "disk-full", False)
    ]


def test_a7_a_failure_that_is_reported_twice_is_one() -> None:
    failed = JobFailed("a", 0, 0.0, "disk-full")
    steps: list[Step] = [
        (0.0, [JobSubmitted(job("a", retries=3))], [Start(0, "a", HERE)]),
        (1.0, [failed], []),
        (2.0, [failed], []),
        (3.0, [], [Start(1, "a", HERE)]),
        (4.0, [failed], []),
        (5.0, [JobFailed("a", 1, 0.0, "disk-full")], []),
    ]
    books, recorder = replay(steps)
    assert recorder.histories["a"].failures == books.jobs["a"].failures == 2
    assert [one.at for one in recorder.failures] == [1.0, 5.0]


def test_u16_a_pause_before_a_retry_is_no_fragmentation() -> None:
    recorder = Recorder()
    recorder.step(0.0, [JobSubmitted(job("a", size=2))], [], free=4, room=4)
    recorder.step(10.0, [], [], free=4, room=1)
    recorder.step(15.0, [], [], free=1, room=1)
    recorder.close(16.0)
    assert recorder.wait_s == {("order", 2): 10.0, ("fragmentation", 2): 5.0, ("devices", 2): 1.0}


def test_u16_causes_never_exceed_the_wait_also_if_held_jobs_do_not_fit() -> None:
    recorder = Recorder()
    recorder.step(0.0, [JobSubmitted(job("a"))], [], free=2, room=2, unfit={1: 3}, held_back={})
    recorder.close(10.0)
    assert recorder.wait_s == {("devices", 1): 10.0}


def test_u16_a_policy_that_replaces_itself_is_one_spell() -> None:
    changes = [PolicyFrom(0.0, "a"), PolicyFrom(1.0, "a"), PolicyFrom(2.0, "b")]
    changes += [PolicyFrom(2.0, "c"), PolicyFrom(3.0, "a")]
    assert in_turn(changes) == [PolicyFrom(0.0, "a"), PolicyFrom(2.0, "c"), PolicyFrom(3.0, "a")]
