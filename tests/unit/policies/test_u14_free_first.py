"""A job of higher priority takes a free device before it takes another job's."""

from dataclasses import replace

import pytest

from treadle.core.cluster import Cluster
from treadle.core.events import JobFinished, JobStarted, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.testing.builders import job, policy


def ranked(name: str, priority: int, size: int = 1, length_s: float = 5000.0) -> JobSpec:
    return replace(job(name, size=size, length_s=length_s), priority=priority, resumable=True)


def begin(scheduler: Scheduler, *specs: JobSpec, now: float) -> None:
    begun = scheduler.step([JobSubmitted(spec) for spec in specs], now)
    scheduler.step([JobStarted(one.job, one.id, 0.0, 1.0) for one in begun], now)


@pytest.mark.parametrize("text", ["afs+priority", "backfill+priority", "srtf+priority"])
def test_u14_no_job_is_stopped_for_a_device_while_another_is_free(text: str) -> None:
    """1. Three jobs run; a gang of priority 1 waits, for which there is never room beside `first`.
    2. b ends, and c arrives with priority 1: b's device is free, and no other job is touched."""
    scheduler = Scheduler(policy(text), Cluster.grid(1, 3))
    begin(scheduler, ranked("first", 2), now=0.0)
    begin(scheduler, ranked("a", 0), ranked("b", 0), now=1.0)
    begin(scheduler, ranked("wide", 1, size=3, length_s=10.0), now=2.0)
    ended = JobFinished("b", scheduler.jobs["b"].action)
    actions = scheduler.step([ended, JobSubmitted(ranked("c", 1, length_s=10.0))], 100.0)
    assert [f"{type(action).__name__} {action.job}" for action in actions] == ["Start c"]
