"""What moves along of a script that knows nothing of it: all that it made, and its place.

A newcomer runs the script from its top. It passes what is over while the others train, warms up,
and says that it is ready. Then it takes the state of the others.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from treadle.train.auto.files import Files
from treadle.train.auto.loading import Order, peek
from treadle.train.auto.made import Made
from treadle.train.auto.notes import Notes
from treadle.train.auto.support import say
from treadle.train.data import Data
from treadle.train.elastic import Move
from treadle.train.gradients import Gradients
from treadle.train.group import BrokenGroupError
from treadle.train.planned import Planned
from treadle.train.random_numbers import random_state
from treadle.train.session import Run
from treadle.train.state import State


class ScriptState(Run):
    """The state of one process of such a run."""

    def __init__(self, made: Made, files: Files, *, timeout_s: float) -> None:
        super().__init__(timeout_s=timeout_s)
        self.made, self.files = made, files
        self.order = Order()
        self.warming = False
        self._notes = Notes(self.elastic.me) if self.elastic else None
        self._passes = 0  # over loaders that the script has begun
        self._entered = False  # it belongs to a group
        self._count = -1  # what was made when the state was put together
        self._loader: DataLoader[Any] | None = None  # with which it warms up
        self._random: dict[str, Any] | None = None  # as the state had it, until it is used
        self._regroups = 0

    def _collect(self, loader: DataLoader[Any]) -> bool:
        """Put together what moves along; whether the script has made more since the last time."""
        made = self.made
        for number, scheduler in made.schedulers.items():
            self.keep(**{f"scheduler{number}": scheduler})
        for number, scaler in made.scalers.items():
            self.keep(**{f"scaler{number}": scaler})
        more = made.count != self._count
        if more:
            self._count = made.count
            optimizers = made.optimizers.items()
            self.keep(order=self.order, files=self.files)
            for number, optimizer in optimizers[1:]:
                self.keep(**{f"optimizer{number}": optimizer})
            root, first = made.roots(), optimizers[0][1]
            self._state = State(root, first, self._kept, self.position)
            why = "the script's own steps need whole gradients"
            self._planned = Planned(root, first, self.device, whole=why)
            self._data = Data(
                loader.dataset,
                batch_size=max(1, loader.batch_size or 1),
                seed=torch.initial_seed() % 2**31,
                micro_batch=1,
                device=self.device,
            )
            self._loader = loader
        wanted = self._parameters()
        if [*map(id, wanted)] != [*map(id, self._gradients._parameters)]:
            self._gradients.close()
            self._gradients = Gradients(wanted, self.group)
            if self._entered:
                self._gradients.rebuild()
        return more

    def _warm_up(self) -> None:
        """What a newcomer does once before it joins, if no earlier epoch has done it."""
        assert self._state is not None
        assert self._loader is not None
        if self._passes > 1:
            return
        try:
            content = peek(self._loader)
            x = content[0] if isinstance(content, tuple | list) else content
            ours = {id(each) for each in self.made.parameters()}
            for model in self._state.model.children():
                if any(id(each) in ours for each in model.parameters()):
                    model(x.to(self.device)).float().mean().backward()
        except Exception as error:  # the user's own code, and only to warm up
            say(f"no warm-up of the model: {error}")
        self.warming = True
        for optimizer in self.made.optimizers:
            for parameter in self.made.parameters():
                if parameter.grad is None and parameter.requires_grad:
                    parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
            optimizer.zero_grad()
        self.warming = False

    def _plans(self) -> tuple[str, ...]:
        """None: the model stays whole."""
        return ()

    def _parameters(self) -> list[Tensor]:
        return [each for each in self.made.parameters() if each.requires_grad]

    def _ahead(self) -> int:
        """How many passes a newcomer may catch up with before it says that it is ready."""
        return self._notes.passes() if self._notes and self.elastic and self.elastic.joins else 0

    def take_state(self, move: Move) -> None:
        checkpoints = self._saving.checkpoints
        looks = move.fresh and checkpoints and self.files.has_loaded
        saved = checkpoints.load() if looks and checkpoints else None
        if saved and (found := self.files.resumes_from(saved["kept"]["files"])):
            say(f"the script goes on from {found}, and not from the checkpoint of Treadle")
            self._saving.checkpoints = None
        if move.spread:
            self.order.split()
        super().take_state(move)
        self._saving.checkpoints = checkpoints
        self._random = random_state(self.device)

    def regrouped(self) -> None:
        super().regrouped()
        self._regroups += 1

    def _failed(self, error: BrokenGroupError) -> None:
        if self.elastic is None:
            raise error
        self.elastic.failed(error)
