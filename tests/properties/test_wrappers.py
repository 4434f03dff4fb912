"""Every wrapper on policies of every sort keeps the contract, and so do several together."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.actions import Stop
from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.core.ports import InterleavingModel, Policy
from treadle.policies import registry
from treadle.policies.base.placement import PLACEMENTS, Placement
from treadle.testing import policy_contract
from treadle.testing.policy_contract import PolicyContract
from treadle.testing.strategies import clusters, workloads

INNER = ("fifo", "afs", "muri-l", "rubick")
WORN = (
    "locality?share=0.5",
    "overtaking",
    "dedicated?from=3",
    "defrag?cooldown_s=5",
    "try-small?seconds=3",
    "live",
)
TOGETHER = (
    "backfill+locality?share=0.3+overtaking+defrag",
    "antman+dedicated?from=2+try-small?seconds=2",
    "antman+try-small?seconds=2+defrag?budget=9",
    "afs+locality?share=0.1+defrag",
    "muri-l+locality?share=0.2+dedicated?from=3",
    "rubick+defrag?cooldown_s=0+overtaking",
    "rubick+try-small?seconds=2+locality?share=0.3+dedicated?from=4",
    "muri-s+defrag?budget=99+dedicated?from=2+try-small?seconds=4&devices=1",
    "tiresias?limits=4:9+try-small?seconds=2+dedicated?from=4+overtaking?limit=2",
    "srtf?repack=on+try-small?seconds=5&devices=3+dedicated?from=2",
    "afs+try-small?seconds=3+locality?share=0+dedicated?from=1",
    "muri-s+locality?share=0+try-small?seconds=5&devices=1+defrag?cooldown_s=0+dedicated?from=1",
    "philly?retry_s=3&tick_s=1+overtaking+defrag+try-small?seconds=2",
    "srtf+live",
    "las+live",
    "antman+live",
    "tiresias?limits=4:9+live",
    "aiturbo+live",
    "sia+live",
    "weave-l+live",
    "philly?retry_s=3&tick_s=1+live",
    "afs+overtaking+defrag?budget=99+live",
    "backfill+locality?share=0.3+live",
    "rubick+try-small?seconds=2+live",
)
VARIANTS = [*(f"{inner}+{worn}" for inner in INNER for worn in WORN), *TOGETHER]


class Variant(PolicyContract):
    """A policy with what it wears, by its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def make(self, placement: Placement, belief: InterleavingModel) -> Policy:
        return registry.policy(self._text, placement, belief)


@pytest.mark.parametrize("text", VARIANTS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(
    cluster=clusters(),
    jobs=workloads(),
    place=st.sampled_from(sorted(PLACEMENTS)),
    trial=st.booleans(),
    ranks=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=12, max_size=12),
)
def test_what_a_policy_wears_leaves_the_contract_whole(
    text: str,
    cluster: Cluster,
    jobs: list[JobSpec],
    place: str,
    trial: bool,
    ranks: list[tuple[int, bool]],
) -> None:
    """Nothing is booked twice, nobody is lost or starves, sizes are those on offer, the snapshot
    is left alone, and the same facts give the same orders."""
    offers = {
        spec.id: replace(spec, trial=trial, priority=priority, resumable=resumable)
        for spec, (priority, resumable) in zip(jobs, ranks, strict=False)
    }
    run = policy_contract._Run(Variant(text), cluster, list(offers.values()), place, watch=True)
    assert run.finished | set(run.scheduler.unfit) == set(offers)
    for _, action in run.log:
        if not isinstance(action, Stop):
            assert offers[action.job].runs_on(len(action.allocation.devices))
    again = policy_contract._Run(Variant(text), cluster, list(offers.values()), place, watch=True)
    assert again.log == run.log
