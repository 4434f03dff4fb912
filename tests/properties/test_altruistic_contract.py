"""Altruistic scheduling keeps the contract of every policy."""

from weft.core.ports import PerformanceModel, Policy
from weft.policies.altruistic import altruistic
from weft.policies.placement import Placement
from weft.testing.policy_contract import PolicyContract


class TestAltruistic(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return altruistic(placement, belief)
