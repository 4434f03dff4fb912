"""Muri keeps the contract of every policy: nothing lost, nothing booked twice, turns and all."""

from weft.core.ports import PerformanceModel, Policy
from weft.models.staggered import StaggeredModel
from weft.policies.muri import muri_l, muri_s
from weft.policies.placement import Placement
from weft.testing.policy_contract import PolicyContract


class TestMuriS(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return muri_s(placement, StaggeredModel())


class TestMuriL(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return muri_l(placement, StaggeredModel(), matching=False, autopack=False, group=3)
