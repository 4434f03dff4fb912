"""The orders about one job and what its parts say, as a state machine without any I/O.

    an attempt runs and can carry out    -> pass the order on to its agents, those of new nodes once
      the order while it runs               these are ready; if it is refused, the attempt goes on
                                            as it was, or is stopped for the order
    an attempt runs and an order came    -> stop all its parts, wait for the end
    nothing runs                         -> begin the newest order to launch, if there is one

A newer order replaces an older one. Each method answers with what has to be done, in order.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Pause
from treadle.core.attempt import NOT_LAUNCHED_CODE, How
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, Event, JobStarted, TrainingEnded
from treadle.core.job import JobId
from treadle.core.launch import Launch
from treadle.core.live_plans import may_change
from treadle.engines.agent.messages import Refused, Wanted
from treadle.engines.fleet.gang import Gang, Seat, Word

Launching = Start | Change


@dataclass(frozen=True, slots=True)
class Tell:
    """Report a fact to the controller."""

    fact: Event


@dataclass(frozen=True, slots=True)
class Send:
    """Tell the agent of a node what is wanted of an attempt."""

    node: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Begin:
    """Launch the job for this order; then `launched` or `not_launched`."""

    order: Launching


Effect = Tell | Send | Begin
Ask = Callable[[Launching], Launch]  # how to launch the job for that order


class Course:
    """One job."""

    def __init__(self, job: JobId) -> None:
        self.job = job
        self.newest = -1  # id of the newest order
        self.gang: Gang | None = None
        self.beginning: Launching | None = None  # an order that is being launched
        # What ran of the jobs of the newest order's `after` when it came.
        self.behind: tuple[Gang, ...] = ()
        self._stop: int | None = None  # id of a stop that has no answer yet
        self._next: Launching | None = None  # to be launched when nothing runs any more

    @property
    def busy(self) -> bool:
        """Whether an attempt runs or an order has no answer yet."""
        return self.gang is not None or self.beginning is not None

    @property
    def owes(self) -> bool:
        """Whether an order to launch it was not carried out yet."""
        return self.beginning is not None or self._next is not None

    # -- orders ---------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether another attempt must be over before the newest order is carried out.

        One that changes while it runs releases some devices: their agent knows which.
        """
        gone = [gang for gang in self.behind if gang.over or gang.changes or gang.left]
        self.behind = tuple(gang for gang in self.behind if gang not in gone)
        return bool(self.behind) or (self.gang is not None and self.gang.leaves)

    def order(self, action: Action, ask: Ask, behind: tuple[Gang, ...] = ()) -> list[Effect]:
        """Take an order. behind: what runs of the jobs of its `after`."""
        self.newest = max(self.newest, action.id)
        if isinstance(action, Stop):
            return self._order_stop(action)
        self.behind = behind
        gang, self.beginning = self.gang, None
        if gang is None and action.allocation.paused:  # Nothing runs that could be paused.
            return [Tell(AttemptEnded(self.job, action.id, 0, How.STOPPED))]
        if gang is None:
            self.beginning = action
            return [Begin(action)]
        if self._can_change(gang, action):
            if {*gang.nodes, *action.allocation.nodes()} != {*gang.nodes[:1]}:
                self._next, self.beginning = None, action
                return [Begin(action)]
            # If it cannot be said how, it ends for the order, and its launch says why not.
            with suppress(EngineError):
                seat = Seat(action.allocation, ask(action), action.id)
                return self.changing(action, gang, {gang.nodes[0]: seat})
        self._next = action
        return [] if gang.training_over else self._stop_gang(gang, action.id)

    def _order_stop(self, action: Stop) -> list[Effect]:
        self._next = self.beginning = None
        self.behind = ()
        if self.gang is None:
            return [Tell(AttemptEnded(self.job, action.id, 0, How.STOPPED))]
        self._stop = action.id
        return self._stop_gang(self.gang, action.id)

    def _can_change(self, gang: Gang, order: Launching) -> bool:
        """Whether the attempt itself may carry out the order."""
        held = gang.ordered
        if gang.lead is None or held is None or gang.stopping:
            return False
        if not isinstance(order, Change) or self._stop is not None:
            return False
        nodes = order.allocation.nodes()
        if gang.lost and not (gang.survives and {*gang.lost}.isdisjoint(nodes)):
            return False
        if gang.lost and not gang.coordinator(nodes):
            return False
        pauses = "paused" in held.differences(order.allocation)
        if not (gang.changes or pauses) or (pauses and gang.alone is None):
            return False
        return may_change(held, order.allocation, gang.changes, tuple(Pause), gang.lost)

    def _stop_gang(self, gang: Gang, order: int) -> list[Effect]:
        return self._sent(gang, gang.stop(order))

    def _sent(self, gang: Gang, nodes: Iterable[str]) -> list[Effect]:
        found = ((node, gang.wanted(node)) for node in nodes)
        return [Send(node, wanted) for node, wanted in found if wanted is not None]

    def changing(self, order: Launching, gang: Gang, seats: Mapping[str, Seat]) -> list[Effect]:
        """The attempt is given the order, with these parts."""
        self._next = self.beginning = None
        leavers = gang.change(order.id, seats)
        return self._sent(gang, (*leavers, *seats))

    # -- launches -------------------------------------------------------------------------------

    def launched(self, order: Launching, gang: Gang) -> list[Effect]:
        """The parts are ready to be sent; nothing happens if the order was superseded."""
        if self.beginning is not order:
            return []
        self.beginning, self.gang = None, gang
        return self._sent(gang, gang.nodes)

    def not_launched(
        self,
        order: Launching,
        how: How,
        error: str = "",
        only_on: tuple[str, ...] = (),
        only_because: str = "",
    ) -> list[Effect]:
        """Nothing was launched; nothing happens if the order was superseded."""
        if self.beginning is not order:
            return []
        self.beginning = None
        if (gang := self.gang) is not None:
            why = error or "a node of it is not there now"
            refused = Refused(self.job, order.id, gang.attempt.number, gang.changes, why)
            launch = None if gang.lead is None else gang.lead.launch
            started = gang.keep(refused, gang.held, order.allocation, launch)
            return self._kept(gang, refused, started, order)
        code = NOT_LAUNCHED_CODE if how is How.ENGINE_ERROR else None
        ended = AttemptEnded(self.job, order.id, 0, how, code, error=error)
        ended = replace(ended, only_on=only_on, only_because=only_because)
        return [Tell(ended)]

    # -- facts ----------------------------------------------------------------------------------

    def hear(self, node: str, fact: Word) -> list[Effect]:
        gang = self.gang
        if gang is None:
            return []
        heard = gang.hear(node, fact)
        effects: list[Effect] = [Tell(self._timely(told)) for told in heard.told]
        return effects + self._sent(gang, heard.stop) + self._after(gang)

    def hear_refused(self, node: str, refused: Refused) -> list[Effect]:
        """The attempt could not change while it runs."""
        gang = self.gang
        wanted = None if gang is None or gang.stopping else gang.wanted(node)
        if gang is None or wanted is None or wanted.allocation is None:
            return []
        if (wanted.attempt.number, wanted.action) != (refused.attempt, refused.action):
            return []
        if gang.seats[node] is not gang.lead or (after := gang.ordered) is None:
            return []
        order = Change(refused.action, self.job, after)
        effects = self._kept(gang, refused, gang.refuse(refused), order)
        return effects + self._sent(gang, gang.dismissed())

    def _kept(
        self, gang: Gang, refused: Refused, started: JobStarted | None, order: Launching
    ) -> list[Effect]:
        """It goes on as it was, or ends to be launched by that order."""
        if started is not None and not gang.training_over:
            return [Tell(started)]
        self._next = order
        # One whose training is over would lose it all if it were stopped and launched again.
        return [] if gang.training_over else self._stop_gang(gang, refused.action)

    def lose(self, node: str, machine: str = "") -> list[Effect]:
        """A node is lost; what ran there is over once that is proven.

        machine: that had the name of the node; empty: not known.
        """
        if self.gang is None:
            return []
        stops = self.gang.lose(node, machine)
        return self._sent(self.gang, stops) + self._after(self.gang)

    def fence(self, node: str) -> list[Effect]:
        """What was lost there is proven to be over."""
        if self.gang is None:
            return []
        self.gang.fence(node)
        return self._after(self.gang)

    def adopt(self, gang: Gang, *, stop: int | None = None, owed: Launching | None = None) -> None:
        """Take over an attempt of an earlier controller."""
        self.gang, self._stop, self._next = gang, stop, owed

    def _timely(self, fact: Event) -> Event:
        """A word about training concerns the newest order; others answer the order they name."""
        return replace(fact, action=self.newest) if isinstance(fact, TrainingEnded) else fact

    def _after(self, gang: Gang) -> list[Effect]:
        """What follows once the attempt is over."""
        if not gang.over:
            return []
        self.gang = self.beginning = None
        if self._next is not None and self._next.allocation.paused:
            self._stop, self._next = self._next.id, None  # It cannot be launched paused.
        ended = gang.end()
        effects: list[Effect] = []
        if ended.how is not How.STOPPED:
            # It ended by itself, which answers all orders that came meanwhile.
            self._stop = self._next = None
            return [Tell(replace(ended, action=self.newest))]
        if self._stop is not None:
            effects = [Tell(replace(ended, action=self._stop))]
        elif self._next is None and not gang.stray:
            # It was stopped from outside, or a device is closed.
            effects = [Tell(replace(ended, action=self.newest))]
        elif ended.attempt:
            effects = [Tell(replace(ended, how=How.REPLACED, action=self.newest))]
        self._stop = None
        if self._next is not None:
            self.beginning, self._next = self._next, None
            effects.append(Begin(self.beginning))
        return effects
