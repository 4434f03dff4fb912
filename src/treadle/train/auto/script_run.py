"""The run of a script that knows nothing of it: passes over a loader, backward, steps, members.

A pass is one iteration of the script over a DataLoader with which it trains. The position of the
run is the number of passes that the script has begun, and the batches of the present one that are
applied. A newcomer runs the script from its top. Its passes before that position have one small
batch each, whose steps are not applied: so the script's own loop counts on to the right epoch, and
its variables exist. It catches up before it says that it is ready, while the others train.

Between two batches is a boundary, unless gradients wait for a later step: then the next batch
belongs to the same step. A step that was abandoned, since a member was lost, is done again from
the first batch after the last step.
"""

import io
import sys
from collections.abc import Iterator
from threading import Timer
from typing import Any, TextIO

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from treadle.report import report
from treadle.train.agreement import Agreement
from treadle.train.auto.epochs import Total, loops_around
from treadle.train.auto.files import Files
from treadle.train.auto.loading import Batches, Order, draw, peek, stream, whole
from treadle.train.auto.made import Made
from treadle.train.auto.notes import Notes
from treadle.train.auto.support import refuse, say
from treadle.train.data import Data
from treadle.train.elastic import Move
from treadle.train.gradients import Gradients
from treadle.train.group import BrokenGroupError
from treadle.train.planned import Planned
from treadle.train.random_numbers import random_state, set_random_state
from treadle.train.session import Run
from treadle.train.state import State, receive, send
from treadle.train.stop import exit_now

END_S = 5.0  # for all scripts to end, once one of them has


