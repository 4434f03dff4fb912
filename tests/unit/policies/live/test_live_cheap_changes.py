"""Changes are weighed by what they cost: cheap ones come at once, dear ones only where they pay."""

from dataclasses import replace

import pytest

from tests.properties.live_runs import LiveRun, live
from treadle.control.loop.live_policy import belief_on
from treadle.core.actions import Stop
from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase

SOON_S = 3.0
# These give the elastic job its devices for a while, as their authors have it: finish-time
# fairness, the most speed in all, promises, and the longest wait.
UNWILLING = {"themis", "sia", "rubick", "rubick-r", "aiturbo"}
COSTS = 4  # a stop must be worth so many times what it costs


def costing(spec: JobSpec, restart_s: float) -> JobSpec:
    profile = replace(spec.profile, restart_s=restart_s, resize_s=restart_s, serial=0.05)
    return replace(spec, profile=profile)


def resizing() -> list[str]:
    """The policies that change the sizes of running jobs, and let the short one in for that."""
    cluster = Cluster.grid(1, 2)
    made = {
        name: registry.policy(live(name), placement("consolidate"), belief_on(cluster))
        for name in registry.names()
    }
    return [name for name, policy in made.items() if policy.resizes and name not in UNWILLING]


# -- a change that costs next to nothing ---------------------------------------------------------


def first_minute(name: str) -> tuple[LiveRun, list[tuple[float, int]]]:
    """An elastic job alone on two slots, and a job of 6 s that comes at 10 s; the elastic one's
    sizes from which moment on."""
    elastic = costing(job("elastic", size=2, sizes=(1, 2), length_s=200.0), 0.05)
    short = costing(job("short", length_s=6.0, at=10.0), 0.05)
    run = LiveRun(name, LiveCase(Cluster.grid(1, 2), (elastic, short))).to_the_end()
    given = [(now, action) for now, action in run.orders if action.job == "elastic"]
    sizes = [(now, 0 if isinstance(a, Stop) else a.allocation.size) for now, a in given]
    return run, sizes


@pytest.mark.parametrize("name", resizing())
def test_a_short_job_starts_in_an_elastic_jobs_first_minute(name: str) -> None:
    run, _ = first_minute(name)
    assert run.started_at["short"] <= 10.0 + SOON_S


@pytest.mark.parametrize("name", resizing())
def test_an_elastic_job_grows_back_as_soon_as_the_short_one_has_ended(name: str) -> None:
    run, sizes = first_minute(name)
    ended_at = run.ended_at["short"]
    assert ended_at <= 10.0 + SOON_S + 7.0
    grown_at = [now for now, size in sizes if size == 2 and now >= ended_at]
    assert grown_at
    assert grown_at[0] <= ended_at + SOON_S


# -- a job that is about to end ------------------------------------------------------------------


def newcomer(
    name: str, *, left_s: float, run_s: float, cost_s: float, priority: int = 0
) -> LiveRun:
    """One slot; a job that has so long left when another comes."""
    length_s = 1000.0
    old = costing(job("old", length_s=length_s), cost_s)
    new = replace(
        costing(job("new", length_s=run_s, at=length_s - left_s), cost_s), priority=priority
    )
    return LiveRun(name, LiveCase(Cluster.grid(1, 1), (old, new))).to_the_end()


def stops(run: LiveRun, identity: str) -> int:
    return sum(isinstance(action, Stop) and action.job == identity for _, action in run.orders)


@pytest.mark.parametrize("name", registry.names())
def test_a_job_that_ends_before_a_stop_could_pay_is_not_stopped(name: str) -> None:
    for run_s in (2.0, 60.0):
        for cost_s in (5.0, 30.0):
            left_s = run_s + COSTS * cost_s - 1.0
            assert not stops(newcomer(name, left_s=left_s, run_s=run_s, cost_s=cost_s), "old")


@pytest.mark.parametrize("name", registry.names())
def test_an_urgent_job_stops_it_all_the_same(name: str) -> None:
    run = newcomer(name, left_s=110.0, run_s=60.0, cost_s=30.0, priority=1)
    assert run.started_at["new"] <= 890.0 + SOON_S
