"""A training run as the script sees it: prepare, epochs, batches, backward, step, report."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from treadle.core.errors import InvalidInputError
from treadle.report import report
from treadle.train.checkpoint import Checkpoints, folder
from treadle.train.data import Batch, Data
from treadle.train.elastic import Elastic
from treadle.train.gradients import Gradients
from treadle.train.group import BrokenGroupError, Group
from treadle.train.stages import Stages, TurnClient
from treadle.train.state import Kept, Position, State, receive, seed_apart, send
from treadle.train.stop import STOP, STOPPED, exit_now

REPORT_EVERY_S = 1.0
STOP_EVERY = 8  # steps, on a GPU without a coordinator

Model = TypeVar("Model", bound=nn.Module)
Chosen = TypeVar("Chosen", bound=torch.optim.Optimizer)


class Run:
    """One process of a training run, in a group whose size may change."""

    def __init__(self, *, timeout_s: float = 60.0, checkpoint_every_s: float = 600.0) -> None:
        self.device = _device()
        self._loss = float("nan")
        self.group = Group(self.device, timeout_s)
        self.position = Position()
        self._stages = Stages(TurnClient.from_environment(os.environ), self.device)
        self._reported_at = monotonic()
        self.elastic = (
            Elastic(self, self.group, timeout_s) if "TREADLE_CHANNEL" in os.environ else None
        )
        STOP.install()
        # Without Treadle, a folder that lies there is perhaps of another run: none is used.
        named = "TREADLE_CHECKPOINT_DIR" in os.environ
        self._checkpoints = Checkpoints(folder()) if named else None
        self._checkpoint_every_s = checkpoint_every_s
        self._saved_at = monotonic()
        self._kept: dict[str, Kept] = {}
        self._state: State | None = None
        self._data: Data | None = None
        self._gradients = Gradients((), self.group)
        self._clip_norm: float | None = None
        self._rehearse: Callable[[nn.Module, Batch], Tensor] | None = None
        self._epochs = 0
        # Of the batch that the script has now.
        self._batch: Batch | None = None
        self._loss_sum = torch.zeros(())
        self._went_back = False  # backward was called
        self._stepped = False  # the step is applied
        self._void = False  # the step does not count: a member was lost
        self._jumped = False  # the epoch ended elsewhere: its end was already dealt with
        self._signals: tuple[Tensor, Tensor] | None = None
        self._stop_agreed = False

    @property
    def rank(self) -> int:
        return self.group.rank

    @property
    def size(self) -> int:
        return self.group.size

    @property
    def loss(self) -> float:
        """The loss of the last step over the whole batch; to read it waits for the device."""
        self._read_signals()
        return self._loss

    @property
    def step_count(self) -> int:
        """Steps applied since the beginning of the training."""
        return self.position.applied

    # -- before the loop ---------------------------------------------------------------------------

    def prepare(
        self,
        model: Model,
        optimizer: Chosen,
        dataset: Dataset[Any] | DataLoader[Any],
        *,
        batch_size: int,
        seed: int = 0,
        micro_batch: int | None = None,
        clip_norm: float | None = None,
        rehearse: Callable[[nn.Module, Batch], Tensor] | None = None,
    ) -> tuple[Model, Chosen, Data]:
        """Hand over what the training consists of.

        batch_size: of all ranks together; it stays the same whatever the number of ranks is.
        micro_batch: the most samples that a rank takes in one pass. By default what it has at the
        size that the job asked for: with fewer ranks, gradients are accumulated.
        clip_norm: the largest norm of the gradients of a step.
        rehearse: gives the loss of a batch, for a newcomer to warm up with.
        """
        model.to(self.device)
        asked = int(os.environ.get("TREADLE_ASKED") or os.environ.get("WORLD_SIZE") or 1)
        self._data = Data(
            dataset,
            batch_size=batch_size,
            seed=seed,
            micro_batch=micro_batch or -(-batch_size // asked),
            device=self.device,
        )
        self._state = State(model, optimizer, self._kept, self.position)
        self._gradients = Gradients(model.parameters(), self.group)
        self._clip_norm, self._rehearse = clip_norm, rehearse
        optimizer.zero_grad()
        optimizer.zero_grad = self._zero_grad  # type: ignore[method-assign]
        return model, optimizer, self._data

    def keep(self, **things: Kept) -> None:
        """Further things that move along: `run.keep(scheduler=..., scaler=...)`.

        A thing named `scaler` is used as a gradient scaler.
        """
        self._kept.update(things)

    # -- the loop ----------------------------------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """Epoch numbers, from where this run stands."""
        self._epochs = count
        self._enter()
        try:
            while self.position.epoch < count:
                self._jumped = False
                epoch = self.position.epoch
                yield epoch
                if self.position.epoch == epoch:
                    self.position.epoch, self.position.offset = epoch + 1, 0
        except GeneratorExit:
            if self.elastic is not None:
                self.elastic.finish(wait=False)
            self.group.abort()
            raise
        if self.elastic is not None:
            self.elastic.finish(wait=True)
        self.group.leave()

    def batches(self, data: Data) -> Iterator[Batch]:
        """The batches of the present epoch that are still to be done, this rank's share of each."""
        position, epoch = self.position, self.position.epoch
        while position.epoch == epoch and position.offset < data.steps:
            if self._boundary():
                continue
            for batch in self._loaded(data.stream(epoch, position.offset, self.rank, self.size)):
                if batch.share.first and self._boundary():
                    break
                self._begin(batch)
                yield batch
                self._check(batch)
                if self._void:
                    break
        self._batch = None
        self._jumped = position.epoch != epoch

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients, and add them up over all ranks at the last pass of a step.

        loss: the mean over this batch.
        """
        batch = self._batch
        if batch is None:
            raise InvalidInputError("run.backward was called outside of run.batches")
        self._went_back = True
        share = batch.share  # Alone and in one pass, nothing is launched for the sum.
        weighted = loss if share.weight == 1.0 else loss * share.weight
        part = weighted.detach().float()
        self._loss_sum = part if share.first else self._loss_sum + part
        scaler: Any = self._kept.get("scaler")
        self._gradients.begin(last=batch.share.last)
        (weighted if scaler is None else scaler.scale(weighted)).backward()
        if batch.share.last and self.size > 1:
            with self._stages.stage("sync"):
                self._agree()
        elif batch.share.last:
            self._agree()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Name a part of the step: `with run.stage("prepare"): ...`; the rest is `compute`."""
        return self._stages.stage(name)

    def step(self, thing: Any) -> None:  # noqa: ANN401
        """Apply the step, at its last pass; or step a scheduler if a step was applied."""
        assert self._state is not None, "run.prepare comes first"
        if thing is not self._state.optimizer:
            if self._stepped or (self._batch is None and not self._jumped):
                thing.step()
            return
        batch = self._batch
        if batch is None or not self._went_back:
            raise InvalidInputError("run.step(optimizer) needs run.backward(loss) before it")
        if not batch.share.last:
            return
        if not self._void:
            self._apply(self._state.optimizer)
        for parameter in self._state.model.parameters():
            parameter.grad = None

    def report(self, **values: Any) -> None:  # noqa: ANN401
        """Report progress to Treadle; `loss` is the loss of the whole batch, not of this rank."""
        if self.rank == 0 and self._data is not None:
            loss = self.loss if "loss" in values else None
            self._report(loss=loss)

    def _report(self, loss: float | None = None) -> None:
        """Tell Treadle how far this run is, and where the time of a step goes."""
        assert self._data is not None
        self._reported_at = monotonic()
        times = self._stages.times()
        stages = None
        if times is not None:
            stages = {**times.seconds, "step": times.step_s, "turns": times.waited_s}
        total = self._epochs * self._data.steps
        report(self.position.applied, total, loss=loss, stages=stages)

    # -- parts of a step ---------------------------------------------------------------------------

    def _loaded(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The same batches; waiting for them is the stage `load`."""
        while True:
            self._stages.enter("load")
            batch = next(batches, None)
            self._stages.enter(None)
            if batch is None:
                return
            yield batch

    def _begin(self, batch: Batch) -> None:
        self._stages.enter("compute")
        self._batch = batch
        self._went_back = self._stepped = self._void = False

    def _check(self, batch: Batch) -> None:
        if batch.share.last and not (self._stepped or self._void):
            raise InvalidInputError(
                "run.step(optimizer) was not called for a batch; each batch needs "
                "run.backward(loss) and run.step(optimizer)"
            )

    def _agree(self) -> None:
        """Wait until the gradients of all ranks are added up."""
        abandon = self.elastic.abandons if self.elastic else None
        try:
            loss, stop = self._gradients.finish(self._loss_sum, STOP.asked, abandon)
        except BrokenGroupError as error:
            if self.elastic is None:
                raise
            self._void = True
            self.elastic.failed(error)
            return
        self._signals = (loss, stop)

    def _apply(self, optimizer: torch.optim.Optimizer) -> None:
        assert self._state is not None
        scaler: Any = self._kept.get("scaler")
        if self._clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(self._state.model.parameters(), self._clip_norm)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        self.position.applied += 1
        self.position.offset += 1
        self._stepped = True
        self._stages.step_done()
        if self.rank == 0 and monotonic() - self._reported_at >= REPORT_EVERY_S:
            self._report()
        if self.elastic is not None:
            self.elastic.applied(self.position.applied)

    def _zero_grad(self, set_to_none: bool = True) -> None:
        """What the script's own `optimizer.zero_grad()` does: nothing, `run.step` clears them."""

    # -- boundaries --------------------------------------------------------------------------------

    def _boundary(self) -> bool:
        """Between two steps; whether the group changed."""
        if self.elastic is not None:
            if self.elastic.boundary():
                return True
        elif self._all_stop():
            self.save()
            self.group.abort()
            exit_now(STOPPED)
        if monotonic() - self._saved_at > self._checkpoint_every_s:
            self.save()
        return False

    def _all_stop(self) -> bool:
        """Whether any rank was asked to stop: the last bucket of a step told all of them.

        To read it waits for the device, so it is not read at each step. Which steps those are
        depends on nothing but their number, so all ranks read it at the same.
        """
        if self.size == 1:
            return STOP.asked
        if self.device.type != "cpu" and self.position.applied % STOP_EVERY:
            return False
        self._read_signals()
        return self._stop_agreed

    def _read_signals(self) -> None:
        if self._signals is not None:
            loss, flag = self._signals
            self._loss, self._stop_agreed = float(loss), bool(flag.item())
            self._signals = None

    def save(self) -> None:
        """Write a checkpoint; a disk that is full costs the checkpoint, not the training."""
        self._saved_at = monotonic()
        if self.rank != 0 or self._state is None or self._checkpoints is None:
            return
        try:
            self._checkpoints.save(self.position.applied, self._state.read(self.device))
        except OSError as error:
            sys.stderr.write(f"no checkpoint at step {self.position.applied}: {error}\n")
            return
        report(self.position.applied, checkpoint=self.position.applied)

    # -- members -----------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Become part of the group, with its state."""
        assert self._state is not None, "run.prepare comes first"
        if self.elastic is not None:
            if self.elastic.joins:
                self._warm_up()
            self.elastic.enter()
            return
        size = int(os.environ.get("WORLD_SIZE", "1"))
        self.group.join("env:", int(os.environ.get("RANK", "0")), size)
        self.take_state(0 if size > 1 else None, fresh=self.rank == 0)
        self.regrouped()

    def take_state(self, source: int | None, *, fresh: bool) -> None:
        """Send or receive the state in the new group; None: no member needs it.

        fresh: there is none but what a checkpoint holds.
        """
        assert self._state is not None
        assert self._data is not None
        if fresh and self._checkpoints and (saved := self._checkpoints.load()) is not None:
            self._state.write(saved, self.device, exact=True)
        if source is not None and self.rank == source:
            send(self._state.read(self.device), self.group)
        elif source is not None:
            needs = self.elastic is None or self.elastic.receives
            document = receive(self.group, source, keep=needs)
            if needs:
                self._state.write(document, self.device, exact=self.rank == 0)
                if self.rank != 0:
                    seed_apart(self._data.seed, self.position.applied, self.rank)
        if self.elastic is not None:
            self.elastic.applied(self.position.applied)

    def regrouped(self) -> None:
        """The group is another: gradients go there from now on."""
        assert self._state is not None
        for parameter in self._state.model.parameters():
            parameter.grad = None
        self._gradients.rebuild()
        self._stages.forget()
        if self.elastic is not None:
            # The script and its reports go by these, and the rank may be another now.
            os.environ |= {"RANK": str(self.rank), "WORLD_SIZE": str(self.size)}
            if self.elastic.version:  # not the first group: its devices may be others
                self._stages.leave_turns()

    def _warm_up(self) -> None:
        """Do once what a step does; the state that comes from the others replaces the outcome."""
        assert self._state is not None
        assert self._data is not None
        model, optimizer = self._state.model, self._state.optimizer
        try:
            batch = next(self._data.stream(0, 0, 0, 1))
            if self._rehearse is not None:
                loss: Any = self._rehearse(model, batch)
            else:
                loss = model(batch.x).float().mean()
            loss.backward()
        except Exception as error:  # the user's own code, and only to warm up
            sys.stderr.write(f"no warm-up of the model: {error}\n")
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None


def _device() -> torch.device:
    """The GPU of this rank, or the CPU."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        return device
    return torch.device("cpu")
