"""Invariants of a scheduler; raises AssertionError that names the one that is broken."""

from collections import Counter

from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler

_HOLDS = {Phase.STARTING, Phase.RUNNING, Phase.PAUSED, Phase.CANCELLING}
_WAITS = {Phase.WAITING, Phase.PAUSED}


def check(scheduler: Scheduler) -> None:
    """No device is booked twice, none is lost, and all indexes agree."""
    _check_tenancy(scheduler)
    _check_queue(scheduler)


def _check_tenancy(scheduler: Scheduler) -> None:
    claims = Counter(
        (device, job.allocation.turn)
        for job in scheduler.jobs.values()
        if job.allocation is not None and not job.allocation.paused
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
    waiting = {job.id for job in scheduler.jobs.values() if job.phase in _WAITS}
    assert len(queue) == len(set(queue)), "a job is in the queue twice"
    aside = set(scheduler.unfit) | set(scheduler.blocked)
    assert set(queue) | aside >= waiting, "a waiting job is in no queue"
    assert not aside & set(queue), "a job that was set aside is in the queue"
    assert not set(queue) - waiting, "a job is in the queue and does not wait"
    for job in scheduler.jobs.values():
        assert not job.phase.ended, f"job {job.id} has ended and is still here"
        if job.allocation is not None:
            assert job.phase in _HOLDS, f"job {job.id} is {job.phase} and holds devices"
        paused = job.allocation is not None and job.allocation.paused is not None
        assert paused == (job.id in scheduler.paused), f"job {job.id} is paused, or is it?"
        assert paused or job.phase is not Phase.PAUSED, f"job {job.id} is paused with devices"
        assert 0 <= job.iterations_done <= job.spec.iterations
