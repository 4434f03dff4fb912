"""The state of the membership machine (membership.py), and the small steps that all parts use."""

from collections.abc import Iterable
from functools import cache

from treadle.core.member_facts import (
    TERM_BITS,
    Changed,
    Dismiss,
    Ended,
    Launch,
    Limits,
    Output,
    Phase,
    Place,
    Refused,
    Send,
    TakeOver,
    Target,
)
from treadle.core.member_messages import Member, Order, member_name
from treadle.core.member_switch import Row, Rows, Switch
from treadle.core.plan import plan_of


@cache
def is_split(plan: str) -> bool:
    """Whether a member has only a part of the state under that plan."""
    return not plan_of(plan).replicated


class MemberState:
    """What the machine keeps between two facts."""

    def __init__(self, rendezvous: str, limits: Limits = Limits()) -> None:  # noqa: B008
        self.phase = Phase.STARTING
        self.group: tuple[Member, ...] = ()  # those that train together, in rank order
        self.version = 0  # of the newest group, which is perhaps being formed
        self._group_version = 0
        self.order = 0  # the newest target's number
        self._limits = limits
        self._rendezvous = rendezvous
        self._rows = Rows()
        self._wanted: list[Member] = []
        self._plan = self._group_plan = ""
        self._reported = True  # the newest target was reached or refused, and reported
        self._switch: Switch | None = None
        self._queued: Target | None = None
        self._stop_asked = False
        self._finished = False
        self._started = False  # a group has trained: somewhere there is state to keep
        self._step = 0  # of the last switch
        self._failures = 0
        self._target_now: Target | None = None
        self._restarts = 0
        self._restarting = False  # all members end, to start again
        self._carried = ""  # where the state is that a restart begins from
        self._count = self._term = 0
        self._out: list[Output] = []

    def is_done(self, member: Member) -> bool:
        """Whether it knows that its training is over: what it does now is the script's own."""
        row = self._rows.get(member)
        return row is not None and row.finished and row.leaving

    def joins(self, member: Member) -> bool:
        """Whether it has not trained, and others do."""
        forming = self._switch is not None and self._switch.stage == "forming"
        taken = self._switch.group if self._switch is not None and forming else ()
        return bool(self.group) and member not in self.group and member not in taken

    def trains(self, member: Member) -> bool:
        """Whether it does steps with the others, also if some have not yet said so of theirs."""
        return member in self.group or (
            self._switch is not None and member in self._switch.switched
        )

    @property
    def is_over(self) -> bool:
        """Whether the training came to its end, and members end by themselves.

        It stays so while those that wait for the end form a group without one that was lost.
        """
        recovers = self._switch is not None and self._switch.why == "loss"
        return self._finished and (recovers or self.phase in (Phase.DRAINING, Phase.ENDED))

    @property
    def is_training(self) -> bool:
        """Whether a member of the group has steps left to do."""
        rows = (self._rows[member] for member in self.group if self._rows.has(member))
        return any(not row.finished for row in rows)

    @property
    def due(self) -> float | None:
        """The next moment at which it needs a `Tick`."""
        moments = [row.until for row in self._rows.values()]
        moments += [self._switch.until] if self._switch else []
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def members(self) -> dict[Member, Place]:
        return {member: row.place for member, row in self._rows.items()}

    def _settle(self) -> None:
        """The group is what it should be."""
        self.phase = Phase.RUNNING
        if not self._reported:
            self._reported = True
            self._out.append(
                Changed(
                    self.order, self.version, self.group, self._step, 0.0, plan=self._group_plan
                )
            )

    def _give_up(self, why: str, now: float, newcomer: Member = "") -> None:
        """Stay with the present group."""
        for member in list(self._rows):
            if member not in self.group and not self._rows[member].leaving:
                self._dismiss(member, "the change was given up", now)
        self._wanted = [member for member in self.group if member in self._rows]
        self._plan = self._group_plan
        places = tuple(self._rows[member].place for member in self._wanted)
        self._target_now = Target(self.order, places, self._plan)
        if not self._reported:
            self._reported = True
            self._out.append(Refused(self.order, why, newcomer))

    def _keep_leavers(self, switch: Switch | None) -> None:
        for member in switch.leavers if switch else ():
            if member in self._rows:
                self._rows[member].leaving = False

    def _fail(self, why: str, now: float) -> None:
        for member in list(self._rows):
            self._dismiss(member, why, now)
        self.phase = Phase.DRAINING
        if not self._rows:
            self._end(why)

    def _end(self, why: str) -> None:
        self.phase = Phase.ENDED
        self.group = ()
        self._switch = None
        self._out.append(Ended(self._finished, why))

    # -- small things ------------------------------------------------------------------------------

    def _inherit(self, given: TakeOver, now: float) -> None:
        """Know the members of the coordinator before."""
        for member, place in given.places.items():
            late = None if member in given.group else now + self._limits.ready_s
            self._rows[member] = Row(place, until=late)
        self._term, self.version = given.term, given.term << TERM_BITS
        self.group, self._started = given.group, bool(given.group)
        self._wanted, self._plan, self._group_plan = [*given.group], given.plan, given.plan

    def _launch(self, place: Place, now: float) -> None:
        member = member_name(self._count, self._term)
        self._count += 1
        self._rows[member] = Row(place, until=now + self._limits.ready_s if self.group else None)
        self._wanted.append(member)
        self._out.append(Launch(member, place, joins=bool(self.group)))

    def _newcomers(self) -> list[Member]:
        """Members that no group has, and no switch in flight wants."""
        taken = [*self.group, *(self._switch.group if self._switch else ())]
        return [each for each in self._rows if self._rows.has(each) and each not in taken]

    def _dismiss(self, member: Member, why: str, now: float, *, at_once: bool = False) -> None:
        row = self._rows[member]
        row.leaving, row.until = True, now + self._limits.leave_s
        self._out.append(Dismiss(member, why, at_once))

    def _tell(self, members: Iterable[Member], order: Order) -> None:
        self._out += [Send(member, order) for member in members if member in self._rows]
