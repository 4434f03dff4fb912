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
from treadle.testing.builders import policy
from treadle.wire.jobs import Estimate, State


class Sized(Policy):
    """Every job gets one size."""

    def __init__(self, size: int, *, resizes: bool = True) -> None:
        self._size = size
        self.resizes = resizes

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


@pytest.mark.parametrize("resizes", [True, False])
def test_only_a_policy_that_resizes_may_let_a_job_grow(resizes: bool, tmp_path: Path) -> None:
    """It has one of two devices and 1,000 s left; it would take about 550 s on both."""

    async def story(here: Bench) -> None:
        scheduler, clock = here.live.context.scheduler, here.live.context.clock
        scheduler.set_policy(Sized(1, resizes=resizes), clock.now())
        job = await here.submit("forever", devices="1..2", resumable=True)
        await here.reached(job, State.RUNNING)
        said = LastProgress(0.0, 1000.0, 1.0, share_per_s=0.001, measured_s=10.0)
        here.live.context.learner.hear(job, said)
        await here.settle()
        end = await end_of(here, job)
        assert end.because.endswith("or sooner if it grows") is resizes
        assert end.low_s is not None
        assert (end.low_s < 600.0) is resizes

    play(story, tmp_path, devices=2)


@pytest.mark.parametrize(
    ("name", "resizes"),
    [
        ("fifo", False),
        ("tiresias", False),
        ("philly", False),
        ("muri-l", False),
        ("rubick-n", False),
        ("rubick-e", False),
        ("fifo+priority+steady", False),
        ("fifo+try-small", True),
        ("rubick", True),
        ("rubick-r", True),
        *((name, True) for name in ("max-min", "optimus", "themis", "altruistic", "aiturbo")),
        *((name, True) for name in ("afs", "afs-p", "sia", "afs+priority+steady")),
    ],
)
def test_policies_say_whether_they_resize(name: str, resizes: bool) -> None:
    assert policy(name).resizes is resizes
