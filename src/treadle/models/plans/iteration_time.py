"""How long one iteration takes under an execution plan: Rubick's performance model.

A model of a given architecture is described by facts (how many parameters, which batch), by the
links of the machines it runs on, and by seven factors that are fitted to a few short runs (Zhang et
al., "Rubick", MLSys'25). One iteration is the sum of parts whose length depends on the plan:

    forward, and the same again where activations are recomputed
    backward, the last of which overlaps with the exchange of gradients
    the exchanges inside a tensor group and between pipeline stages
    gradients out to the host and parameters back in, where the optimizer runs on the host
    the optimizer, and what never changes

Three things are added to the paper's formulas. A pipeline of p stages fed with m micro-batches is
busy for m + p − 1 slots, of which p − 1 are the bubble: with m = 1, as the authors ran it, a
pipeline saves memory and no time. And a node reaches the others through its network cards: a device
that is alone on its node has one card, and several rings that cross nodes at once share the
cards. With `devices_per_card` 0 the network is one number, as in the authors' code. The third is
`Factors.sharded_extra`.

Lengths are milliseconds, amounts MiB and bandwidths MiB for each millisecond (about GB/s), the
units of the authors' factors; `Times.iteration_s` is in seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log2

from treadle.core.errors import InvalidInputError
from treadle.core.plan import Plan

Shape = tuple[int, ...]  # devices on each node, largest first

MEBI = float(1 << 20)
GRADIENT_BYTES = ACTIVATION_BYTES = 4
# Beyond this an overlap is the larger of its two parts to five places.
OVERLAP_MAX = 100.0
_ALL_SHARDED = 1.5  # parameters are gathered for backward as well
_DIRECTIONS = 2  # activations go forward and their gradients back
_REDUCTIONS = 4  # of a layer in a tensor group: two in forward, two in backward


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What does not depend on how a model is run."""

    name: str
    parameters: float
    batch: int  # samples of one iteration, over all devices; no plan changes it
    sequence: int
    hidden: int
    layers: int
    heads: int
    forward_ms: float  # forward of the whole batch on one device
    # Of forward_ms, what a micro-batch takes however small it is; 0 where forward is proportional.
    forward_fixed_ms: float = 0.0
    # How much of t devices a tensor group of t gets to use, ascending in t. It counts for plans
    # that split the model, also with t = 1: they run in another framework.
    tensor_efficiency: tuple[tuple[int, float], ...] = ()
    recompute: float = 1.0  # a recomputed forward over the first
    splits: bool = True  # whether tensor and pipeline plans exist for it

    def __post_init__(self) -> None:
        counts = (self.parameters, self.batch, self.sequence, self.hidden, self.layers, self.heads)
        if min(counts) < 1:
            raise InvalidInputError(f"the sizes of {self.name} must be 1 or more, not {counts}")
        if not 0 <= self.forward_fixed_ms < self.forward_ms:
            raise InvalidInputError(
                f"{self.name}'s forward of {self.forward_ms:g} ms must be above 0 and more than "
                f"its fixed part, {self.forward_fixed_ms:g} ms"
            )
        if any(share <= 0 for _, share in self.tensor_efficiency):
            raise InvalidInputError(f"{self.name}'s tensor efficiencies must be above 0")

    @property
    def parameters_mi(self) -> float:
        """Parameters in units of 2^20, so that four bytes for each make MiB."""
        return self.parameters / MEBI

    def efficiency(self, tensor: int) -> float:
        """Tensor efficiency of a degree: on the line between its neighbours, by its logarithm."""
        below = above = None
        for known in self.tensor_efficiency:
            if known[0] <= tensor:
                below = known
            if known[0] >= tensor:
                above = known
                break
        if below is None or above is None:
            nearest = below or above
            return nearest[1] if nearest else 1.0
        if below[0] == above[0]:
            return below[1]
        share = log(tensor / below[0]) / log(above[0] / below[0])
        return below[1] + share * (above[1] - below[1])


