"""The member's side of a change: halt at a boundary, form the next group, take the state, go on."""

import os
import sys
from contextlib import suppress
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import NamedTuple, NoReturn, Protocol

from treadle.core.member_messages import (
    Arrived,
    Broken,
    Finished,
    Form,
    Halt,
    Hello,
    Leave,
    Ready,
    StopAsked,
    Switched,
)
from treadle.core.plan import Plan, plan_of
from treadle.train.channel import Channel
from treadle.train.group import BrokenGroupError, Group
from treadle.train.meeting import store_at
from treadle.train.orders import Next
from treadle.train.stop import STOP, STOPPED, exit_now

CAN = ("size", "devices")
PROBLEM_MAX = 500  # characters
MEETING_S_MAX = 60.0  # for the store to be there, before a group is formed


class Move(NamedTuple):
    """How the state comes into a new group."""

    plan: Plan
    source: int = 0  # the rank that has it, if no folder does
    spread: bool = True  # some rank needs it
    fresh: bool = False  # there is none but what a checkpoint holds; said to the source alone
    receives: bool = False  # this rank needs it
    carried: str = ""  # the folder that has it


class Trained(Protocol):
    """What the session does for a change."""

    def carry(self, version: int) -> str:
        """Save the state, with all others of the old group; the folder, if this rank knows it."""

    def take_state(self, move: Move) -> None:
        """Get or give the state in the new group, and take on its plan."""

    def regrouped(self) -> None: ...

    def save(self) -> None: ...


class Elastic:
    """One member of an attempt whose members change."""

    def __init__(self, trained: Trained, group: Group, timeout_s: float) -> None:
        self.joins = os.environ.get("TREADLE_JOINS") == "1"  # the others train already
        self.me = os.environ.get("TREADLE_MEMBER", "m0")
        self.broken = False
        self.version = 0
        self._trained = trained
        self._group = group
        self._channel = Channel(int(os.environ["TREADLE_CHANNEL"]), group.cut)
        self._orders = self._channel.orders
        self.in_parts = False  # this member has only a part of the state
        self._has_state = False
        self._told = False
        self._failure: BrokenGroupError | None = None
        STOP.at_once = lambda: self.version == 0
        self._timeout_s = timeout_s
        self._channel.say(Hello((), timeout_s, sys.executable))

    def announce(self, more: tuple[str, ...]) -> None:
        """What can change, now that the model is known."""
        self._channel.say(Hello((*CAN, *more), self._timeout_s))

    def enter(self) -> None:
        """Wait until this member belongs to a group."""
        if self.joins or int(os.environ.get("TREADLE_ASKED", "1")) > 1:
            # The others train until it is ready, so that they need not wait for the store.
            with suppress(RuntimeError):
                store_at(os.environ["TREADLE_MEETING"], timedelta(seconds=MEETING_S_MAX))
        self._channel.say(Ready())
        self._regroup(0, monotonic())

    def applied(self, steps: int) -> None:
        self._channel.set_applied(steps)

    def failed(self, error: BrokenGroupError) -> None:
        """A collective failed: the step does not count."""
        self.broken, self._failure = True, error
        self._channel.say(Broken(self.version, self._orders.applied))
        if self.in_parts:
            self._end_in_parts()

    def boundary(self) -> bool:
        """Between two steps; whether the group changed. Without an order it is three tests."""
        if not (self._orders.pending or self.broken or STOP.asked):
            return False
        if STOP.asked and not self._told:
            self._told = True
            self._channel.say(StopAsked())
        return self._obey(finished=False)

    def finish(self, *, wait: bool) -> None:
        """After the last step: all end together, so that none is missed by the others.

        wait: not if the script left its loop early. It may have failed, and Python does not say:
        then its process ends soon, and the others go on without it.
        """
        self._channel.say(Finished())
        if wait:
            self._obey(finished=True)

    def _obey(self, *, finished: bool) -> bool:
        began, changed = monotonic(), False
        decide = self._orders.at_boundary
        while True:
            match self._channel.wait(partial(decide, broken=self.broken, finished=finished)):
                case Leave() as order:
                    self._leave(order)
                case Halt() as order:
                    if self.broken or order.at_step is None:
                        self._halt_now()
                    self._regroup(order.version, began, halted=order)
                    changed = True
                case Next.WAIT if self.broken:
                    # The coordinator is gone as well: none can say who is left.
                    assert self._failure is not None
                    self._group.abort()
                    raise self._failure
                case _:
                    return changed

    def _regroup(self, version: int, began: float, *, halted: Halt | None = None) -> None:
        if halted is not None:
            self._arrive(halted)
        while True:
            order = self._channel.wait(partial(self._orders.before_group, version))
            match order:
                case Form():
                    try:
                        return self._form(order, began)
                    except BrokenGroupError as error:
                        self._group.abort()
                        self.broken, self._failure = True, error
                        self._channel.formed(order.version)
                        self._channel.say(Broken(order.version))
                        version = order.version
                case Halt():
                    version = order.version
                    self._halt_now()
                    self._arrive(order)
                case Leave():
                    self._leave(order)
                case Next.GO:  # The old group stands, and goes on.
                    return None
                case _:  # The coordinator is gone.
                    sys.stderr.write("the coordinator ended before this member could train\n")
                    exit_now(1)

    def _arrive(self, halt: Halt) -> None:
        step = self._orders.applied if self._has_state else None
        carried = problem = ""
        if halt.carry and not self.broken and self._has_state:
            try:
                carried = self._trained.carry(halt.version)
            except BrokenGroupError as error:
                self.failed(error)
            except OSError as error:
                problem = str(error) or type(error).__name__
        self._channel.say(Arrived(halt.version, step, carried, problem[:PROBLEM_MAX]))

    def _halt_now(self) -> None:
        """The group is broken. A member with a part of the state cannot go on from there."""
        self._group.abort()
        if self.in_parts:
            self._end_in_parts()

    def _end_in_parts(self) -> NoReturn:
        sys.stderr.write(
            f"a member was lost after step {self._orders.applied}, and with it a part of the "
            "state: this process ends, and the job goes on from what was saved last\n"
        )
        self._group.abort()
        exit_now(STOPPED)

    def _form(self, form: Form, began: float) -> None:
        self._group.leave()
        plan, receives = plan_of(form.plan), self.me in form.receivers
        move = Move(
            plan=plan,
            source=form.members.index(form.source),
            spread=bool(form.receivers) or not plan.replicated,
            fresh=not self._has_state and not receives,  # the first of all
            receives=receives,
            carried=form.carried,
        )
        self._has_state &= not receives and plan.replicated and not form.carried
        self.in_parts = not plan.replicated
        rank, size = form.members.index(self.me), len(form.members)
        self._group.join(form.rendezvous, rank, size, version=form.version)
        self._trained.take_state(move)
        self._has_state = True
        self._trained.regrouped()
        self.version, self.broken, self._failure = form.version, False, None
        self._channel.formed(form.version)
        self._channel.say(Switched(form.version, self._orders.applied, monotonic() - began))

    def _leave(self, order: Leave) -> NoReturn:
        if order.save or (order.stop and self.in_parts):
            self._trained.save()
        self._group.abort()
        exit_now(STOPPED if order.stop else 0)
