"""The run of a script that knows nothing of it: which batches it gets in each of its passes.

A pass is one iteration of the script over a DataLoader with which it trains. The position of the
run is the number of passes that the script has begun, and the batches of the present one that are
applied. A newcomer's passes before that position have one small batch each, whose steps are not
applied: so the script's own loop counts on to the right epoch, and its variables exist. It catches
up before it says that it is ready, while the others train.

What it does with a batch is in script_steps.py, and what moves along in script_state.py.
"""

import sys
from collections.abc import Iterator
from threading import Timer
from typing import Any

from torch.utils.data import DataLoader

from treadle.train.auto.epochs import loops_around
from treadle.train.auto.files import Files
from treadle.train.auto.loading import Batches, Order, draw, peek, stream, whole
from treadle.train.auto.made import Made
from treadle.train.auto.script_steps import ScriptSteps
from treadle.train.auto.support import refuse, say
from treadle.train.group import BrokenGroupError
from treadle.train.random_numbers import set_random_state
from treadle.train.state import receive, send
from treadle.train.stop import exit_now

END_S = 5.0  # for all scripts to end, once one of them has


class ScriptRun(ScriptSteps):
    """One process of the run."""

    def __init__(self, made: Made, files: Files, *, timeout_s: float, folder: str = "") -> None:
        """folder: of the script."""
        super().__init__(made, files, timeout_s=timeout_s)
        self._folder = folder
        self._agreed = (-1, -1)  # pass and group in which all took one order

    def batches_of(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """One pass of the script: this rank's share of each batch that is still to be done."""
        if self.loader is not None:
            refuse(
                "the script takes batches of two DataLoaders at the same time; only one of them "
                "can be shared out"
            )
        if self._collect(loader):
            self._stepped_by = {}
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
                self._agree_on_order(loader, number, drawn)
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

    def _agree_on_order(self, loader: DataLoader[Any], number: int, drawn: Batches) -> None:
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
                order.begin(number, drawn, loader)
            if agreed == self._agreed or self.size == 1 or self._together(order):
                self._agreed = agreed
                break
        if self.position.epoch == number and (what := order.difference(loader)):
            refuse(what)
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

    def whole(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """All batches, on every rank, of a loader with which the script does not train."""
        if self.catching_up:
            return iter([peek(loader)])
        with self.order.drawing():
            return whole(loader)

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
