"""What a member was ordered to do, and what follows from it at a boundary between two steps.

It only decides: it neither waits nor sends, so that the protocol can be tested with both of its
sides in one process. `channel.py` adds the thread that listens and the waiting.
"""

from enum import Enum

from treadle.core.member_messages import (
    At,
    Cancelled,
    Done,
    Form,
    Halt,
    Leave,
    Order,
    Prepare,
)


class Next(Enum):
    """What to do at a boundary, if no order says more."""

    GO = "train on"
    WAIT = "wait for an order"
    END = "the training is over"


class Orders:
    """The orders of one member; its main thread and its listener share it under a lock."""

    def __init__(self) -> None:
        self.applied = 0  # optimizer steps
        self.pending = False  # an order is there: without one, a boundary is one test
        self._seen = 0  # the newest version that an order was about
        self._hold: int | None = None  # begin no step after this one
        self._halt: Halt | None = None
        self._leave: Leave | None = None
        self._form: Form | None = None
        self._done = False
        self._cancelled = 0  # the newest version that will not be

    def hear(self, order: Order) -> At | None:
        """Take an order; the answer, if it wants one at once. Old versions are ignored."""
        if not isinstance(order, Done) and order.version < self._seen:
            return None
        self.pending = True
        match order:
            case Prepare():
                self._forget()
                self._seen, self._hold = order.version, self.applied + 1
                return At(order.version, self.applied)
            case Halt():
                self._forget()
                self._seen, self._halt = order.version, order
            case Leave():
                self._seen, self._leave = order.version, order
            case Form():
                self._seen, self._form = order.version, order
            case Cancelled():
                self._forget()
                self._cancelled = order.version
            case Done():
                self._done = True
        return None

    def at_boundary(self, *, broken: bool, finished: bool = False) -> Next | Halt | Leave:
        """What to do between two steps.

        broken: the group's last collective failed. finished: no step follows, so that orders for a
        step to come do not count any more.
        """
        leave = self._leave
        # In a broken group even a member that is to leave may be the last one with the state.
        if leave and self._counts(leave.at_step, broken=False, ends=finished):
            return leave
        if self._halt and self._counts(self._halt.at_step, broken=broken, ends=finished):
            return self._halt
        if broken:
            return Next.WAIT
        if finished:
            return Next.END if self._done else Next.WAIT
        if self._halt or leave:
            return Next.GO
        if self._hold is not None and self.applied >= self._hold:
            return Next.WAIT
        self.pending = False
        return Next.GO

    def before_group(self, version: int) -> Next | Halt | Leave | Form:
        """What to do after `Arrived` of this version, or as a newcomer (version 0).

        GO: the change was cancelled, and the old group trains on.
        """
        if version and self._cancelled == version:
            return Next.GO  # Newer orders are for the boundary where it stands.
        if self._leave and self._leave.version >= version:
            return self._leave
        if self._halt and self._halt.version > version:
            return self._halt
        if self._form and self._form.version >= version:
            return self._form
        return Next.WAIT

    def formed(self, version: int) -> None:
        """The group of this version stands: what led to it is done."""
        if self._seen == version:
            self._forget()

    def _counts(self, at_step: int | None, *, broken: bool, ends: bool) -> bool:
        if at_step is None:
            return True
        return not ends and (broken or self.applied >= at_step)

    def _forget(self) -> None:
        self._hold = self._halt = self._leave = self._form = None
