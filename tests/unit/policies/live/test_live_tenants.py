"""Quotas bind under every live policy: what is lent can be taken back in time."""

from dataclasses import replace

import pytest

from tests.properties.live_runs import LiveRun
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.policies import registry
from treadle.sim.quota_check import check_quotas
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase
from treadle.traces.workload import Workload

SOON_S = 10.0
QUOTAS = "quotas=a:2/b:2"
WITHOUT = set(registry.names()) - {"antman", "rubick", "weave", "weave-l"}


def long(identity: str, *, sizes: tuple[int, ...], resumable: bool) -> JobSpec:
    spec = job(identity, size=sizes[-1], sizes=sizes, length_s=1000.0, tenant="a")
    return replace(spec, resumable=resumable)


def lent(*, elastic: bool) -> LiveCase:
    """Four slots, two each for two tenants; one has submitted four long jobs when the other's
    first comes."""
    sizes = (1, 2, 3, 4) if elastic else (1,)
    jobs = [long(f"a{n}", sizes=sizes, resumable=elastic) for n in range(4)]
    return LiveCase(Cluster.grid(1, 4), (*jobs, job("b", at=100.0, tenant="b")))


@pytest.mark.parametrize("name", registry.names())
def test_what_cannot_be_taken_back_is_not_lent(name: str) -> None:
    run = LiveRun(f"{name}?{QUOTAS}", lent(elastic=False)).to_the_end()
    assert run.started_at["b"] <= 100.0 + SOON_S


@pytest.mark.parametrize("name", registry.names())
def test_what_was_lent_is_taken_back_in_time(name: str) -> None:
    run = LiveRun(f"{name}?{QUOTAS}", lent(elastic=True)).to_the_end()
    assert run.started_at["b"] <= 100.0 + SOON_S


@pytest.mark.parametrize("name", registry.names())
def test_a_tenant_keeps_its_share(name: str) -> None:
    """Neither has less than its quota while it has jobs for it, and the other has more."""

    def look(run: LiveRun, now: float) -> None:
        if now % SOON_S == 0 and run.is_settled(now):
            held = dict.fromkeys("ab", 0)
            for row in run.scheduler.jobs.values():
                held[row.spec.tenant] += row.size
            assert min(held.values()) >= 2, f"at {now:g} s: {held}"

    jobs = [job(f"{tenant}{n}", length_s=100.0, tenant=tenant) for tenant in "ab" for n in range(6)]
    case = LiveCase(Cluster.grid(1, 4), tuple(jobs))
    LiveRun(f"{name}?{QUOTAS}", case, look=look).to_the_end(until=290.0)


@pytest.mark.parametrize("name", registry.names())
def test_a_quota_of_a_tenant_that_nothing_knows_is_refused(name: str) -> None:
    jobs = [job("v", tenant="vision"), job("n", tenant="nlp")]
    with pytest.raises(InvalidInputError):
        check_quotas(f"{name}?quotas=vison:2/nlp:2", Workload.of("trace", jobs), live=True)
