"""How a job splits its model over its devices: the execution plan.

As text a plan is a few words, such as `d2 t2 zero-3 recompute x4`: copies of the model, tensor and
pipeline degree, what the copies share out (ZeRO), off-load, recomputation, accumulation.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from treadle.core.errors import InvalidInputError

Shard = Literal["none", "optimizer", "gradients", "all"]
_ZERO: dict[Shard, str] = {"optimizer": "zero-1", "gradients": "zero-2", "all": "zero-3"}
_DEGREES = {"d": "data", "t": "tensor", "p": "pipeline", "x": "accumulate"}


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

    def on(self, size: int) -> "Plan":
        """The same with as many copies as so many devices leave, where it does not say."""
        if self.data is not None:
            return self
        return replace(self, data=max(1, size // (self.tensor * self.pipeline)))

    @property
    def replicated(self) -> bool:
        """Whether every device has all of the state, so that any of them can give it to others."""
        return self.tensor == self.pipeline == 1 and (self.shard == "none" or self.data == 1)

    @property
    def text(self) -> str:
        """The plan as words that `plan_of` reads; empty for the default."""
        words = [f"d{self.data}"] if self.data is not None else []
        words += [f"t{self.tensor}"] if self.tensor > 1 else []
        words += [f"p{self.pipeline}"] if self.pipeline > 1 else []
        words += [_ZERO[self.shard]] if self.shard != "none" else []
        words += ["offload"] * self.offload + ["recompute"] * self.recompute
        words += [f"x{self.accumulate}"] if self.accumulate > 1 else []
        return " ".join(words)

    @property
    def name(self) -> str:
        """The plan as people are shown it: the default has a name too."""
        return self.text or "data parallel"


DATA_PARALLEL = Plan()


def plan_of(text: str) -> Plan:
    """The plan that `Plan.text` wrote, or a person."""
    given: dict[str, Any] = {}
    shards = {word: shard for shard, word in _ZERO.items()}
    for word in text.split():
        degree = re.fullmatch(r"([dtpx])([1-9]\d{0,5})", word)
        found: int | Shard
        if degree is not None:
            name, found = _DEGREES[degree[1]], int(degree[2])
        elif word in ("offload", "recompute"):
            name, found = word, True
        elif word in shards:
            name, found = "shard", shards[word]
        else:
            raise InvalidInputError(
                f"the plan {text!r} has the word {word!r}; expected words such as d2, t2, p2, "
                "zero-1, zero-2, zero-3, offload, recompute, x4"
            )
        if name in given:
            raise InvalidInputError(f"the plan {text!r} gives {name} twice")
        given[name] = found
    return Plan(**given)
