"""Starts are moved to free devices only where that gives no job another company."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from treadle.control.loop.live_policy import belief_on
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import Event, JobFinished, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.policies.wrappers import priority
from treadle.policies.wrappers.free_first import free_first
from treadle.policies.wrappers.views import Changes
from treadle.testing.builders import job

STEPS = 30


def companies(snapshot: Snapshot, changes: Changes) -> set[frozenset[JobId]]:
    """The jobs in sight that share a device once these changes are made."""
    held: dict[Device, set[JobId]] = {}
    in_sight = {identity for own in snapshot.tenants.values() for identity in own.values()}
    for identity in in_sight | set(changes):
        allocation = changes.get(identity, snapshot.jobs[identity].allocation)
        for device in () if allocation is None else allocation.devices:
            held.setdefault(device, set()).add(identity)
    return {frozenset(jobs) for jobs in held.values() if len(jobs) > 1}


def checked(snapshot: Snapshot, changes: Changes) -> dict[JobId, Allocation | None]:
    after = free_first(snapshot, changes)
    assert companies(snapshot, after) == companies(snapshot, changes)
    return after


def drawn(random: Random, name: str, *, size_max: int) -> JobSpec:
    size = min(size_max, random.choice((1, 1, 1, 2, 3)))
    spec = job(name, size=size, length_s=random.choice((2000, 9000)))
    rank = random.choice((0, 0, 5))
    profile = replace(
        spec.profile,
        busy=random.choice((0.02, 0.1, 0.3, 0.5)),
        memory_gib=random.choice((5.0, 20.0, 35.0)),
        cores=1.0,
    )
    return replace(spec, priority=rank, resumable=True, profile=profile)


def settled(scheduler: Scheduler, now: float) -> None:
    """Every order has been carried out."""
    while True:
        reports: list[Event] = []
        for row in scheduler.jobs.values():
            if row.phase is Phase.STOPPING:
                reports.append(JobStopped(row.id, row.action, row.iterations_done))
            elif row.phase not in (Phase.WAITING, Phase.RUNNING):
                reports.append(JobStarted(row.id, row.action, row.iterations_done, 1.0))
        if not reports:
            return
        scheduler.step(reports, now)


def play(text: str, seed: int) -> None:
    """Jobs of two priorities come and go on one node; a wrong schedule raises PolicyError."""
    random, now = Random(seed), 0.0
    devices = random.choice((3, 4, 6))
    node = Node("n", devices, "gpu", cores=64, memory_gib=512.0, device_memory_gib=80.0)
    cluster = Cluster((node,))
    scheduler = Scheduler(policy(text, placement("consolidate"), belief_on(cluster)), cluster)
    for step in range(STEPS):
        now += random.expovariate(1 / 150)
        events: list[Event] = [
            JobSubmitted(drawn(random, f"{step}-{each}", size_max=devices))
            for each in range(random.choice((1, 1, 2, 3)))
        ]
        running = [row for row in scheduler.jobs.values() if row.phase is Phase.RUNNING]
        if running and random.random() < 0.5:
            row = random.choice(running)
            events.append(JobFinished(row.id, row.action))
        scheduler.step(events, now)
        settled(scheduler, now)


@pytest.mark.parametrize("around", ["", "+elsewhere+pays+steady+reserve+share+host"])
@pytest.mark.parametrize("inner", ["muri-l", "antman", "afs"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@example(seed=96)
@example(seed=285)
@given(seed=st.integers(0, 10_000))
def test_no_job_is_given_other_company_for_a_free_device(
    inner: str, around: str, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priority, "free_first", checked)
        play(f"{inner}+priority{around}", seed)
