"""Speeds by plans under policies that know nothing of plans, whatever jobs ask for."""

import pytest

from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.sim.experiment import fit_to, prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

POLICIES = (
    "fifo",
    "srtf",
    "afs",
    "altruistic",
    "muri-s",
    "themis",
    "rubick",
    "sia",
    "synergy",
    "backfill+locality",
    "synergy+dedicated?from=2",
)


def workload(*jobs: JobSpec) -> Workload:
    return Workload("test", jobs, "here")


def finished(policy: str, found: Workload, cluster: Cluster) -> int:
    settings = Settings(policy=policy, speeds="plans")
    return prepare(found, cluster, settings, stopwatch=lambda: 0.0).finish().finished


@pytest.mark.parametrize("policy", POLICIES)
def test_a_size_that_no_plan_runs_on_is_no_trouble(policy):
    odd = [
        JobSpec(name, 600.0, sizes=(3,), profile=Profile(size=3, model="bert"), submit_at=at)
        for name, at in (("a", 0.0), ("b", 1.0))
    ]
    assert finished(policy, workload(*odd), Cluster.grid(2, 4)) == 2


def test_a_job_that_is_cut_loses_a_plan_that_no_longer_fits():
    large = JobSpec(
        "a",
        100.0,
        sizes=(48,),
        profile=Profile(size=48, model="llama30"),
        plans=(Plan(2, 6, 4), DATA_PARALLEL),
    )
    cluster = Cluster.grid(2, 8)
    cut = fit_to(workload(large), cluster, "cut")
    assert cut.jobs[0].plans == (DATA_PARALLEL,)
    assert finished("fifo", cut, cluster) == 1


def test_plans_are_of_gpus():
    mixed = Cluster((Node("n0", 8), Node("n1", 16, device_type="cpu")))
    found = workload(JobSpec("a", 10.0, profile=Profile(model="bert")))
    with pytest.raises(InvalidInputError) as caught:
        finished("fifo", found, mixed)
    assert str(caught.value) == (
        "speeds by plans are those of GPUs and the cluster has CPU slots; leave one of them out"
    )


@pytest.mark.parametrize("policy", ["synergy+dedicated?from=2", "rubick+dedicated?from=2"])
def test_cores_do_not_move_with_a_job_to_another_node(policy):
    nodes = (Node("n0", 4, cores=16), Node("n1", 4, cores=4))
    offload = Plan(data=1, shard="gradients", offload=True)
    jobs = (
        JobSpec("a", 2607.0, profile=Profile(model="llama7"), plans=(offload, DATA_PARALLEL)),
        JobSpec("b", 796.0, sizes=(2,), profile=Profile(size=2, model="gpt2"), submit_at=10.0),
    )
    settings = Settings(policy=policy, speeds="plans")
    run = prepare(workload(*jobs), Cluster(nodes), settings, stopwatch=lambda: 0.0)

    def within(_now: object, _events: object, _actions: object, scheduler: object) -> None:
        for node in nodes:
            used = 0.0
            for row in run.simulation.scheduler.jobs.values():
                if row.allocation is not None and row.allocation.host is not None:
                    here = sum(device.node == node.name for device in row.allocation.devices)
                    used += here * row.allocation.host.cores
            assert used <= node.cores

    run.simulation.observe(within)
    assert run.finish().finished == 2
