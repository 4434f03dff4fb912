"""All legal plans of a model on given devices, and the best of them.

A plan is legal if its degrees multiply to the number of devices, every tensor group lies inside one
node and divides the attention heads, the stages divide the layers, and every device gets whole
samples. It is feasible if it also fits the memory. There are a few hundred at most, so all are
tried. Results are cached, because a scheduler asks the same question for every job of a type.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from treadle.core.allocation import Allocation
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.core.plan import Plan
from treadle.models.plans.iteration_time import ModelFacts, ModelType, Shape
from treadle.models.plans.layouts import counted, shape
from treadle.models.plans.memory import Memory, Room, memory

KEPT_MAX = 65_536  # cached answers of one planner; then the cache is cleared


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal plan with its time and memory."""

    plan: Plan
    iteration_s: float
    memory: Memory
    feasible: bool = True  # it fits


def shape_of(allocation: Allocation) -> Shape:
    """How many devices an allocation has on each of its nodes, largest first."""
    return shape(counted(allocation.devices))


def dense(size: int, node: int = 8) -> Shape:
    """The shape on the fewest nodes of `node` devices that hold this size."""
    if size < 1 or node < 1:
        raise InvalidInputError(f"{size} devices on nodes of {node}; expected 1 or more of both")
    full, rest = divmod(size, node)
    return (node,) * full + ((rest,) if rest else ())


def legal_plans(
    facts: ModelFacts, shape: Sequence[int], *, micro_batches: bool = True
) -> Iterator[Plan]:
    """Every legal plan. Without micro-batches a pipeline gets its share of the batch at once."""
    size = sum(shape)
    for tensor in _divisors(size):
        if facts.heads % tensor or any(count % tensor for count in shape):
            continue
        for pipeline in _divisors(size // tensor):
            copies = size // (tensor * pipeline)
            if facts.layers % pipeline or facts.batch % copies:
                continue
            split = tensor > 1 or pipeline > 1
            if split and not facts.splits:
                continue
            most = facts.batch // copies if micro_batches or not split else 1
            for accumulate in _divisors(most):
                yield from _variants(tensor, pipeline, copies, accumulate)


def _variants(tensor: int, pipeline: int, copies: int, accumulate: int) -> Iterator[Plan]:
    """One set of degrees with and without each way to save memory."""
    for recompute in (False, True):
        plan = Plan(tensor, pipeline, copies, recompute=recompute, accumulate=accumulate)
        yield plan
        if tensor == pipeline == 1:
            if copies > 1:
                yield Plan(
                    data=copies, shard="gradients", recompute=recompute, accumulate=accumulate
                )
            yield Plan(
                data=copies,
                shard="gradients",
                offload=True,
                recompute=recompute,
                accumulate=accumulate,
            )


def candidates(
    model: ModelType,
    shape: Sequence[int],
    *,
    cores: float = 1.0,
    room: Room | None = None,
    micro_batches: bool = True,
) -> tuple[Candidate, ...]:
    """Every legal plan: those that fit, fastest first, then the others, fastest first."""
    nodes = tuple(sorted(shape, reverse=True))
    limits = room or Room()
    found = []
    for plan in legal_plans(model.facts, nodes, micro_batches=micro_batches):
        needed = memory(model.facts, plan, sum(nodes))
        seconds = model.iteration_s(plan, nodes, cores=cores)
        found.append(Candidate(plan, seconds, needed, needed.fits(limits)))
    # Among equals the fewest micro-batches, then the least memory: the simplest to run.
    found.sort(
        key=lambda c: (
            not c.feasible,
            c.iteration_s,
            c.plan.accumulate,
            c.memory.device_gib,
            c.memory.host_gib,
        )
    )
    return tuple(found)


@dataclass(frozen=True)
class Planner:
    """Finds the best plan of a job on given devices, and its iteration time.

    `spec.profile.model` gives a job's model type. Every legal plan is considered, whatever
    `spec.plans` says: the policy decides which of them a job may use.
    """

    types: Mapping[str, ModelType]
    room: Room = field(default_factory=Room)
    cores: float = 4.0  # for each device, if an allocation does not say
    # Whether pipelines use micro-batches, as they should; the authors' eight-sample runs of LLaMA
    # did not.
    micro_batches: bool = True
    _kept: dict[tuple[str, Shape, float], tuple[Candidate, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def forget(self) -> None:
        """Clear the cache, because a type has changed."""
        self._kept.clear()

    def type_of(self, spec: JobSpec) -> ModelType | None:
        """The model type of a job, or None if its model is unknown."""
        return self.types.get(spec.profile.model)

    def candidates(
        self, model: str, shape: Sequence[int], cores: float | None = None
    ) -> tuple[Candidate, ...]:
        """Every legal plan of a model on these devices, best first."""
        key = (model, tuple(sorted(shape, reverse=True)), self.cores if cores is None else cores)
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            known = self._kept[key] = candidates(
                self.types[model],
                key[1],
                cores=key[2],
                room=self.room,
                micro_batches=self.micro_batches,
            )
        return known

    def best(
        self, model: str, shape: Sequence[int], cores: float | None = None
    ) -> Candidate | None:
        """The fastest plan that fits, or None."""
        listed = self.candidates(model, shape, cores)
        return listed[0] if listed and listed[0].feasible else None

    def iteration_s(self, spec: JobSpec, allocation: Allocation) -> float | None:
        """Seconds of one iteration under the allocation's own plan, or None for unknown models."""
        model = self.type_of(spec)
        if model is None:
            return None
        shape = shape_of(allocation)
        return model.iteration_s(allocation.plan, shape, cores=self._cores(allocation))

    def _cores(self, allocation: Allocation) -> float:
        return self.cores if allocation.host is None else allocation.host.cores


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
