"""Who trains together: the versioned state machine of an attempt whose members change.

Facts in, orders out; it reads no clock and does no I/O. The supervisor of an attempt drives it with
real processes (engines/node/members.py). The members' side is `treadle.train`.

How the members change
1. Newcomers are launched, import, build their model and say `Ready`. The others train meanwhile.
2. The members of the group get `Prepare`. Each answers with the step it is at, at once, and begins
   no step beyond the next one. Data-parallel ranks are in lock step, so their answers differ by at
   most 1, and the largest plus 1 is a step that all can reach. No collective is needed to agree.
3. They get `Halt` with that step. When those that stay have arrived, everyone in the next group
   gets `Form`: form the group, take the state of `source`.
4. All have `Switched`: the group is the present one. Those that are not wanted any more get
   `Leave`: until then they have the state if all others die. What was ordered meanwhile is next.

A loss is the same from point 3 on: `Halt` without a step means now. Members abandon the step in
flight and say how many steps they applied. The one with most is the source, since a step may have
been applied by some of them only: so no step is lost and none is applied twice.

The start is the same from the `Form` of point 3 on: there is no old group. A source without state
starts from the newest checkpoint or from nothing.

If no wanted member has state (all move), one of the old stays in the group until the next switch,
which then only removes it.
"""

from collections.abc import Iterable

from treadle.core.member_facts import (
    Changed,
    Dismiss,
    Ended,
    Gone,
    Heard,
    Input,
    Launch,
    Limits,
    Lost,
    Output,
    Phase,
    Place,
    Refused,
    Send,
    Stop,
    Target,
    Tick,
)
from treadle.core.member_messages import (
    Answer,
    Arrived,
    At,
    Broken,
    Cancelled,
    Done,
    Finished,
    Halt,
    Hello,
    Leave,
    Member,
    Order,
    Prepare,
    Ready,
    StopAsked,
    Switched,
)
from treadle.core.member_switch import Row, Rows, Switch


