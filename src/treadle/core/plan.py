"""How a job splits its model over its devices: the execution plan."""

from dataclasses import dataclass
from typing import Literal

from treadle.core.errors import InvalidInputError

Shard = Literal["none", "optimizer", "gradients", "all"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to train: parallel degrees and the tricks that trade memory for time."""

    tensor: int = 1
    pipeline: int = 1
    data: int | None = None  # None stretches: whatever the size leaves
    shard: Shard = "none"
    offload: bool = False
    recompute: bool = False
    accumulate: int = 1

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "accumulate"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"a plan's {name} must be at least 1, not {self!r}")
        if self.data is not None and self.data < 1:
            raise InvalidInputError(f"a plan's data degree must be at least 1, not {self.data}")

    def fits(self, size: int) -> bool:
        """Whether this plan uses exactly that many devices."""
        inner = self.tensor * self.pipeline
        if self.data is None:
            return size % inner == 0
        return size == inner * self.data


DATA_PARALLEL = Plan()
