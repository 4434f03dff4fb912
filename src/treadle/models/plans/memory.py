"""How much memory a plan needs on each device and on the hosts, and whether it fits.

These are estimates of what training with Adam in mixed precision must keep. They leave out the
output layer's scores and fragmentation; a tenth of the device is reserved for those.

    weights and their optimizer   16 bytes for each parameter: 2 + 2 of weights and gradients, 12 of
                                  the optimizer. Frameworks that split the model keep gradients in
                                  full precision as well: 18. The copies divide what is sharded.
    optimizer on the host         2 bytes and two buckets stay on the device, 16 go to the host
    activations of one layer      sequence × samples × hidden × (34 + 5 × heads × sequence / hidden)
                                  bytes, over the tensor degree (Korthikanti et al., MLSys'23)
    the same, recomputed          its input, 2 bytes for each number, and one layer in full

The first stage of a pipeline holds the most: as many micro-batches as there are stages.
"""

from dataclasses import dataclass
from math import inf

from treadle.core.plan import Plan
from treadle.models.plans.iteration_time import ModelFacts, data_degree

GIB = float(1 << 30)
RESERVED = 0.1  # of a device, for what the estimate leaves out
PROCESS_GIB = 2.0  # on the host, for each device's process and its input
# Parameters that travel together between device and host; there are two such buckets.
_BUCKET = 5e8


@dataclass(frozen=True, slots=True)
class Room:
    """The memory available to each device."""

    device_gib: float = 80.0
    host_gib: float = inf  # the device's share of its host

    @property
    def usable_gib(self) -> float:
        """The part of a device's memory that a plan may use."""
        return self.device_gib * (1.0 - RESERVED)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a plan needs for each device; a host is shared evenly."""

    device_gib: float
    host_gib: float

    def fits(self, room: Room) -> bool:
        return self.device_gib <= room.usable_gib and self.host_gib <= room.host_gib


def memory(facts: ModelFacts, plan: Plan, size: int) -> Memory:
    """The memory that a plan needs on `size` devices."""
    copies = data_degree(plan, size)
    device = weight_bytes(facts, plan, copies) + activation_bytes(facts, plan, copies)
    host_gib = PROCESS_GIB
    if plan.offload:
        host_gib += 16.0 * facts.parameters / size / GIB
    return Memory(device / GIB, host_gib)


def weight_bytes(facts: ModelFacts, plan: Plan, copies: int) -> float:
    """Weights, gradients and the optimizer's numbers on the fullest device."""
    parameters = facts.parameters / (plan.tensor * plan.pipeline)
    if plan.offload:
        return 2.0 * parameters + 2 * 2.0 * min(parameters, _BUCKET)
    if plan.tensor > 1 or plan.pipeline > 1:
        return 18.0 * parameters
    whole, shared = {
        "none": (16.0, 0.0),
        "optimizer": (4.0, 12.0),
        "gradients": (2.0, 14.0),
        "all": (0.0, 16.0),
    }[plan.shard]
    return (whole + shared / copies) * parameters


def activation_bytes(facts: ModelFacts, plan: Plan, copies: int) -> float:
    """Activations that the forward pass keeps for the backward pass, on the first stage."""
    samples = facts.batch / (copies * plan.accumulate)
    numbers = facts.sequence * samples * facts.hidden
    attention = 5.0 * facts.heads * facts.sequence / facts.hidden
    layer = numbers * (34.0 + attention) / plan.tensor
    kept = facts.layers / plan.pipeline * min(plan.pipeline, plan.accumulate)
    if plan.recompute:
        return 2.0 * numbers * kept + layer
    return layer * kept