@dataclass(frozen=True, slots=True)
class Links:
    """How fast devices exchange data, as a model sees it."""

    inner: float  # between devices of one node
    outer: float  # from one node to another, through one card
    host: float  # between a device and its host
    devices_per_card: int = 0  # 0: the network is one number, not shared
    # Whether a tensor group splits what it hands to the next stage, or every member sends it all.
    chunks: bool = True

    def __post_init__(self) -> None:
        if min(self.inner, self.outer, self.host) <= 0:
            raise InvalidInputError(f"bandwidths must be above 0, not {self}")

    def between(self, shape: Shape, rings: int) -> float:
        """Bandwidth of one of several rings that cross all of these nodes at once."""
        if not self.devices_per_card:
            return self.outer
        # A node with few devices has few cards in use, and a ring is as fast as its slowest node.
        cards = -(-min(shape) // self.devices_per_card)
        return self.outer * cards / rings


@dataclass(frozen=True, slots=True)
class Factors:
    """The fitted factors: the paper's seven, with the paper's names."""

    k_bwd: float  # backward over forward
    k_sync: float  # 1: gradients are exchanged after backward; large: entirely beside it
    k_opt: float  # ms of the optimizer for 2^20 parameters, on a device
    k_opt_off: float  # the same on one core of the host
    k_const: float  # ms of an iteration that no plan changes
    k_off: float  # ms that sending gradients to the host takes whatever their amount
    k_swap: float  # ms of every optimizer step of plans that do not split the model
    # Ours: how much more sharded gradients cost to exchange than plain ones, for each doubling of
    # one more than the nodes. Each shard goes to its owner, and owners are further apart.
    sharded_extra: float = 0.0


@dataclass(frozen=True, slots=True)
class Times:
    """One iteration in the parts that a profiler can separate; milliseconds."""

    forward_ms: float
    exchange_ms: float  # recomputing, backward, every exchange, gradients to the host
    optimizer_ms: float
    fixed_ms: float

    @property
    def iteration_ms(self) -> float:
        return self.forward_ms + self.exchange_ms + self.optimizer_ms + self.fixed_ms

    @property
    def iteration_s(self) -> float:
        return self.iteration_ms / 1000.0


def overlap(first: float, second: float, power: float) -> float:
    """The time of two things that partly overlap: (x^k + y^k)^(1/k).

    With the larger taken out of the bracket nothing overflows, however large the power.
    """
    larger, smaller = (first, second) if first >= second else (second, first)
    if smaller <= 0.0:
        return larger
    power = min(max(power, 1.0), OVERLAP_MAX)
    return float(larger * (1.0 + (smaller / larger) ** power) ** (1.0 / power))


def data_degree(plan: Plan, size: int) -> int:
    """How many copies of the model a plan keeps on `size` devices."""
    if not plan.fits(size):
        raise InvalidInputError(f"{plan.name} does not fit {size} devices")
    return size // (plan.tensor * plan.pipeline)


@dataclass(frozen=True, slots=True)
class ModelType:
    """A model type: all its jobs have the same facts, links and factors."""

    facts: ModelFacts
    links: Links
    factors: Factors

    def times(
        self, plan: Plan, shape: Sequence[int], *, cores: float = 1.0, forward_ms: float = 0.0
    ) -> Times:
        """One iteration under a plan; `shape` is the devices on each node, `cores` per device.

        `forward_ms` is the measured forward of one micro-batch through all stages, if a run has
        it; otherwise the model's facts are used.
        """
        nodes = tuple(shape)
        copies = data_degree(plan, sum(nodes))
        facts, factors = self.facts, self.factors
        tensor, pipeline, micro = plan.tensor, plan.pipeline, plan.accumulate
        stage = (forward_ms or self._forward_ms(plan, copies)) / pipeline
        slots = micro + pipeline - 1
        forward = slots * stage
        last = factors.k_bwd * stage * pipeline
        exchange = factors.k_bwd * stage * (micro - 1)
        exchange += overlap(last, self._gradients_ms(plan, nodes, copies), factors.k_sync)
        if plan.recompute:
            exchange += facts.recompute * forward
        if tensor > 1 or pipeline > 1:
            exchange += slots / (micro * pipeline) * self._activations_ms(plan, nodes, copies)
        parameters = facts.parameters_mi / (tensor * pipeline)
        fixed = factors.k_swap if tensor == pipeline == 1 else 0.0
        if plan.offload:
            moved = GRADIENT_BYTES * parameters / copies / self.links.host
            exchange += factors.k_off + moved
            on_host = factors.k_opt_off * parameters / (copies * max(cores, 1e-3))
            return Times(forward, exchange, on_host + fixed + moved, factors.k_const)
        share = 1 if plan.shard == "none" else copies
        return Times(forward, exchange, factors.k_opt * parameters / share + fixed, factors.k_const)

    def iteration_s(self, plan: Plan, shape: Sequence[int], *, cores: float = 1.0) -> float:
        """Seconds of one iteration."""
        return self.times(plan, shape, cores=cores).iteration_s

    def _forward_ms(self, plan: Plan, copies: int) -> float:
        """One micro-batch through the whole model."""
        facts = self.facts
        samples = facts.batch / (copies * plan.accumulate)
        each = (facts.forward_ms - facts.forward_fixed_ms) / facts.batch
        if plan.tensor > 1 or plan.pipeline > 1:
            each /= plan.tensor * facts.efficiency(plan.tensor)
        return facts.forward_fixed_ms + each * samples

    def _gradients_ms(self, plan: Plan, nodes: Shape, copies: int) -> float:
        """Averaging gradients among the copies of one stage, by a ring."""
        if copies == 1:
            return 0.0
        parameters = self.facts.parameters_mi / (plan.tensor * plan.pipeline)
        amount = 2 * GRADIENT_BYTES * parameters * (copies - 1) / copies
        if plan.shard in {"gradients", "all"}:
            # With shards, every micro-batch sends its gradients; otherwise they add up locally.
            amount *= plan.accumulate
            amount *= 1.0 + self.factors.sharded_extra * log2(1 + len(nodes))
            amount *= _ALL_SHARDED if plan.shard == "all" else 1.0
        if _inside(nodes, plan.tensor * copies):
            return amount / self.links.inner
        return amount / self.links.between(nodes, plan.tensor)

    def _activations_ms(self, plan: Plan, nodes: Shape, copies: int) -> float:
        """Time that tensor groups and stages spend on exchanges for one copy's samples."""
        facts, tensor = self.facts, plan.tensor
        one = ACTIVATION_BYTES * facts.batch / copies * facts.sequence * facts.hidden / MEBI
        reductions = _REDUCTIONS * (1.5 if plan.recompute else 1.0)
        ring = 2 * (tensor - 1) / tensor
        total = reductions * ring * one * facts.layers / self.links.inner
        if plan.pipeline > 1:
            link = self.links.inner if len(nodes) == 1 else self.links.outer
            share = tensor if self.links.chunks else 1
            total += 2 * _DIRECTIONS * one / share * plan.pipeline / link
        return total


def _inside(nodes: Shape, block: int) -> bool:
    """Whether devices in blocks of this many, taken in rank order, never cross a node."""
    return all(count % block == 0 for count in nodes)
