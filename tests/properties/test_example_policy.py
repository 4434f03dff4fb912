"""The policy of docs/add-a-policy.md keeps the contract, as that page says it will."""

from examples.largest_first import largest_first

from weft.core.ports import PerformanceModel, Policy
from weft.policies.placement import Placement
from weft.testing.policy_contract import PolicyContract


class TestLargestFirst(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return largest_first(placement, belief)
