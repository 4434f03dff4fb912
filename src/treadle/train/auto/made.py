"""What the script made: its modules, optimizers, schedulers and scalers, in the order of creation.

All members run the same script, so the order is the same everywhere and serves as a name.
"""

import gc
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar
from weakref import ref

from torch import Tensor, nn
from torch.optim import Optimizer

Thing = TypeVar("Thing")


class Numbered(Generic[Thing]):
    """Objects that are alive, by their number."""

    def __init__(self) -> None:
        self.count = 0
        self._refs: dict[int, ref[Any]] = {}

    def add(self, thing: Thing) -> None:
        number, self.count = self.count, self.count + 1
        self._refs[number] = ref(thing, lambda _: self._refs.pop(number, None) and None)

    def items(self) -> list[tuple[int, Thing]]:
        found = [(number, each()) for number, each in list(self._refs.items())]
        return [(number, thing) for number, thing in found if thing is not None]

    def __iter__(self) -> Iterator[Thing]:
        return iter([thing for _, thing in self.items()])

    def __contains__(self, thing: object) -> bool:
        return any(each is thing for each in self)


class Roots(nn.ModuleDict):
    """The models of the script, as one module; not one that the script made."""


class Made:
    """All of it."""

    def __init__(self) -> None:
        self.modules: Numbered[nn.Module] = Numbered()
        self.optimizers: Numbered[Optimizer] = Numbered()
        self.schedulers: Numbered[Any] = Numbered()
        self.scalers: Numbered[Any] = Numbered()

    @property
    def count(self) -> int:
        """Grows when the script makes something."""
        return self.modules.count + self.optimizers.count

    def parameters(self) -> list[Tensor]:
        """What the optimizers change, each once."""
        return list(dict.fromkeys(_parameters(self.optimizers)))

    def trains(self) -> bool:
        """Whether a model of an optimizer is in training mode."""
        ours = set(map(id, self.parameters()))
        owners = [m for m in self.modules if any(id(p) in ours for p in m._parameters.values())]
        return bool(ours) and (not owners or any(module.training for module in owners))

    def roots(self) -> Roots:
        """Modules that are part of no other and have something to keep, by number."""
        gc.collect()  # What is garbage in one process must not be alive in another.
        every = self.modules.items()
        inner = {id(child) for _, module in every for child in module._modules.values()}
        return Roots(
            {
                str(number): module
                for number, module in every
                if id(module) not in inner and module.state_dict()
            }
        )


def _parameters(optimizers: Iterable[Optimizer]) -> Iterator[Tensor]:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]
