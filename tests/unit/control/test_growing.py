"""The end of an elastic job: at the size that it has now, and sooner if it may grow."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play_on, playing, span
from treadle.core.allocation import Allocation
from treadle.core.attempt import LastProgress
from treadle.core.cluster import Device, Node
from treadle.core.events import JobProgressed, JobUpdated
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.engines.memory_world import MemoryWorld
from treadle.testing.builders import policy
from treadle.wire.jobs import State


class Sized(Policy):
    """Every job gets one size."""

    def __init__(self, size: int, *, resizes: bool = True) -> None:
        self._size = size
        self.resizes = resizes

    def decide(self, snapshot: Snapshot) -> Schedule:
        devices = tuple(Device("here", number) for number in range(self._size))
        jobs = [*snapshot.waiting(), *snapshot.holding()]
        return Schedule({job.id: Allocation(devices) for job in jobs if job.size != self._size})


async def grown(here: Bench, job: str) -> None:
    """It runs on two devices from now on."""
    here.live.context.scheduler.set_policy(Sized(2), here.live.context.clock.now())
    here.live.context.inbox.wake()
    while len((await here.live.job(job)).job.devices) < 2 or here.state(job) != State.RUNNING:
        await asyncio.sleep(0.001)
    await here.settle()


@pytest.mark.parametrize("command", ["announce size ; forever", "forever"])
@playing(devices=2)
async def test_u14_a_job_that_has_grown_is_expected_to_go_faster(here: Bench, command: str) -> None:
    """1. It runs on one device, and 1,000 s are left by its own steps. 2. It grows to two, by
    itself or by a restart, and has said nothing since."""
    scheduler, clock = here.live.context.scheduler, here.live.context.clock
    scheduler.set_policy(Sized(1), clock.now())
    job = await here.runs(*command.split(), devices="1..2", resumable=True)
    said = LastProgress(0.0, 1000.0, 1.0, share_per_s=0.001, measured_s=10.0)
    here.live.context.learner.hear(job, said)
    spec = replace(scheduler.jobs[job].spec, iterations=550.0)  # on two devices
    here.live.context.inbox.tell(JobUpdated(spec))
    action = scheduler.jobs[job].action
    here.live.context.inbox.tell(JobProgressed(job, action, 0.0, 0.55, said))
    await here.settle()
    before = await here.end(job)
    assert before.because == "from its steps, sooner if it grows"
    low_s, high_s = span(before)
    assert low_s < 600.0
    assert high_s > 1000.0
    await grown(here, job)
    after = await here.end(job)
    assert after.because == "from its earlier steps"
    assert 400.0 < span(after)[1] < 900.0, "about 550 s"


@playing(devices=2)
async def test_u14_steps_that_the_scheduler_has_not_heard_of_do_not_count(here: Bench) -> None:
    """The scheduler hears of a speed every few seconds. A job that is resized before has a work of
    3,600 s there, which says nothing about its steps."""
    scheduler, clock = here.live.context.scheduler, here.live.context.clock
    scheduler.set_policy(Sized(1), clock.now())
    job = await here.runs("forever", devices="1..2", resumable=True)
    said = LastProgress(0.0, 1000.0, 10.0, share_per_s=0.01, measured_s=4.0)
    here.live.context.learner.hear(job, said)
    await grown(here, job)
    end = await here.end(job)
    assert not end.known


@pytest.mark.parametrize("resizes", [True, False])
@playing(devices=2)
async def test_only_a_policy_that_resizes_may_let_a_job_grow(here: Bench, resizes: bool) -> None:
    """It has one of two devices and 1,000 s left; it would take about 550 s on both."""
    scheduler, clock = here.live.context.scheduler, here.live.context.clock
    scheduler.set_policy(Sized(1, resizes=resizes), clock.now())
    job = await here.runs(devices="1..2", resumable=True)
    said = LastProgress(0.0, 1000.0, 1.0, share_per_s=0.001, measured_s=10.0)
    here.live.context.learner.hear(job, said)
    await here.settle()
    end = await here.end(job)
    assert end.because.endswith("sooner if it grows") is resizes
    assert (span(end)[0] < 600.0) is resizes


async def measured(here: Bench, said: LastProgress) -> str:
    """A running job of 1,000 s of work whose speed the scheduler has heard of."""
    job = await here.runs()
    row = here.live.context.scheduler.jobs[job]
    for fact in (
        JobUpdated(replace(row.spec, iterations=1000.0)),
        JobProgressed(job, row.action, said.share * 1000.0, 1.0, said),
    ):
        here.live.context.inbox.tell(fact)
    here.live.context.learner.hear(job, said)
    await here.settle()
    return job


@playing(devices=1)
async def test_u14_a_total_that_was_predicted_from_losses_is_no_evidence_of_the_end(
    here: Bench,
) -> None:
    """Policies go by the predicted end. People are shown nothing that the job did not say."""
    said = LastProgress(80.0, None, 0.1, share=0.8, share_per_s=0.001, measured_s=10.0)
    job = await measured(here, said)
    end = await here.end(job)
    assert not end.known
    assert end.because == "no run of this script has ended here"
    assert here.live.context.scheduler.jobs[job].spec.iterations == 1000.0


def test_u14_the_steps_of_a_job_still_count_after_a_restart_of_the_daemon(tmp_path: Path) -> None:
    """It has said nothing since, and the next controller knows the speed that it had."""
    there = MemoryWorld.of(Node("here", 1, "none"))

    async def before(here: Bench) -> None:
        said = LastProgress(50.0, 100.0, 0.1, share=0.5, share_per_s=0.001, measured_s=10.0)
        job = await measured(here, said)
        assert (await here.end(job)).because == "from its steps"

    async def after(here: Bench) -> None:
        end = await here.end("1")
        assert end.because == "from its earlier steps"
        low_s, high_s = span(end)
        assert low_s < 500.0 < high_s

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


@pytest.mark.parametrize(
    ("name", "resizes"),
    [
        ("fifo", False),
        ("rubick-n", False),
        ("fifo+live", False),
        ("fifo+try-small", True),
        ("rubick", True),
        ("afs+live", True),
    ],
)
def test_policies_say_whether_they_resize(name: str, resizes: bool) -> None:
    assert policy(name).resizes is resizes
