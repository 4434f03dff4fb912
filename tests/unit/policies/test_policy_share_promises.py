"""No job joins one that a quota promises its devices alone."""

import pytest

from tests.unit.policies.test_policy_share import gpus, live, seen, told
from treadle.core.cluster import CPU, Cluster, Node
from treadle.core.events import JobFinished
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.policies.wrappers.share import why_alone

QUOTA = "weave-l?quotas=vision:1"
PROMISED = "job v has its devices alone by its tenant's quota"


def fixed(name: str, priority: int = 0) -> JobSpec:
    """A job that shares with no other and is not stopped."""
    return seen(name, exclusive=True, priority=priority)


def loose(name: str, tenant: str = "") -> JobSpec:
    """A job that can resume, and would share."""
    return seen(name, resumable=True, tenant=tenant)


def joins(scheduler: Scheduler, now: float, newcomer: JobSpec) -> bool:
    told(scheduler, now, newcomer)
    return scheduler.jobs[newcomer.id].allocation is not None


@pytest.mark.parametrize("policy", ["weave-l", QUOTA])
@pytest.mark.parametrize("resumable", [True, False])
@pytest.mark.parametrize("priority", [0, 5])
def test_a_job_within_its_quota_is_not_joined(policy: str, resumable: bool, priority: int) -> None:
    """One that just started, or cannot resume, is hidden from weave by a wrapper; so are jobs of
    another priority."""
    scheduler = live(policy, gpus(2))
    told(scheduler, 0.0, fixed("x", priority=priority))
    told(scheduler, 1.0, seen("v", tenant="vision", resumable=resumable))
    assert joins(scheduler, 5.0, loose("w")) == (policy != QUOTA)
    if policy == QUOTA:
        assert why_alone(scheduler.policy, scheduler.snapshot(5.0), "w") == PROMISED
        for now in (30.0, 70.0, 130.0, 300.0):
            assert scheduler.step([], now) == []


def test_a_job_beyond_its_quota_is_joined() -> None:
    scheduler = live(QUOTA, gpus(2))
    told(scheduler, 0.0, loose("v", tenant="vision"))
    told(scheduler, 1.0, loose("v2", tenant="vision"))
    assert joins(scheduler, 5.0, loose("w"))
    held = [scheduler.jobs[name].allocation for name in ("v", "v2", "w")]
    assert [one.devices[0].number for one in held if one is not None] == [0, 1, 1]


def test_a_job_beyond_its_quota_is_joined_no_more_once_it_is_within() -> None:
    scheduler = live(QUOTA, gpus(2))
    told(scheduler, 0.0, seen("v", tenant="vision"))
    told(scheduler, 1.0, seen("v2", tenant="vision"))
    first = scheduler.jobs["v"]
    scheduler.step([JobFinished("v", first.attempt)], 10.0)
    told(scheduler, 11.0, fixed("x"))
    assert not joins(scheduler, 12.0, loose("w"))


def test_of_several_kinds_of_devices_each_keeps_its_promises() -> None:
    slots = Node("c0", 1, device_type=CPU, cores=8)
    scheduler = live(QUOTA, Cluster((*gpus(1).nodes, slots)))
    told(scheduler, 0.0, loose("v", tenant="vision"))
    assert not joins(scheduler, 5.0, loose("w"))
    assert why_alone(scheduler.policy, scheduler.snapshot(5.0), "w") == PROMISED
