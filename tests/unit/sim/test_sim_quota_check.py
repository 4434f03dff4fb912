"""Quotas whose tenants a workload does not have."""

from dataclasses import replace

import pytest

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload

GRID = Cluster.grid(1, 8)


@pytest.mark.parametrize("policy", ["antman", "rubick"])
def test_s10_quotas_of_tenants_that_no_guaranteed_job_has_are_refused(policy: str) -> None:
    jobs = [job("a"), job("b"), replace(job("c", tenant="A"), guaranteed=False)]
    with pytest.raises(InvalidInputError) as caught:
        prepare(Workload.of("made", jobs), GRID, Settings(policy=f"{policy}?quotas=A:8"))
    assert str(caught.value) == (
        f"{policy} has quotas for 'A', and no guaranteed job of made belongs to such a tenant "
        "(tenants of its 2 guaranteed jobs: none); write :64 for jobs without a tenant, or leave "
        "quotas out"
    )


def test_s10_the_tenants_that_there_are_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"1 guaranteed job: 'x'\); write quotas for those"):
        prepare(
            Workload.of("made", [job("a", tenant="x")]),
            GRID,
            Settings(policy="rubick?quotas=A:4/B:4+defrag"),
        )


@pytest.mark.parametrize("policy", ["rubick?quotas=A:8/B:1", "rubick", "antman?quotas=:4/A:4"])
def test_s10_quotas_that_some_job_has_are_not(policy: str) -> None:
    jobs = [job("a", tenant="A"), job("b")]
    assert prepare(Workload.of("made", jobs), GRID, Settings(policy=policy)).jobs


@pytest.mark.parametrize("policy", ["weave-l", "fifo", "rubick", "afs+defrag"])
def test_live_a_quota_for_a_tenant_without_jobs_is_refused(policy: str) -> None:
    jobs = [job("a", tenant="vision"), replace(job("b", tenant="nlp"), guaranteed=False)]
    name, *others = policy.split("+")
    text = "+".join([f"{name}?quotas=vison:2/nlp:2", *others])
    with pytest.raises(InvalidInputError) as caught:
        prepare(Workload.of("made", jobs), GRID, Settings(policy=text, live=True))
    assert str(caught.value) == (
        "no job of made has tenant 'vison' (its tenants: 'nlp', 'vision'); did you mean vision?"
    )


def test_quotas_of_a_policy_that_has_none_need_the_live_decision() -> None:
    with pytest.raises(InvalidInputError, match="--live"):
        prepare(Workload.of("made", [job("a")]), GRID, Settings(policy="weave?quotas=a:2"))
