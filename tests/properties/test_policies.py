"""Every policy in the table keeps the contract."""

import pytest

from treadle.core.ports import InterleavingModel, Policy
from treadle.policies import registry
from treadle.policies.base.placement import Placement
from treadle.testing.policy_contract import PolicyContract

VARIANTS = [
    *registry.BUILT_IN,
    "sjf?strict=off",
    "las?quantum_s=5",
    "tiresias?limits=4:9&promote=2",
    "max-min?quantum_s=7",
    "themis?lease_s=5",
    "themis?lease_s=0",
    "afs-p?quantum_s=5",
    "tiresias?limits=4:9&promote=2&by_arrival=on",
    "aiturbo?every_s=7&limits=4:9&patience_s=5&restart_s=0",
    "aiturbo?fidelity=raw&every_s=7",
    "muri-s?group=2&autopack=off",
    "muri-l?matching=none&autopack=off&group=3",
]


@pytest.fixture(params=VARIANTS, autouse=True)
def _variant(request: pytest.FixtureRequest) -> None:
    request.instance.variant = request.param


class TestEveryPolicy(PolicyContract):
    variant = "fifo"

    def make(self, placement: Placement, belief: InterleavingModel) -> Policy:
        return registry.policy(self.variant, placement, belief)
