"""Speed by size, placement and sharing.

Speed by size comes from a measured curve where a job has one, interpolated in the iteration time
between measured sizes and flat beyond the last; else speed-up over one device is
n / (1 + serial·(n−1)). Placement and sharing multiply the speed by a
factor; the default factors are 1, so that a trace's durations hold wherever a job lands. The
factors of `PHILLY` come from the Philly study (Jeon et al., ATC'19, tables 4 and 5): ResNet-50 on
two devices in two servers reached 98.0 of 114.8 images a second, 75.6 with a neighbour on the same
server; a 16-device job lost a third of its speed on eight servers instead of two.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Node
from treadle.core.device_types import is_of
from treadle.core.job import JobSpec, Profile


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of placement and sharing, as factors of the speed on the tightest placement."""

    across_nodes: float = 1.0
    across_racks: float = 1.0  # on top of across_nodes
    shared: float = 1.0  # for each other job on the same devices

    def __post_init__(self) -> None:
        for name in ("across_nodes", "across_racks", "shared"):
            assert 0 < getattr(self, name) <= 1, f"{name} must be a factor above 0 and up to 1"


NO_EFFECTS = Effects()
PHILLY = Effects(across_nodes=0.85, across_racks=0.76, shared=0.77)


def _best(by_type: Sequence[tuple[str, float]], words: Sequence[str]) -> float:
    """The factor of the fastest type that a job may use, if it may not use the first."""
    (home, _), *others = by_type
    if not words or any(is_of(home, word) for word in words):
        return 1.0
    return max(
        (factor for each, factor in others if any(is_of(each, word) for word in words)),
        default=1.0,
    )


def speedup(size: int, serial: float) -> float:
    """Speed on `size` devices over speed on one."""
    return size / (1.0 + serial * (size - 1))


def relative_speed(profile: Profile, size: int) -> float:
    """Speed on `size` devices, in a unit that is only comparable within this profile."""
    if profile.curve:
        return 1.0 / interpolate(profile.curve, size)
    return speedup(size, profile.serial)


def interpolate(curve: Sequence[tuple[int, float]], size: int) -> float:
    """Iteration time at a size: on the straight line between its measured neighbours."""
    above = bisect_left(curve, (size,))
    if above == len(curve):
        return curve[-1][1]
    upper_size, upper_s = curve[above]
    if above == 0 or upper_size == size:
        return upper_s
    lower_size, lower_s = curve[above - 1]
    share = (size - lower_size) / (upper_size - lower_size)
    return lower_s + share * (upper_s - lower_s)


@dataclass(frozen=True)
class ScalingModel:
    """The performance model of jobs that have a profile of one size and a serial share."""

    effects: Effects = NO_EFFECTS
    racks: dict[str, str] = field(default_factory=dict)  # node -> rack
    largest_node: int = 0  # devices of the largest node; a job that needs more must cross nodes
    types: dict[str, str] = field(default_factory=dict)  # node -> type of its devices
    largest: dict[str, int] = field(default_factory=dict)  # the same of each type
    # A cache of `alone`, by the profile's identity and size; the profile is kept so that its
    # identity stays its own.
    _speeds: dict[tuple[int, int], tuple[Profile, float]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def on(cls, cluster: Cluster, effects: Effects = NO_EFFECTS) -> "ScalingModel":
        model = cls(effects, largest_node=cluster.largest_node)
        for node in cluster.nodes:
            model.joined(node)
        return model

    def joined(self, node: Node) -> None:
        """A node has come, or returned in another rack."""
        self.racks[node.name] = node.rack
        self.types[node.name] = kind = node.device_type
        self.largest[kind] = max(node.device_count, self.largest.get(kind, 0))

    def alone(self, spec: JobSpec, size: int) -> float:
        speed = self._at_home(spec, size)
        if not spec.profile.by_type:
            return speed
        return speed * _best(spec.profile.by_type, spec.device_types)

    def _at_home(self, spec: JobSpec, size: int) -> float:
        """On the type of device of which its times are."""
        profile = spec.profile
        if size == profile.size:
            return 1.0 / profile.iteration_s
        key = (id(profile), size)
        known = self._speeds.get(key)
        if known is None:
            ratio = relative_speed(profile, size) / relative_speed(profile, profile.size)
            known = self._speeds[key] = (profile, ratio / profile.iteration_s)
        return known[1]

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        speed = self._at_home(spec, len(allocation.devices))
        if spec.profile.by_type:
            speed *= self._on_type(allocation, dict(spec.profile.by_type))
        effects = self.effects
        if ring:
            speed *= effects.shared ** len(ring)
        known = spec.profile.across_nodes or spec.profile.across_racks
        if known or effects.across_nodes < 1.0 or effects.across_racks < 1.0:
            speed *= self._spread(allocation, spec.profile)
        return speed

    def kind(self, spec: JobSpec) -> Profile:
        return spec.profile

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        share = self._shared(specs)
        return tuple(self.alone(spec, spec.asked) * share for spec in specs)

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        return len(specs) * self._shared(specs)

    def _shared(self, specs: Sequence[JobSpec]) -> float:
        return self.effects.shared ** (len(specs) - 1)

    def _on_type(self, allocation: Allocation, known: Mapping[str, float]) -> float:
        """The factor of the type of its devices; 1 where it was not measured."""
        types = {self.types.get(node, "") for node in allocation.nodes()}
        return known.get(" + ".join(sorted(types)), min(known.get(each, 1.0) for each in types))

    def _spread(self, allocation: Allocation, profile: Profile) -> float:
        """The factor for using more nodes or racks than the size needs; measured ones first."""
        nodes = allocation.nodes()
        types = {self.types[node] for node in nodes if node in self.types}
        largest = max((self.largest[kind] for kind in types), default=self.largest_node)
        needed = -(-allocation.size // largest) if largest else 1
        across = profile.across_nodes or self.effects.across_nodes
        factor = across if len(nodes) > needed else 1.0
        if len({self.racks.get(node, "") for node in nodes}) > 1:
            return profile.across_racks or factor * self.effects.across_racks
        return factor
