"""Quotas of the live decision bind every policy."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.policies import registry
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload

GRID = Cluster.grid(1, 4)
EVERY = pytest.mark.parametrize("policy", registry.BUILT_IN)


def holdings(
    policy: str, jobs: Sequence[JobSpec], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[float, Mapping[str, int]]]:
    """The devices of each tenant after each decision."""
    found: list[tuple[float, Mapping[str, int]]] = []
    step = Scheduler.step

    def watched(self: Scheduler, facts: Sequence[Event], now: float) -> list[Action]:
        actions = step(self, facts, now)
        devices = {
            (row.spec.tenant, device)
            for row in self.jobs.values()
            for device in (() if row.allocation is None else row.allocation.devices)
        }
        found.append((now, Counter(tenant for tenant, _ in devices)))
        return actions

    monkeypatch.setattr(Scheduler, "step", watched)
    settings = Settings(policy=f"{policy}?quotas=vision:2/nlp:2", live=True, restart_cost="5")
    prepare(Workload.of("made", jobs), GRID, settings).finish()
    return found


@EVERY
@pytest.mark.parametrize("resumable", [True, False])
def test_each_tenant_has_its_share_whatever_came_before(
    policy: str, resumable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(f"v{n}", tenant="vision", length_s=1000.0) for n in range(6)]
    jobs += [job(f"n{n}", tenant="nlp", length_s=500.0, at=5.0) for n in range(4)]
    jobs = [replace(each, resumable=resumable) for each in jobs]
    found = holdings(policy, jobs, monkeypatch)
    first = [held for at, held in found if at <= 15.0][-1]
    later = [held for at, held in found if 15.0 < at < 500.0]
    assert [held for held in (first, *later) if held["vision"] < 2 or held["nlp"] < 2] == []


@EVERY
def test_what_nobody_else_wants_is_lent(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [job(f"v{n}", tenant="vision", length_s=100.0) for n in range(4)]
    jobs.append(job("n", tenant="nlp", length_s=10.0, at=50.0))
    found = holdings(policy, jobs, monkeypatch)
    assert found[0][1]["vision"] == 4
