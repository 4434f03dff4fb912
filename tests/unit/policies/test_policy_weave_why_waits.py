"""weave says of a waiting job what quotas have to do with it, if they are what it waits for."""

import pytest

from tests.unit.policies.test_policy_share import gpus, live, seen, told
from tests.unit.policies.weave_world import COMPUTES, World
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec

BOTH = pytest.mark.parametrize("name", ["weave", "weave-l"])


def job(name: str, work: float = 1e5, size: int = 1, tenant: str = "") -> JobSubmitted:
    return JobSubmitted(JobSpec(name, work, (size,), profile=COMPUTES, tenant=tenant))


def sentence(world: World, name: str) -> str:
    return world.scheduler.why(name, 2.0).sentence


@BOTH
def test_devices_that_are_promised_to_others_are_named(name: str) -> None:
    """Without quotas the short job would take the device of the long one."""
    world = World(f"{name}?quotas=a:1&group=1&keep=0", 1)
    world.step(0.0, job("v", 1e6, tenant="a"))
    world.step(4000.0, job("w", 10.0))
    assert (world.size("v"), world.size("w")) == (1, 0)
    assert world.scheduler.why("w", 4001.0).sentence.endswith(
        "; quotas promise 1 device to job v alone, without which it would run"
    )


@BOTH
def test_a_job_beyond_its_quota_says_so(name: str) -> None:
    """The other device could be taken from a job without a promise."""
    world = World(f"{name}?quotas=a:1&group=1", 2)
    world.step(0.0, job("v", tenant="a"), job("x"))
    world.step(1.0, job("v2", tenant="a"))
    assert [world.size(one) for one in ("v", "x", "v2")] == [1, 1, 0]
    assert sentence(world, "v2").endswith(
        "; 1 of 1 device of its tenant's quota is promised to other jobs"
    )


@BOTH
def test_a_job_larger_than_its_quota_says_so(name: str) -> None:
    world = World(f"{name}?quotas=a:1&group=1", 2)
    world.step(0.0, job("x"))
    world.step(1.0, job("v", size=2, tenant="a"))
    assert sentence(world, "v").endswith("; its tenant's quota is 1 device, and it asks for 2")


@BOTH
def test_quotas_that_do_not_bind_are_not_named(name: str) -> None:
    """The job would wait without quotas as well: behind one of its kind that came first."""
    world = World(f"{name}?quotas=a:1&group=1", 2)
    world.step(0.0, job("v", tenant="a"), job("x"))
    world.step(1.0, job("w"))
    assert world.size("w") == 0
    assert "quota" not in sentence(world, "w")
    plain = World(f"{name}?group=1", 1)
    plain.step(0.0, job("v", tenant="a"), job("w"))
    assert "quota" not in sentence(plain, "w")


@BOTH
def test_a_job_that_waits_for_its_promise_is_not_beyond_its_quota(name: str) -> None:
    """It could not be given its device: the one that runs there is left alone."""
    scheduler = live(f"{name}?quotas=a:1", gpus(1))
    told(scheduler, 0.0, seen("x", exclusive=True))
    told(scheduler, 1.0, seen("v", tenant="a", exclusive=True))
    assert "quota" not in scheduler.why("v", 2.0).sentence
