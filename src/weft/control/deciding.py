"""The policy in charge: made from its name, with what the controller puts around every policy."""

from weft.control.clock import stopwatch, wall
from weft.control.desk import Decider
from weft.core.cluster import Cluster
from weft.core.ports import InterleavingModel, Policy
from weft.core.snapshot import KEEP, Schedule, Snapshot
from weft.models.scaling import ScalingModel
from weft.models.stages import StageTimes
from weft.models.tokens import TokenModel
from weft.policies.placement import placement
from weft.policies.registry import policy, worn
from weft.policies.wrappers.wrapper import Wrapper

DEFAULT = "afs"
PLACEMENT = "consolidate"
# Around every policy, the innermost first: not again where it failed, priorities, no thrashing.
AROUND = ("elsewhere", "priority", "steady")


def dressed(text: str) -> str:
    """The policy's name with what it wears when it is live; what its user put on stays."""
    return "+".join([text, *(name for name in AROUND if name not in worn(text))])


def make(text: str, place: str, belief: InterleavingModel) -> tuple[Policy, Decider]:
    """The policy and what is said of it; raises InvalidInputError for names nobody knows."""
    whole = dressed(text)
    decider = Decider(text, place, whole, wall())
    return Timed(policy(whole, placement(place), belief), decider), decider


def belief_on(cluster: Cluster) -> InterleavingModel:
    """How fast jobs would run: by what their own profiles say (profiles.py)."""
    return TokenModel(ScalingModel.on(cluster), StageTimes())


class Timed(Wrapper):
    """Measures how long decisions take, and forgets the last failure at the next success."""

    def __init__(self, inner: Policy, decider: Decider) -> None:
        super().__init__(inner)
        self._decider = decider

    def decide(self, snapshot: Snapshot) -> Schedule:
        begun_s = stopwatch()
        schedule = self.inner.decide(snapshot)
        spent_s = stopwatch() - begun_s
        decider = self._decider
        decider.last_s, decider.error = spent_s, ""
        decider.longest_s = max(decider.longest_s, spent_s)
        return schedule


class Resting(Wrapper):
    """A policy that starts and changes nothing any more: what runs, runs on."""

    def decide(self, snapshot: Snapshot) -> Schedule:  # noqa: ARG002
        return KEEP
