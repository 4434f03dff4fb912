"""Every wrapper on policies of every sort keeps the contract, and so do several together."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.cluster import Cluster
from weft.core.job import JobSpec
from weft.core.ports import InterleavingModel, Policy
from weft.policies import registry
from weft.policies.placement import PLACEMENTS, Placement
from weft.testing import policy_contract
from weft.testing.policy_contract import PolicyContract
from weft.testing.strategies import clusters, workloads

INNER = ("fifo", "srtf", "afs", "muri-l")
WORN = (
    "locality?share=0.5",
    "overtaking",
    "dedicated?from=3",
    "defrag?cooldown_s=5",
    "try-small?seconds=3",
)
TOGETHER = (
    "backfill+locality?share=0.3+overtaking+defrag",
    "antman+dedicated?from=2+try-small?seconds=2",
    "antman+try-small?seconds=2+defrag?budget=9",
    "afs+locality?share=0.1+defrag",
    "muri-s+defrag?budget=99+dedicated?from=2+try-small?seconds=4&devices=1",
    "tiresias?limits=4:9+try-small?seconds=2+dedicated?from=4+overtaking?limit=2",
    "srtf?repack=on+try-small?seconds=5&devices=3+dedicated?from=2",
    "afs+try-small?seconds=3+locality?share=0+dedicated?from=1",
    "muri-s+locality?share=0+try-small?seconds=5&devices=1+defrag?cooldown_s=0+dedicated?from=1",
    "philly?retry_s=3&tick_s=1+overtaking+defrag+try-small?seconds=2",
)
VARIANTS = [*(f"{inner}+{worn}" for inner in INNER for worn in WORN), *TOGETHER]


@pytest.fixture(params=VARIANTS, autouse=True)
def _variant(request: pytest.FixtureRequest) -> None:
    request.instance.variant = request.param


class TestEveryWrapper(PolicyContract):
    variant = "fifo+locality"

    def make(self, placement: Placement, belief: InterleavingModel) -> Policy:
        return registry.policy(self.variant, placement, belief)

    @policy_contract._quick
    @given(cluster=clusters(), jobs=workloads(), place=st.sampled_from(sorted(PLACEMENTS)))
    def test_jobs_that_may_be_tried_finish_too(
        self, cluster: Cluster, jobs: list[JobSpec], place: str
    ) -> None:
        if "try-small" not in self.variant:
            return
        jobs = [replace(spec, trial=True) for spec in jobs]
        run = policy_contract._Run(self, cluster, jobs, place)
        assert run.finished | set(run.scheduler.unfit) == {spec.id for spec in jobs}