class ScriptRun(Run):
    """One process of the run."""

    def __init__(self, made: Made, files: Files, *, timeout_s: float, folder: str = "") -> None:
        """folder: of the script."""
        super().__init__(timeout_s=timeout_s)
        self._telling.stages.leave_turns()  # What it does between two batches is not known.
        self._folder = folder
        self._whole = Total()
        self._told = 0  # the last step that was counted
        self._agreement = Agreement(
            self, "use a scheduler of torch, enumerate(loader) or the epoch"
        )
        self.made, self.files = made, files
        self.order = Order()
        self.catching_up = False  # the script passes what is already done
        self.index = 0  # of the batch that the script has
        self.loader: DataLoader[Any] | None = None  # of the pass that is under way
        self.warming = False
        self._notes = Notes(self.elastic.me) if self.elastic else None
        self._count = -1  # what was made when the state was put together
        self._passes = 0
        self._entered = False
        self._weight = 1.0
        self._inside = False  # of a backward pass: checkpointing calls it again
        self._backwards = 0
        self._pending = False  # gradients wait for a step
        self._skips = 0  # steps of this batch that are already applied
        self._stepped_by: dict[int, int] = {}  # optimizer -> backward passes before its last step
        self._stepped_now: dict[int, int] = {}  # optimizer -> steps since the last boundary
        self._hidden: list[tuple[Tensor, Tensor]] = []
        self._stdout: TextIO | None = None
        self._random: dict[str, Any] | None = None  # as the state had it, until it is used
        self._regroups = 0
        self._agreed = (-1, -1)  # pass and group in which all took one order

    # -- passes ------------------------------------------------------------------------------------

    def batches_of(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """One pass of the script: this rank's share of each batch that is still to be done."""
        if self.loader is not None:
            refuse(
                "the script takes batches of two DataLoaders at the same time; only one of them "
                "can be shared out"
            )
        self._collect(loader)
        number, self._passes = self._passes, self._passes + 1
        if not self._entered and number >= self._ahead():
            self._entered = True
            self._enter()
        drawn = self._draw(loader, number)
        loops = loops_around(sys._getframe(1), self._folder)
        if not self._entered or number < self.position.epoch:
            self._catch_up(True)
            self.loader = loader
            try:
                yield peek(loader, drawn)
            finally:
                self.loader = None
            return
        if number > self.position.epoch:  # The others went back, and a script cannot.
            say(f"this member is at pass {number} and the others at {self.position.epoch}")
            exit_now(1)
        self._whole.begin_pass(loops, self.position.applied, self.position.offset)
        yield from self._pass(loader, number, drawn)

    def _pass(self, loader: DataLoader[Any], number: int, drawn: Batches) -> Iterator[Any]:
        position, order = self.position, self.order
        self._catch_up(False)
        self.loader = loader
        given = False
        try:
            while position.epoch == number:
                self._agree_on_order(number, drawn)
                if position.epoch != number or position.offset >= len(order.batches):
                    break
                first = position.offset
                shared = stream(loader, order.batches, first, rank=self.rank, size=self.size)
                for index, share, content in self._telling.loaded(shared):
                    self.index, self._weight, given = index, share.weight, True
                    self._telling.stages.enter("compute")
                    yield content
                    self._account(self.index + 1)
                    if self._void or self._may_change():
                        break
                else:
                    break  # Gradients of the last batches may wait for the next epoch.
            if not given:  # It joined after the last batch: the body of its loop has to run once.
                self._catch_up(True)
                yield peek(loader, drawn)
                self._catch_up(False)
        finally:
            # Also if the script left its loop early.
            self.loader = None
            self._telling.stages.enter(None)
            if position.epoch == number:
                position.epoch, position.offset, order.partial = number + 1, 0, 0
            else:
                self._catch_up(True)  # What follows an epoch has been done elsewhere.
        self._share_buffers()

    def _draw(self, loader: DataLoader[Any], number: int) -> Batches:
        """The order of a pass, by the random numbers that an undisturbed run would draw from."""
        if not self._entered or number != self.position.epoch:
            return draw(loader)
        came = self._random  # None: the state is this process's own
        known = self.order.number == number  # It was drawn before that state was read.
        if came is not None:
            set_random_state(came, self.device)
        with self.order.drawing(counts=not known):
            drawn = draw(loader)
        if came is not None and known:
            set_random_state(came, self.device)
        self._random = None
        return drawn

    def _agree_on_order(self, number: int, drawn: Batches) -> None:
        """At a boundary. All ranks take the order of rank 0, once in each group.

        Once a step of the pass is applied, the order is known to all, or comes with the state.
        """
        order = self.order
        while True:
            self._may_change()
            self._random = None
            agreed = (number, self._regroups)
            if self.position.epoch != number or self.position.offset or order.partial:
                break
            if order.number != number:
                order.number, order.batches = number, drawn
            if agreed == self._agreed or self.size == 1 or self._together(order):
                self._agreed = agreed
                break
        if self.rank == 0 and self.position.epoch == number and self._notes:
            self._notes.write_pass(number)

    def _together(self, order: Order) -> bool:
        """Whether the order of rank 0 reached all."""
        try:
            if self.rank == 0:
                send(order.state_dict(), self.group)
            else:
                order.load_state_dict(receive(self.group, 0, keep=True))
        except BrokenGroupError as error:
            self._failed(error)
            return False
        return True

    def _share_buffers(self) -> None:
        """Running statistics are those of rank 0 from here on, as DDP has it."""
        assert self._state is not None
        buffers = [each for each in self._state.model.buffers() if each.numel()]
        if self.size == 1 or not buffers or self._void or self.catching_up:
            return
        try:
            if self.rank == 0:
                send({"buffers": buffers}, self.group)
            else:
                found = receive(self.group, 0, keep=True)["buffers"]
                for ours, theirs in zip(buffers, found, strict=True):
                    ours.copy_(theirs)
        except BrokenGroupError as error:
            self._failed(error)

    def _failed(self, error: BrokenGroupError) -> None:
        if self.elastic is None:
            raise error
        self.elastic.failed(error)

    def whole(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """All batches, on every rank, of a loader with which the script does not train."""
        if self.catching_up:
            return iter([peek(loader)])
        with self.order.drawing():
            return whole(loader)

    # -- steps -------------------------------------------------------------------------------------

    def weighted_backward(self, original: Any, tensors: Any, grads: Any, **options: Any) -> None:  # noqa: ANN401
        """`torch.autograd.backward` with the gradients added up over all ranks."""
        local = self.size == 1 or self.catching_up or self._void
        if self._inside or local or self.loader is None:
            if self.loader is not None and not self._inside:
                self._went(tensors)
            original(tensors, grads, **options)
            return
        sequence = list(tensors) if isinstance(tensors, tuple | list) else [tensors]
        given = list(grads) if isinstance(grads, tuple | list) else [grads] * len(sequence)
        weights = [
            torch.full_like(each, self._weight) if grad is None else grad * self._weight
            for each, grad in zip(sequence, given, strict=True)
        ]
        assert self._state is not None
        for parameter in self.made.parameters():
            if parameter.grad is not None:
                # It is the same on all ranks already, and is added up with the new part.
                parameter.grad.div_(self.size)
        self._went(sequence[0])
        self._gradients.begin(last=True)
        self._inside = True
        try:
            original(sequence, weights, **options)
        finally:
            self._inside = False
        with self._telling.stages.stage("sync"):
            self._agree()
        if not self._void and (what := self._agreement.broken(self.made.optimizers)):
            refuse(what)

    def _went(self, tensors: Any) -> None:  # noqa: ANN401
        self._backwards += 1
        self._pending = True
        loss = tensors[0] if isinstance(tensors, tuple | list) else tensors
        self._loss_sum = loss.detach().float().mean() * self._weight

    def before_step(self, optimizer: Optimizer) -> None:
        """Let a step that must not be applied find no gradients."""
        counts = self.size > 1 and not (self.catching_up or self._void)
        if counts and self._stepped_by.get(id(optimizer)) == self._backwards:
            refuse(
                f"{type(optimizer).__name__}.step() came without backward() before it; gradients "
                "that the script computes in another way cannot be added up"
            )
        if self._skips:
            self._skips -= 1
        elif self.warming or (self.loader and not (self.catching_up or self._void)):
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._hidden.append((parameter, parameter.grad))
                    parameter.grad = None
        self._hidden.append((torch.empty(0), torch.empty(0)))  # so that it is not empty

    def after_step(self, optimizer: Optimizer) -> None:
        hidden, self._hidden = self._hidden, []
        for parameter, grad in hidden[:-1]:
            parameter.grad = grad
        self._stepped_by[id(optimizer)] = self._backwards
        if hidden and (self.catching_up or self._void):
            return
        self._pending = False
        self._stepped_now[id(optimizer)] = self._stepped_now.get(id(optimizer), 0) + 1
        if not hidden and not self.warming:
            self.order.partial += 1
            self.position.applied += 1
            if self.elastic is not None:
                self.elastic.applied(self.position.applied)

    @property
    def outside(self) -> bool:
        """Whether a step would belong to no batch."""
        return self.loader is None and not (self.catching_up or self.warming)

    @property
    def void(self) -> bool:
        """Whether nothing of this batch counts."""
        return self.catching_up or self._void

    @property
    def suppressed(self) -> bool:
        """Whether steps of schedulers must not count now."""
        return self.void or bool(self._skips)

    def _account(self, following: int) -> None:
        """The script asks for the next batch: where to go on if the group changes here."""
        if self._void or self._pending:
            return
        if len(set(self._stepped_now.values())) > 1 or len(self._stepped_now) not in (
            0,
            len(self._stepped_by),
        ):
            refuse(
                "the script has several optimizers that do not step equally often; "
                "only those that all step for each batch can be moved in one piece"
            )
        self._stepped_now = {}
        self.position.offset, self.order.partial = following, 0
        applied, whole = self.position.applied, self._whole
        whole.account(applied, following, len(self.order.batches))
        if applied > self._told:
            self._telling.stepped(applied, whole.steps, self.rank)
        self._told = applied
        if self.rank == 0:
            report(applied, whole.steps, loss=self._loss_sum)

    # -- boundaries and members --------------------------------------------------------------------

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

    def _may_change(self) -> bool:
        """At a boundary: whether the group changed. While gradients wait there is none."""
        broken = self._void or (self.elastic is not None and self.elastic.broken)
        if self._pending and not broken:
            return False
        if broken and self._notes and self._notes.older_has_ended(self.position.applied):
            say("an older member's script has ended, and this one counts otherwise: ended")
            exit_now(0)
        changed = self._boundary()
        if changed:
            self._void = self._pending = False
            self._stepped_now = {}
            self._skips = self.order.partial
        return changed

    def _collect(self, loader: DataLoader[Any]) -> None:
        """Put together what moves along; again when the script has made more."""
        made = self.made
        for number, scheduler in made.schedulers.items():
            self.keep(**{f"scheduler{number}": scheduler})
        for number, scaler in made.scalers.items():
            self.keep(**{f"scaler{number}": scaler})
        if made.count != self._count:
            self._count = made.count
            optimizers = made.optimizers.items()
            self.keep(order=self.order, files=self.files)
            for number, optimizer in optimizers[1:]:
                self.keep(**{f"optimizer{number}": optimizer})
            root, first = made.roots(), optimizers[0][1]
            self._state = State(root, first, self._kept, self.position)
            why = "the script's own steps need whole gradients"
            self._planned = Planned(root, first, self.device, whole=why)
            self._stepped_by = {}
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

    def _plans(self) -> tuple[str, ...]:
        """None: the model stays whole."""
        return ()

    def _parameters(self) -> list[Tensor]:
        return [each for each in self.made.parameters() if each.requires_grad]

    def _warm_up(self) -> None:
        """What a newcomer does once before it joins, if no earlier epoch has done it."""
        assert self._state is not None
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

    def _ahead(self) -> int:
        """How many passes a newcomer may catch up with before it says that it is ready."""
        return self._notes.passes() if self._notes and self.elastic and self.elastic.joins else 0

    def _catch_up(self, begins: bool) -> None:
        """While it catches up, the script prints nothing: its numbers mean nothing."""
        if self.catching_up and not begins:
            # Of batches that do not count, on this rank alone.
            for parameter in self.made.parameters():
                parameter.grad = None
            self._pending, self._stepped_now = False, {}
        self.catching_up = begins
        if begins and self._stdout is None:
            sys.stdout.flush()
            self._stdout, sys.stdout = sys.stdout, _Nowhere()
        elif not begins and self._stdout is not None:
            sys.stdout, self._stdout = self._stdout, None

    def end(self, *, well: bool) -> None:
        """The script has ended."""
        self._catch_up(False)
        if not well:
            self.group.abort()
            return
        if self.elastic is not None and self._notes is not None:
            self._notes.write_end(self.position.applied)
            # A member that goes on by a count of its own waits for us in a step that never comes.
            timer = Timer(END_S, self.group.cut)
            timer.daemon = True
            timer.start()
            self.elastic.finish(wait=True)
            timer.cancel()
        self._saving.finish(self.position.applied)
        self.group.leave()


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)