class Membership:
    """The members of one attempt."""

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
        self._count = 0
        self._out: list[Output] = []

    @property
    def due(self) -> float | None:
        """The next moment at which it needs a `Tick`."""
        moments = [row.until for row in self._rows.values()]
        moments += [self._switch.until] if self._switch else []
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def members(self) -> dict[Member, Place]:
        return {member: row.place for member, row in self._rows.items()}

    def step(self, given: Input, now: float) -> list[Output]:
        """Take one fact or order; what has to be done about it, in order."""
        self._out = []
        if self.phase is Phase.ENDED:
            return self._out
        match given:
            case Target():
                self._target(given, now)
            case Heard():
                if given.member in self._rows:
                    self._hear(given.member, given.answer, now)
            case Gone():
                self._gone(given.member, now)
            case Stop():
                self._stop(now)
            case Tick():
                self._tick(now)
        return self._out

    # -- targets -----------------------------------------------------------------------------------

    def _target(self, target: Target, now: float) -> None:
        if target.order <= self.order or self.phase is Phase.DRAINING:
            return
        self.order = target.order
        if not target.places:
            self._stop(now)
        elif self._switch is not None:  # short, and not to be cancelled
            self._queued = target
        else:
            self._adopt(target, now)

    def _adopt(self, target: Target, now: float) -> None:
        """Keep members on wanted places, launch the missing, dismiss newcomers not wanted."""
        self._queued, self._reported = None, False
        self._plan = target.plan
        self._wanted, spare, missing = self._rows.match(target.places, self.group)
        for member in spare:
            if member not in self.group:
                self._dismiss(member, "a newer order does not want it", now)
        for place in missing:
            self._launch(place, now)
        self._advance(now)

    def _launch(self, place: Place, now: float) -> None:
        member = f"m{self._count}"
        self._count += 1
        self._rows[member] = Row(place, until=now + self._limits.ready_s if self.group else None)
        self._wanted.append(member)
        self._out.append(Launch(member, place, joins=bool(self.group)))

    def _advance(self, now: float) -> None:
        """Begin the next switch towards the target, if there is one and its members are ready."""
        if self._switch is not None or self.phase in (Phase.DRAINING, Phase.ENDED):
            return None
        if not self._rows:
            return self._end("no member is left")
        if self._stop_asked:
            return self._begin_stop(now)
        if self._queued is not None:
            return self._adopt(self._queued, now)
        if not self._wanted and not self.group:
            self.phase = Phase.DRAINING  # The last of them are about to end.
            return None
        if not self._wanted:
            self._give_up("all members that it wanted were lost", now)
        if set(self._wanted) == set(self.group) and self._plan == self._group_plan:
            return self._settle()
        return self._approach(now)

    def _settle(self) -> None:
        """The group is what it should be."""
        self.phase = Phase.RUNNING
        if not self._reported:
            self._reported = True
            self._out.append(Changed(self.order, self.version, self.group, self._step, 0.0))

    def _approach(self, now: float) -> None:
        """Begin the next switch if all that it needs are ready."""
        newcomers = [m for m in self._wanted if m not in self.group]
        if not all(self._rows[member].ready for member in newcomers):
            self.phase = Phase.WARMING if self.group else Phase.STARTING
            return
        kept = [member for member in self.group if member in self._wanted]
        if self.group and not kept:
            kept = [self.group[0]]  # It has the state; the switch after this one removes it.
        leavers = [member for member in self.group if member not in kept]
        why = "order" if self.group else "start"
        self._begin(kept + newcomers, leavers, why=why, now=now)

    # -- a switch ----------------------------------------------------------------------------------

    def _begin(self, group: list[Member], leavers: list[Member], *, why: str, now: float) -> None:
        self.version += 1
        self.phase = Phase.SWITCHING if self.group else Phase.STARTING
        switch = self._switch = Switch(self.version, group, leavers, why)
        for member in group:
            self._rows[member].until = None
        if not self.group:
            return self._form(switch, now)
        switch.until = now + self._limits.answer_s
        return self._tell(self.group, Prepare(switch.version))

    def _at(self, switch: Switch, member: Member, answer: At) -> None:
        if switch.stage != "asking" or member not in self.group:
            return None
        switch.steps[member] = answer.step
        if not all(each in switch.steps for each in self.group):
            return None
        at_step = max(switch.steps.values()) + 1
        switch.stage, switch.until = "halting", None
        if switch.group:
            return self._tell(self.group, Halt(switch.version, at_step))
        for leaver in switch.leavers:
            self._rows[leaver].leaving = True
            save = leaver == self.group[0]
            self._out.append(Send(leaver, Leave(switch.version, at_step, stop=True, save=save)))
        return None

    def _arrive(self, switch: Switch, member: Member, answer: Arrived, now: float) -> None:
        if switch.stage != "halting" or member not in switch.group:
            return
        switch.arrived[member] = answer.step
        self._form_if_all(switch, now)

    def _form_if_all(self, switch: Switch, now: float) -> None:
        waited = switch.halting(self.group)
        if all(each in switch.arrived for each in waited):
            self._form(switch, now)
        elif switch.until is None and switch.arrived:
            # From the first arrival on: before it, a step or the user's own code may take long.
            switch.until = now + max(self._rows[each].timeout_s for each in waited)

    def _form(self, switch: Switch, now: float) -> None:
        switch.stage, switch.until = "forming", None
        if self._started and not switch.has_state:
            return self._fail("no member that has the state is left", now)
        return self._tell(switch.group, switch.form(self._rendezvous, self._plan))

    def _done_switching(self, switch: Switch, now: float) -> None:
        before = set(self.group)
        self.group, self._group_version = tuple(switch.group), switch.version
        self._group_plan = self._plan
        self._switch, self._failures = None, 0
        for leaver in switch.leavers:
            if leaver in self._rows:
                self._rows[leaver].leaving = True
                self._rows[leaver].until = now + self._limits.leave_s
                self._out.append(Send(leaver, Leave(switch.version)))
        self._started = True
        step = self._step = max(each.step for each in switch.switched.values())
        stall_s = switch.stall_s(before)
        reached = self._queued is None and set(self._wanted) == set(self.group)
        order = self.order if reached and not self._reported else None
        self._reported = self._reported or reached
        self._out.append(Changed(order, switch.version, self.group, step, stall_s, switch.why))
        if self._finished:
            return self._drain(now)
        self.phase = Phase.RUNNING
        return self._advance(now)

    # -- losses ------------------------------------------------------------------------------------

    def _gone(self, member: Member, now: float) -> None:
        row = self._rows.pop(member, None)
        if row is None:
            return
        if row.leaving:
            if not self._rows:
                self._end("finished" if self._finished else "all members left")
            return
        switch = self._switch
        if switch is not None and member in switch.leavers and switch.stage != "asking":
            return  # If it did not reach its step, the others cannot either, and halt at once.
        self._out.append(Lost(member))
        if member in self._wanted:
            self._wanted.remove(member)
        forming = switch is not None and switch.stage == "forming" and member in switch.group
        if member in self.group or forming:
            self._recover(now)
        else:
            self._newcomer_lost(member, "ended", now)

    def _newcomer_lost(self, member: Member, how: str, now: float) -> None:
        """Go on without it, but give up if members were to leave for it."""
        why = f"newcomer {member} {how}" + (" before it trained" if how == "ended" else "")
        switch = self._switch
        if switch is not None and member in switch.group:
            if switch.stage == "halting":  # Too late to cancel.
                switch.group.remove(member)
                return self._form_if_all(switch, now)
            self._tell(self.group, Cancelled(switch.version))
            self._switch = None
            self.phase = Phase.RUNNING
        moving = any(member not in self._wanted for member in self.group)
        only = self.group and not any(member not in self.group for member in self._wanted)
        if self.group and (moving or only) and self._switch is None:
            self._give_up(why, now)
        return self._advance(now)

    def _give_up(self, why: str, now: float) -> None:
        """Stay with the present group."""
        for member in list(self._rows):
            if member not in self.group and not self._rows[member].leaving:
                self._dismiss(member, "the change was given up", now)
        self._wanted = list(self.group)
        self._plan = self._group_plan
        if not self._reported:
            self._reported = True
            self._out.append(Refused(self.order, why))

    def _recover(self, now: float) -> None:
        """Form a group of those that are left; what was ordered comes after that."""
        switch = self._switch
        forming = switch is not None and switch.stage == "forming"
        among = switch.group if switch is not None and forming else self.group
        left = [member for member in among if self._rows.has(member)]
        leavers = [member for member in self.group if self._rows.has(member) and member not in left]
        if not left:  # Members that were about to leave have the state.
            left, leavers = leavers, []
        self._switch = None
        if len(left) < self._limits.least:
            return self._fail(f"{len(left)} members are left", now)
        self.version += 1
        self.phase = Phase.SWITCHING
        self.group = tuple(left)
        self._switch = Switch(self.version, left, leavers, "loss", stage="halting")
        return self._tell(left, Halt(self.version, None))

    def _broken(self, member: Member, answer: Broken, now: float) -> None:
        """A collective failed. The process that is to blame may still live."""
        switch = self._switch
        if switch is None or switch.stage == "asking":
            stale = member not in self.group or answer.version != self._group_version
        elif switch.stage == "forming":
            stale = answer.version != switch.version
        else:
            # Members that halt stop by themselves when a collective fails. If all were to leave
            # there is no next group, and they need one.
            stale = bool(switch.group) or answer.version != self._group_version
        if stale:
            return None
        self._keep_leavers(switch)
        self._failures += 1
        if self._failures > self._limits.failures:
            return self._fail(f"{self._failures} groups in a row failed", now)
        return self._recover(now)

    def _keep_leavers(self, switch: Switch | None) -> None:
        for member in switch.leavers if switch else ():
            if member in self._rows:
                self._rows[member].leaving = False

    # -- the end -----------------------------------------------------------------------------------

    def _stop(self, now: float) -> None:
        self._stop_asked = True
        for member in self._newcomers():
            self._dismiss(member, "the attempt stops", now)
        if self._switch is None:
            self._advance(now)

    def _begin_stop(self, now: float) -> None:
        if not self.group:
            for member in list(self._rows):
                self._dismiss(member, "the attempt stops", now)
            self.phase = Phase.DRAINING
            return
        self._begin([], list(self.group), why="order", now=now)
        self.phase = Phase.DRAINING

    def _finish(self, member: Member, now: float) -> None:
        self._rows[member].finished = self._finished = True
        switch = self._switch
        for newcomer in self._newcomers():
            self._dismiss(newcomer, "the training ends", now)
        if switch is not None and switch.why != "loss" and switch.stage != "forming":
            # No step follows, so the step to halt at will not come.
            self._keep_leavers(switch)
            self._tell(self.group, Cancelled(switch.version))
            self._switch = None
        if self._switch is None:
            self._drain(now)

    def _drain(self, now: float) -> None:
        """No more changes: when all have finished, they may end."""
        self.phase = Phase.DRAINING
        self._give_up("the training ends", now)
        rows = [self._rows[member] for member in self.group if member in self._rows]
        if all(row.finished for row in rows):
            self._tell(self.group, Done())
            for row in rows:
                row.leaving = True  # in its own time: it may evaluate or save its model

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

    # -- answers and deadlines ---------------------------------------------------------------------

    def _hear(self, member: Member, answer: Answer, now: float) -> None:
        switch = self._switch
        if switch is not None and getattr(answer, "version", None) == switch.version:
            self._hear_about(switch, member, answer, now)
            return
        match answer:
            case Hello():
                self._rows[member].timeout_s = answer.timeout_s
            case Ready() if not self._rows[member].ready:
                self._rows[member].ready, self._rows[member].until = True, None
                self._advance(now)
            case Broken():
                self._broken(member, answer, now)
            case Finished() if member in (*self.group, *(switch.group if switch else ())):
                self._finish(member, now)
            case StopAsked() if self.phase is not Phase.DRAINING:
                self._stop(now)
            case _:
                pass  # stale

    def _hear_about(self, switch: Switch, member: Member, answer: Answer, now: float) -> None:
        """An answer about the switch in flight."""
        match answer:
            case At():
                self._at(switch, member, answer)
            case Arrived():
                self._arrive(switch, member, answer, now)
            case Switched() if switch.stage == "forming" and member in switch.group:
                switch.switched[member] = answer
                if all(each in switch.switched for each in switch.group):
                    self._done_switching(switch, now)
            case Broken():
                self._broken(member, answer, now)
            case _:
                pass

    def _tick(self, now: float) -> None:
        switch = self._switch
        if switch is not None and switch.until is not None and now >= switch.until:
            switch.until = None
            if switch.stage == "asking":
                self._no_answer(switch, now)
            else:
                late = [m for m in switch.halting(self.group) if m not in switch.arrived]
                for member in late:
                    self._dismiss(member, "it did not arrive where the others wait", now)
                    self._out.append(Lost(member))
                    if member in self._wanted:
                        self._wanted.remove(member)
                self._recover(now)
        for member, row in list(self._rows.items()):
            if row.until is None or now < row.until:
                continue
            row.until = None
            if row.leaving:
                self._dismiss(member, "it was told to leave", now)
            else:
                self._dismiss(member, "it did not become ready", now)
                if member in self._wanted:
                    self._wanted.remove(member)
                    self._newcomer_lost(member, "did not become ready", now)

    def _no_answer(self, switch: Switch, now: float) -> None:
        """A member that does not take part makes the job rigid; it is not killed for that."""
        silent = ", ".join(each for each in self.group if each not in switch.steps)
        self._tell(self.group, Cancelled(switch.version))
        self._switch = None
        if self._stop_asked:
            return self._fail(f"{silent} did not answer", now)
        self.phase = Phase.RUNNING
        self._give_up(f"{silent} did not answer", now)
        return self._advance(now)

    # -- small things ------------------------------------------------------------------------------

    def _newcomers(self) -> list[Member]:
        """Members that no group has, and no switch in flight wants."""
        taken = [*self.group, *(self._switch.group if self._switch else ())]
        return [each for each in self._rows if self._rows.has(each) and each not in taken]

    def _dismiss(self, member: Member, why: str, now: float) -> None:
        row = self._rows[member]
        row.leaving, row.until = True, now + self._limits.leave_s
        self._out.append(Dismiss(member, why))

    def _tell(self, members: Iterable[Member], order: Order) -> None:
        self._out += [Send(member, order) for member in members if member in self._rows]
