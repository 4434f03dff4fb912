"""What AFS loses where speeds must be learned and lengths are wrong, on a part of a real trace."""

from dataclasses import replace

import pytest
from tests.shared import thorough, trace

from treadle.core.cluster import Cluster
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

JOBS = 300
TEN_TIMES = 2.303  # two of three lengths are wrong by up to ten times


@pytest.fixture(scope="module")
def workload() -> Workload:
    whole = load(str(trace("afs_vc_e13805.csv.gz")))
    return replace(whole, jobs=whole.jobs[:JOBS])


@pytest.fixture(scope="module")
def machines() -> Cluster:
    return cluster("16x4")


def mean_s(workload: Workload, machines: Cluster, **settings: object) -> float:
    chosen = replace(Settings(policy="afs", placement="count"), **settings)  # type: ignore[arg-type]
    found = prepare(workload, machines, chosen).finish().jct_mean_s
    assert found is not None
    return found


def test_learning_speeds_costs_afs_two_per_cent_at_most_and_never_learning_ten(
    workload: Workload, machines: Cluster
) -> None:
    known = mean_s(workload, machines)
    learned = mean_s(workload, machines, belief="learned")
    prior = mean_s(workload, machines, belief="prior")
    assert 1.0 < learned / known < 1.02
    assert 1.08 < prior / known < 1.15


@thorough
def test_lengths_that_are_ten_times_wrong_hardly_hurt_afs_and_hurt_optimus(
    workload: Workload, machines: Cluster
) -> None:
    lost = {
        policy: mean_s(workload, machines, policy=policy, length_error=TEN_TIMES)
        / mean_s(workload, machines, policy=policy)
        for policy in ("afs", "optimus")
    }
    assert lost["afs"] < 1.04
    assert lost["optimus"] > 1.4
