"""A training run as the script sees it: prepare, epochs, batches, backward, step, report."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from treadle.core.errors import InvalidInputError
from treadle.core.plan import DATA_PARALLEL, Plan, plan_of
from treadle.train.agreement import Agreement
from treadle.train.data import Batch, Data
from treadle.train.elastic import Elastic, Move
from treadle.train.gradients import Gradients
from treadle.train.group import BrokenGroupError, Group
from treadle.train.planned import Planned
from treadle.train.saving import Saving
from treadle.train.state import Kept, Position, State
from treadle.train.state_moves import StateMoves
from treadle.train.stop import STOP, STOPPED, exit_now
from treadle.train.telling import Telling

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
        self._telling = Telling(self.device)
        self.elastic = (
            Elastic(self, self.group, timeout_s) if "TREADLE_CHANNEL" in os.environ else None
        )
        STOP.install()
        self._saving = Saving(self.group, checkpoint_every_s)
        self._moves = StateMoves(self.group, self._saving, self.device)
        self._kept: dict[str, Kept] = {}
        self._state: State | None = None
        self._data: Data | None = None
        self._planned: Planned | None = None
        self._micro_batch: int | None = None
        self._gradients = Gradients((), self.group)
        self._agreement = Agreement(
            self, "give its scheduler to run.keep, or go by run.step_count or the epoch"
        )
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
        self._stop_agreed = self._save_agreed = False

    @property
    def rank(self) -> int:
        return self.group.rank

    @property
    def size(self) -> int:
        return self.group.size

    @property
    def plan(self) -> Plan:
        """How the model is trained now."""
        return DATA_PARALLEL if self._planned is None else self._planned.plan

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
        self._micro_batch = micro_batch
        most = micro_batch or batch_size
        self._data = Data(
            dataset, batch_size=batch_size, seed=seed, micro_batch=most, device=self.device
        )
        self._state = State(model, optimizer, self._kept, self.position, self._data)
        self._planned = Planned(model, optimizer, self.device)
        self._planned.failed = self._call_failed
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
        over = self.position.epoch >= count  # an earlier attempt did all of it
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
            self._saving.finish(self.position.applied)
            raise
        self._finish(save=not over)

    def _finish(self, *, save: bool) -> None:
        """After the last step, with a checkpoint: what follows may be stopped and started again."""
        assert self._planned is not None
        if save and self._planned.split:  # All write, so it comes while a loss is still seen.
            self._save(wait=False)
        if self.elastic is not None:
            self.elastic.finish(wait=True)
        if save and not self._planned.split:  # Now: the first rank may be another.
            self._save(wait=False)
        self._saving.finish(self.position.applied)
        self._moves.forget_carried()
        self.group.leave()

    def batches(self, data: Data) -> Iterator[Batch]:
        """The batches of the present epoch that are still to be done, this rank's share of each."""
        position, epoch = self.position, self.position.epoch
        while position.epoch == epoch and position.offset < data.steps:
            if self._boundary():
                continue
            stream = data.stream(epoch, position.offset, *self._replica())
            for batch in self._telling.loaded(stream):
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
        assert self._planned is not None
        if self._planned.split:
            try:
                with self._planned.passing(last=batch.share.last):
                    torch.autograd.backward(weighted * self._planned.scale())
            except RuntimeError as error:
                self._call_failed(error)
                raise
        else:
            self._gradients.begin(last=batch.share.last)
            (weighted if scaler is None else scaler.scale(weighted)).backward()
        if batch.share.last and self.size > 1:
            with self._telling.stages.stage("sync"):
                self._agree()
            self._compare()
        elif batch.share.last:
            self._agree()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Name a part of the step: `with run.stage("prepare"): ...`; the rest is `compute`."""
        return self._telling.stages.stage(name)

    def step(self, thing: Any) -> None:  # noqa: ANN401
        """Apply the step, at its last pass; or step a scheduler if a step was applied."""
        assert self._state is not None, "run.prepare comes first"
        if thing is not self._state.optimizer:
            if not any(thing is kept for kept in self._kept.values()):
                raise InvalidInputError(
                    f"run.step got a {type(thing).__name__} that would not move along with the "
                    "run; call run.keep(scheduler=...) with it before the loop"
                )
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
            self._telling.tell(self.position.applied, self._total(), loss)

    def _total(self) -> int:
        assert self._data is not None
        return self._epochs * self._data.steps

    # -- parts of a step ---------------------------------------------------------------------------

    def _begin(self, batch: Batch) -> None:
        self._telling.stages.enter("compute")
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
        assert self._planned is not None
        try:
            if self._planned.split:
                due = self._saving.due
                loss, stop, save = self._planned.agree(self._loss_sum, STOP.asked, due)
                self._save_agreed = bool(save.item())
            else:
                loss, stop = self._gradients.finish(self._loss_sum, STOP.asked)
        except BrokenGroupError as error:
            self._give_up(error)
            return
        self._signals = (loss, stop)

    def _compare(self) -> None:
        """A newcomer whose learning rate is another would make another model of it."""
        assert self._state is not None
        if not self._void and (what := self._agreement.broken([self._state.optimizer])):
            raise InvalidInputError(what)

    def _give_up(self, error: BrokenGroupError) -> None:
        """A collective of this step failed: without a coordinator that ends the run."""
        if self.elastic is None:
            self.group.abort()
            raise error
        self._void = True
        self.elastic.failed(error)

    def _call_failed(self, error: RuntimeError) -> None:
        """A split model was called: an error may be that of a collective inside."""
        if self.elastic is not None and self.group.is_failure(error):
            self.elastic.failed(BrokenGroupError(str(error)))

    def _replica(self) -> tuple[int, int]:
        """Whose samples this rank takes: ranks of one copy of the model take the same."""
        planned = self._planned
        if planned is None or planned.replicas is None:
            return self.rank, self.size
        return planned.replica, planned.replicas

    def _apply(self, optimizer: torch.optim.Optimizer) -> None:
        assert self._planned is not None
        scaler: Any = self._kept.get("scaler")
        if self._clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            try:
                self._planned.clip(self._clip_norm)
            except BrokenGroupError as error:
                self._give_up(error)
                return
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        self.position.applied += 1
        self.position.offset += 1
        self._stepped = True
        self._telling.stepped(self.position.applied, self._total(), self.rank)
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
        self._saving.tell(self.position.applied)
        self._moves.forget_carried(self.position.applied)
        if self._planned is not None and self._planned.split:
            due, self._save_agreed = self._save_agreed, False
        else:
            due = self._saving.due
        if due:
            self._save(wait=False)
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
        """Write a checkpoint and wait until it is on the disk."""
        self._save(wait=True)

    def _save(self, *, wait: bool) -> None:
        if self._state is None or self._planned is None:
            return
        try:
            self._saving.save(self._state, self._planned, self.device, wait=wait)
        except BrokenGroupError as error:  # All ranks of a split model take part.
            if self.elastic is None:
                raise
            self.elastic.failed(error)

    # -- members -----------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Become part of the group, with its state."""
        assert self._planned is not None, "run.prepare comes first"
        if self.elastic is not None:
            self.elastic.announce(self._plans())
            if self.elastic.joins:
                self._warm_up()
            self.elastic.enter()
            return
        size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
        self.group.meet(rank, size)
        plan = plan_of(os.environ.get("TREADLE_PLAN", ""))
        self.take_state(Move(plan, spread=size > 1, fresh=rank == 0, receives=rank != 0))
        self.regrouped()

    def _plans(self) -> tuple[str, ...]:
        """The plans that it can be trained under, and what a model of plans needs to know."""
        assert self._planned is not None
        assert self._data is not None
        # A gradient scaler looks at whole gradients.
        words = self._planned.can() if "scaler" not in self._kept else ("plan",)
        size = self._planned.size(self._data.batch_size, self._data.sequence())
        return (*words, size.word)

    def _parameters(self) -> Iterable[Tensor]:
        """Whose gradients are added up."""
        assert self._state is not None
        return self._state.model.parameters()

    def carry(self, version: int) -> str:
        """Save the state for members that have or will have parts of it."""
        assert self._state is not None
        assert self._planned is not None
        return self._moves.carry(version, self._state, self._planned)

    def take_state(self, move: Move) -> None:
        """Get or give the state in the new group, and take on its plan."""
        assert self._state is not None
        assert self._planned is not None
        assert self._data is not None
        if not move.plan.replicated and "scaler" in self._kept:
            raise InvalidInputError(
                f"the plan {move.plan.text!r} splits the model, and a gradient scaler needs whole "
                "gradients; choose a plan without zero, t and p, or train in bfloat16 without one"
            )
        self._gradients.close()
        self._moves.take(move, self._state, self._planned, self._data.seed)
        if self.elastic is not None:
            self.elastic.applied(self.position.applied)

    def regrouped(self) -> None:
        """The group is another: gradients go there from now on."""
        assert self._state is not None
        assert self._data is not None
        model, plan = self._state.model, self.plan
        self._save_agreed = False  # newcomers were not there when the others agreed on it
        for parameter in model.parameters():
            parameter.grad = None
        self._gradients = Gradients(self._parameters(), self.group)
        if self._planned is not None and not self._planned.split:
            self._gradients.rebuild()
        usual = -(-self._data.batch_size // self._asked()) if plan == DATA_PARALLEL else None
        self._data.micro_batch = self._micro_batch or usual or self._data.batch_size
        self._data.pieces = plan.accumulate if plan.pipeline == 1 else 1
        if self.elastic is not None:
            self._telling.regrouped(self.rank, self.size)

    def _asked(self) -> int:
        """The number of ranks that the job asked for."""
        return int(os.environ.get("TREADLE_ASKED") or os.environ.get("WORLD_SIZE") or 1)

    def _warm_up(self) -> None:
        """Do once what a step does; the state that comes from the others replaces the outcome.

        Not under a plan that splits the model: all of it may be too large for one device.
        """
        assert self._state is not None
        assert self._data is not None
        if not plan_of(os.environ.get("TREADLE_PLAN", "")).replicated:
            return
        model, optimizer = self._state.model, self._state.optimizer
        try:
            # As much as it will have: the batch of all ranks may be too large for one device.
            batch = next(self._data.stream(0, 0, 0, self._asked()))
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
