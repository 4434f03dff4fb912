"""Speed by size, by where the devices are and by who shares them.

Speed-up over one device is n / (1 + serial·(n−1)). Placement and sharing multiply the speed by a
factor; the default factors are 1, so that a trace's durations hold wherever a job lands. The
factors of `PHILLY` come from the Philly study (Jeon et al., ATC'19, tables 4 and 5): ResNet-50 on
two devices in two servers reached 98.0 of 114.8 images a second, 75.6 with a neighbour on the same
server; a 16-device job lost a third of its speed on eight servers instead of two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.core.allocation import Allocation
from weft.core.cluster import Cluster
from weft.core.job import JobSpec


@dataclass(frozen=True, slots=True)
class Effects:
    """What a placement does to speed, as factors of the speed on the tightest placement."""

    across_nodes: float = 1.0
    across_racks: float = 1.0  # on top of across_nodes
    shared: float = 1.0  # for each other job on the same devices

    def __post_init__(self) -> None:
        for name in ("across_nodes", "across_racks", "shared"):
            assert 0 < getattr(self, name) <= 1, f"{name} must be a factor above 0 and up to 1"


NO_EFFECTS = Effects()
PHILLY = Effects(across_nodes=0.85, across_racks=0.76, shared=0.77)


def speedup(size: int, serial: float) -> float:
    """Speed on so many devices over speed on one."""
    return size / (1.0 + serial * (size - 1))


@dataclass(frozen=True)
class ScalingModel:
    """The performance model of jobs that have a profile of one size and a serial share."""

    effects: Effects = NO_EFFECTS
    racks: Mapping[str, str] = field(default_factory=dict)  # node -> rack
    largest_node: int = 0  # devices of the largest node; a job that needs more must cross nodes

    @classmethod
    def on(cls, cluster: Cluster, effects: Effects = NO_EFFECTS) -> "ScalingModel":
        return cls(effects, cluster.rack_of(), cluster.largest_node)

    def alone(self, spec: JobSpec, size: int) -> float:
        profile = spec.profile
        if size == profile.size:
            return 1.0 / profile.iteration_s
        ratio = speedup(size, profile.serial) / speedup(profile.size, profile.serial)
        return ratio / profile.iteration_s

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        speed = self.alone(spec, len(allocation.devices))
        effects = self.effects
        if ring:
            speed *= effects.shared ** len(ring)
        if effects.across_nodes < 1.0 or effects.across_racks < 1.0:
            speed *= self._spread(allocation)
        return speed

    def _spread(self, allocation: Allocation) -> float:
        """The price of lying on more nodes, or racks, than the size needs."""
        nodes = allocation.nodes()
        needed = -(-allocation.size // self.largest_node) if self.largest_node else 1
        factor = self.effects.across_nodes if len(nodes) > needed else 1.0
        if len({self.racks.get(node, "") for node in nodes}) > 1:
            factor *= self.effects.across_racks
        return factor
