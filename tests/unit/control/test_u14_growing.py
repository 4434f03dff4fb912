"""The end of an elastic job: at the size that it has now, and sooner if it may grow."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play
from treadle.core.allocation import Allocation
from treadle.core.attempt import LastProgress
from treadle.core.cluster import Device
from treadle.core.events import JobUpdated
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.wire.jobs import Estimate, State


class Sized(Policy):
    """Every job gets one size."""

    def __init__(self, size: int) -> None:
        self._size = size

    def decide(self, snapshot: Snapshot) -> Schedule:
        devices = tuple(Device("here", number) for number in range(self._size))
        jobs = [*snapshot.waiting(), *snapshot.holding()]
        return Schedule({job.id: Allocation(devices) for job in jobs if job.size != self._size})


async def end_of(here: Bench, job: str) -> Estimate:
    end = (await here.live.why(job)).end
    assert end is not None
    assert end.low_s is not None
    assert end.high_s is not None
    return end


@pytest.mark.parametrize("command", ["announce size ; forever", "forever"])
def test_u14_a_job_that_has_grown_is_expected_to_go_faster(command: str, tmp_path: Path) -> None:
    """1. It runs on one device, and 1,000 s are left by its own steps. 2. It grows to two, by
    itself or by a restart, and has said nothing since."""

    async def story(here: Bench) -> None:
        scheduler, clock = here.live.context.scheduler, here.live.context.clock
        scheduler.set_policy(Sized(1), clock.now())
        job = await here.submit(*command.split(), devices="1..2", resumable=True)
        await here.reached(job, State.RUNNING)
        said = LastProgress(0.0, 1000.0, 1.0, share_per_s=0.001, measured_s=10.0)
        here.live.context.learner.hear(job, said)
        spec = replace(scheduler.jobs[job].spec, iterations=550.0)  # on two devices
        here.live.context.inbox.tell(JobUpdated(spec))
        await here.settle()
        before = await end_of(here, job)
        assert before.because == "steps left at the present speed, or sooner if it grows"
        assert before.low_s is not None
        assert before.high_s is not None
        assert before.low_s < 600.0
        assert before.high_s > 1000.0
        scheduler.set_policy(Sized(2), clock.now())
        here.live.context.inbox.wake()
        while len((await here.live.job(job)).job.devices) < 2 or here.state(job) != State.RUNNING:
            await asyncio.sleep(0.001)
        await here.settle()
        after = await end_of(here, job)
        assert after.because == "steps left at the speed expected on 2 devices"
        assert after.high_s is not None
        assert 400.0 < after.high_s < 900.0, "about 550 s"

    play(story, tmp_path, devices=2)
