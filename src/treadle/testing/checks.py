"""What must be true of a scheduler at any moment; raises AssertionError with what is not."""

from collections import Counter

from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler

_HOLDS = {Phase.STARTING, Phase.RUNNING, Phase.CANCELLING}


def check(scheduler: Scheduler) -> None:
    """Nothing is booked twice, nothing is lost, and every view agrees with every other."""
    _check_tenancy(scheduler)
    _check_queue(scheduler)


def _check_tenancy(scheduler: Scheduler) -> None:
    claims = Counter(
        (device, job.allocation.turn)
        for job in scheduler.jobs.values()
        if job.allocation is not None
        for device in job.allocation.devices
    )
    twice = [claim for claim, count in claims.items() if count > 1]
    assert not twice, f"booked twice: {twice}"
    booked = {
        (device, turn) for device, turns in scheduler.tenancy.tenants.items() for turn in turns
    }
    assert booked == set(claims), "the book of tenants disagrees with the jobs' allocations"
    held = {device for device, _ in claims}
    free = list(scheduler.tenancy.free)
    assert len(free) == len(set(free)) == scheduler.tenancy.free.total
    assert not held & set(free), "a held device is listed as free"
    present = {node.name for node in scheduler.cluster.nodes}
    usable = {device for device in held if device.node in present}
    assert len(usable) + len(free) == scheduler.cluster.device_count, "free + held is not all"


def _check_queue(scheduler: Scheduler) -> None:
    queue = [identity for _, _, identity in scheduler.ranking.queue]
    waiting = {job.id for job in scheduler.jobs.values() if job.phase is Phase.WAITING}
    assert len(queue) == len(set(queue)), "a job stands in the queue twice"
    aside = set(scheduler.unfit) | set(scheduler.blocked)
    assert set(queue) | aside >= waiting, "a waiting job is in no queue"
    assert not aside & set(queue), "a job that was set aside stands in the queue"
    assert not set(queue) - waiting, "a job stands in the queue and does not wait"
    for job in scheduler.jobs.values():
        assert not job.phase.ended, f"job {job.id} has ended and is still here"
        if job.allocation is not None:
            assert job.phase in _HOLDS, f"job {job.id} is {job.phase} and holds devices"
        assert 0 <= job.iterations_done <= job.spec.iterations
