"""What of torch is replaced while the script runs, and what each replacement does.

`DataLoader.__iter__`: a training loop gets this rank's share of each batch.
`torch.autograd.backward`: gradients are added up over all ranks.
Steps of optimizers: counted by hooks of torch, and not applied where they must not be.
Schedulers, `GradScaler`, `AveragedModel`: not stepped where the optimizer is not.
`nn.Module`: remembered.
`enumerate(loader)`: counts batches of the epoch, also for a newcomer in its middle.
`torch.save`, `torch.load`: see files.py.
"""

import functools
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import _refresh_per_optimizer_state
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from treadle.train.auto.files import Files
from treadle.train.auto.loading import whole
from treadle.train.auto.made import Made, Roots
from treadle.train.auto.script_run import ScriptRun
from treadle.train.auto.support import notes, problem, refuse, say

NO_TRAINING = (
    "the script has ended and made no optimizer of torch, so each process did all of its work; "
    "submit it without --elastic auto"
)


class Watched:
    """The script as it is seen from outside."""

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self.made = Made()
        self.run: ScriptRun | None = None
        self.rigid = False  # nothing is replaced any more
        self.folder = "/nowhere/"  # of the script
        self._timeout_s = timeout_s
        self._files = Files(lambda: self.run)

    # -- what the script does ----------------------------------------------------------------------

    def iterate(self, loader: DataLoader[Any]) -> Iterator[Any]:
        if self.rigid:
            return whole(loader)
        if torch.is_grad_enabled() and self.made.trains():
            if self.run is None:
                self._begin(loader)
            elif found := problem(loader, self.made, again=True):
                refuse(found)
            if self.run is not None:
                return self.run.batches_of(loader)
        return whole(loader) if self.run is None else self.run.whole(loader)

    def _begin(self, loader: DataLoader[Any]) -> None:
        """The first training loop."""
        if found := problem(loader, self.made):
            return self._alone(found)
        for note in notes(self.made):
            say(note)
        self.run = ScriptRun(self.made, self._files, timeout_s=self._timeout_s, folder=self.folder)
        return None

    def _alone(self, why: str) -> None:
        """One process may go on as it would without us; several must not."""
        env = os.environ
        # One that may be given more devices later would be refused only then.
        names = ("WORLD_SIZE", "TREADLE_ASKED", "TREADLE_SIZE_MAX")
        size = max(int(env.get(name) or 1) for name in names)
        if size > 1 or env.get("TREADLE_JOINS") == "1":
            refuse(why)
        say(f"runs as one process that cannot be resized: {why}")
        self.rigid = True

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        if self.rigid:
            return
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is not None:
            self._not_shared(
                f"{type(optimizer).__name__}.step(closure) computes the loss itself; call "
                "backward() and step() without a closure"
            )
        elif self.run is None or self.run.outside:
            self._not_shared(
                "optimizer.step() came outside of a loop over a DataLoader; only batches of a "
                "DataLoader can be shared out"
            )
        if self.run is not None and not self.rigid:
            self.run.before_step(optimizer)

    def _not_shared(self, why: str) -> None:
        if self.run is None:
            self._alone(why)
        else:
            refuse(why)

    def after_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:  # noqa: ANN401
        if self.run is not None and not self.rigid:
            self.run.after_step(optimizer)

    def suppresses(self, thing: object) -> bool:
        """Whether a step of this scheduler, scaler or average must not count."""
        run = self.run
        if run is None or not run.suppressed:
            return False
        if thing in self.made.schedulers:
            return True
        # A scaler calls the optimizer, which then is counted.
        return run.void and (isinstance(thing, AveragedModel) or thing in self.made.scalers)

    # -- how it is seen ----------------------------------------------------------------------------

    def install(self) -> None:
        DataLoader.__iter__ = _wrapped(whole, self.iterate)  # type: ignore[method-assign]
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)
        self._watch_backward()
        self._watch_made()
        self._watch_steps(torch.amp.GradScaler, "step")
        self._watch_steps(torch.amp.GradScaler, "update", _forget_step)
        self._watch_steps(AveragedModel, "update_parameters")
        self._files.install()

    def _watch_backward(self) -> None:
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **options: Any) -> None:  # noqa: ANN401
            if self.run is None or self.rigid:
                original(tensors, grad_tensors, *args, **options)
                return
            names = ("retain_graph", "create_graph", "grad_variables", "inputs")
            options |= dict(zip(names, args, strict=False))
            self.run.weighted_backward(original, tensors, grad_tensors, **options)

        torch.autograd.backward = backward

    def _watch_made(self) -> None:
        _after(nn.Module, "__init__", self._add_module)
        _after(nn.Module, "__setstate__", self._add_module)  # copies, and those that were loaded
        _after(Optimizer, "__init__", self._add_optimizer)
        _after(torch.amp.GradScaler, "__init__", self._add_scaler)
        for kind in _kinds(LRScheduler):
            if "__init__" in vars(kind):
                _after(kind, "__init__", self._add_scheduler)
            if "step" in vars(kind):
                self._watch_steps(kind, "step")

    def _add_module(self, module: nn.Module) -> None:
        if not isinstance(module, Roots):
            self.made.modules.add(module)

    def _add_scaler(self, scaler: torch.amp.GradScaler) -> None:
        self.made.scalers.add(scaler)

    def _add_scheduler(self, scheduler: Any) -> None:  # noqa: ANN401
        if scheduler not in self.made.schedulers:
            self.made.schedulers.add(scheduler)

    def _watch_steps(
        self,
        kind: Any,  # noqa: ANN401
        name: str,
        instead: Callable[[Any], None] = lambda _: None,
    ) -> None:
        original = getattr(kind, name)

        @functools.wraps(original)
        def step(thing: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
            if self.suppresses(thing):
                return instead(thing)
            return original(thing, *args, **options)

        setattr(kind, name, step)

    def _add_optimizer(self, optimizer: Optimizer) -> None:
        self.made.optimizers.add(optimizer)
        # It is about to train, and its own modules are imported. Not in `builtins`: libraries of
        # others count other things.
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None) or ""
            if file.startswith(self.folder) and "site-packages" not in file:
                vars(module).setdefault("enumerate", self.enumerate)

    def enumerate(self, iterable: Any, start: int = 0) -> Any:  # noqa: ANN401
        """In place of Python's own, in the modules of the script."""
        loader = getattr(iterable, "iterable", iterable)  # tqdm(loader) has it
        if self.rigid or not isinstance(loader, DataLoader):
            return enumerate(iterable, start)
        return self._numbers(iterable, loader, start)

    def _numbers(
        self,
        iterable: Any,  # noqa: ANN401
        loader: DataLoader[Any],
        start: int,
    ) -> Iterator[tuple[int, Any]]:
        for count, batch in enumerate(iterable):
            run = self.run
            here = run is not None and run.loader is loader and not run.catching_up
            yield start + (run.index if run is not None and here else count), batch

    def end(self, *, well: bool) -> None:
        """The script has ended."""
        if self.run is not None:
            self.run.end(well=well)
        elif well and not self.rigid and not self.made.optimizers.count:
            self._alone(NO_TRAINING)


def _wrapped(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
        return ours(*args, **options)

    return call


def _after(kind: Any, name: str, then: Callable[[Any], Any]) -> None:  # noqa: ANN401
    original = getattr(kind, name)

    @functools.wraps(original)
    def call(thing: Any, *args: Any, **options: Any) -> None:  # noqa: ANN401
        original(thing, *args, **options)
        then(thing)

    setattr(kind, name, call)


def _forget_step(scaler: Any) -> None:  # noqa: ANN401
    """What `update` does, but for the scale."""
    scaler._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)
