"""Host memory and cores: what fits starts, what does not costs little, changes are checked too."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.properties.live_runs import LiveRun, live
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobStarted, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies import registry
from treadle.policies.base.placement import Placement, placement
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase

TWO_NODES = Cluster(tuple(Node(f"n{i}", 8, memory_gib=100.0) for i in range(2)))


def needing(
    identity: str, memory_gib: float, *, length_s: float = 1000.0, at: float = 0.0
) -> JobSpec:
    return replace(job(identity, length_s=length_s, at=at), host_memory_gib=memory_gib)


@pytest.mark.parametrize("name", registry.names())
def test_a_job_starts_at_once_on_the_node_that_has_its_memory(name: str) -> None:
    jobs = (needing("z", 90.0), needing("y", 50.0, at=10.0))
    run = LiveRun(name, LiveCase(TWO_NODES, jobs)).to_the_end()
    assert run.started_at == {"z": 0.0, "y": 10.0}


def growing() -> LiveCase:
    """A job of 50 GiB that grows when a device comes free on a node that has 10 left."""
    cluster = Cluster(tuple(Node(f"n{i}", 2, memory_gib=100.0) for i in range(2)))
    elastic = replace(job("elastic", sizes=(1, 2), length_s=1e4, at=5.0), host_memory_gib=50.0)
    elastic = replace(elastic, profile=replace(elastic.profile, restart_s=1.0))
    fixed = [
        needing("z", 90.0, length_s=1e5),
        job("brief", length_s=200.0),
        job("long", length_s=1e5),
    ]
    return LiveCase(cluster, (*(replace(spec, resumable=False) for spec in fixed), elastic))


GROWS = {
    *("max-min", "optimus", "themis", "altruistic", "afs", "afs-p", "rubick", "rubick-r", "sia"),
    *("weave", "weave-l"),
}


@pytest.mark.parametrize("name", registry.names())
def test_no_job_grows_onto_a_node_without_its_memory(name: str) -> None:
    def look(run: LiveRun, now: float) -> None:
        assert not list(run.overcommitted()), now

    LiveRun(name, growing(), look=look).to_the_end()


# -- work in proportion to what changes ----------------------------------------------------------


class Counting(Wrapper):
    """A policy that counts how often it is asked."""

    asked = 0

    def decide(self, snapshot: Snapshot) -> Schedule:
        Counting.asked += 1
        return self.inner.decide(snapshot)


def scheduler_of(name: str, cluster: Cluster) -> Scheduler:
    def counted(place: Placement, belief: InterleavingModel) -> Policy:
        return Counting(registry.policy(name, place, belief))

    with registry.offered("counted", counted):
        made = registry.policy(live("counted"), placement("consolidate"), ScalingModel())
    return Scheduler(made, cluster)


def asked_at(scheduler: Scheduler, now: float, *specs: JobSpec) -> int:
    """How often the policy is asked when these jobs arrive; all orders are then carried out."""
    before = Counting.asked
    orders = scheduler.step([JobSubmitted(spec) for spec in specs], now)
    asked = Counting.asked - before
    scheduler.step([JobStarted(order.job, order.id, 0.0, 1.0) for order in orders], now)
    return asked


SOME = ("fifo", "backfill", "srtf", "las", "afs", "weave-l")


def crowd(*, distinct: bool) -> Sequence[JobSpec]:
    """Jobs that ask for more memory than is left."""
    return [needing(f"w{n}", 50.0 + (n % 40 if distinct else 0)) for n in range(800)]


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("name", SOME)
def test_jobs_that_fit_nowhere_cause_no_further_decisions(name: str, distinct: bool) -> None:
    cluster = Cluster(tuple(Node(f"n{i}", 8, memory_gib=100.0) for i in range(4)))
    scheduler = scheduler_of(name, cluster)
    asked_at(scheduler, 0.0, *(needing(f"z{n}", 60.0) for n in range(4)))
    assert asked_at(scheduler, 1.0, *crowd(distinct=distinct)) <= 1
    assert asked_at(scheduler, 2.0, needing("late", 90.0)) <= 1


@pytest.mark.parametrize("name", SOME)
def test_why_asks_no_policy(name: str) -> None:
    scheduler = scheduler_of(name, TWO_NODES)
    asked_at(scheduler, 0.0, *(needing(f"z{n}", 90.0) for n in range(2)), needing("w", 50.0))
    before = Counting.asked
    scheduler.why("w", 1.0)
    assert Counting.asked == before
