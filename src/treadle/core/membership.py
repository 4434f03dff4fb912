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

A loss is the same from point 3 on: `Halt` without a step means now. Members cut the step in
flight and say how many steps they applied. The one with most is the source, since a step may have
been applied by some of them only: so no step is lost and none is applied twice.

If the coordinator itself is lost, the next one begins with a loss (`TakeOver`), and with versions
above all that its members have heard of: what the one before has said does not count any more.

The start is the same from the `Form` of point 3 on: there is no old group. A source without state
starts from the newest checkpoint or from nothing.

If no wanted member has state (all move), one of the old stays in the group until the next switch,
which then only removes it.

Under a plan that splits the model each member has a part of the state only. Then, and where such a
plan begins, `Halt` says that the members save the state before they arrive, those that leave too,
and `Form` names the folder. If that fails, all train on in the old group. A loss takes a part of
the state with it: all members end, and start again from what was saved last.
"""

from treadle.core.member_facts import (
    Changed,
    Gone,
    Heard,
    Input,
    Lost,
    Output,
    Phase,
    Send,
    Stop,
    TakeOver,
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
    Prepare,
    Ready,
    StopAsked,
    Switched,
)
from treadle.core.member_state import MemberState, is_split
from treadle.core.member_switch import Switch


class Membership(MemberState):
    """The members of one attempt."""

    def step(self, given: Input, now: float) -> list[Output]:
        """Take one fact or order; what has to be done about it, in order."""
        self._out = []
        if self.phase is Phase.ENDED:
            return self._out
        match given:
            case Target():
                self._target(given, now)
            case TakeOver():
                self._inherit(given, now)
                if given.group:
                    self._recover(now)
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
        if target.order <= self.order or self.phase is Phase.DRAINING or self.is_over:
            return
        self.order = target.order
        if not target.places:
            self._stop(now)
        elif self._switch is not None or self._restarting:  # short, and not to be cancelled
            self._queued = target
        else:
            self._adopt(target, now)

    def _adopt(self, target: Target, now: float) -> None:
        """Keep members on wanted places, launch the missing, dismiss newcomers not wanted."""
        self._queued, self._reported = None, False
        self._target_now = target
        self._plan = target.plan
        self._wanted, spare, missing = self._rows.match(target.places, self.group)
        for member in spare:
            if member not in self.group:
                self._dismiss(member, "a newer order does not want it", now)
        for place in missing:
            self._launch(place, now)
        self._advance(now)

    def _advance(self, now: float) -> None:
        """Begin the next switch towards the target, if there is one and its members are ready."""
        if self._switch is not None or self._restarting:
            return None
        if self.phase in (Phase.DRAINING, Phase.ENDED):
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

    def _approach(self, now: float) -> None:
        """Begin the next switch if all that it needs are ready."""
        newcomers = [m for m in self._wanted if m not in self.group]
        if not all(self._rows[member].ready for member in newcomers):
            self.phase = Phase.WARMING if self.group else Phase.STARTING
            return
        kept = [member for member in self.group if member in self._wanted]
        if self.group and not kept and not self._carries:
            kept = [self.group[0]]  # It has the state; the switch after this one removes it.
        leavers = [member for member in self.group if member not in kept]
        why = "order" if self.group else "restart" if self._restarts else "start"
        self._begin(kept + newcomers, leavers, why=why, now=now)

    @property
    def _carries(self) -> bool:
        """Whether the state goes through a folder: members have parts of it, or will have."""
        return bool(self.group) and (is_split(self._group_plan) or is_split(self._plan))

    # -- a switch ----------------------------------------------------------------------------------

    def _begin(self, group: list[Member], leavers: list[Member], *, why: str, now: float) -> None:
        self.version += 1
        self.phase = Phase.SWITCHING if self.group else Phase.STARTING
        plan = self._plan if group else self._group_plan
        switch = self._switch = Switch(
            self.version, group, leavers, why, plan, carries=bool(group) and self._carries
        )
        if not self.group:  # What was saved before a restart, if that is newer than a checkpoint.
            switch.carried = self._carried
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
            return self._tell(self.group, Halt(switch.version, at_step, switch.carries))
        for leaver in switch.leavers:
            self._rows[leaver].leaving = True
            save = leaver == self.group[0]
            self._out.append(Send(leaver, Leave(switch.version, at_step, stop=True, save=save)))
        return None

    def _arrive(self, switch: Switch, member: Member, answer: Arrived, now: float) -> None:
        if switch.stage != "halting" or member not in (*switch.group, *switch.leavers):
            return
        if switch.carries and answer.problem:
            self._cancel(switch, f"the state could not be saved: {answer.problem}", now)
            return
        switch.arrived[member] = answer.step
        switch.carried = answer.carried or switch.carried
        self._form_if_all(switch, now)

    def _cancel(self, switch: Switch, why: str, now: float, newcomer: Member = "") -> None:
        """The members have halted, and train on in the group that they have."""
        self._switch = None
        self._give_up(why, now, newcomer)
        if switch.gone:
            return self._recover(now)
        self._tell(self.group, Cancelled(switch.version))
        self.phase = Phase.RUNNING
        return self._advance(now)

    def _form_if_all(self, switch: Switch, now: float) -> None:
        waited = switch.halting(self.group)
        if all(each in switch.arrived for each in waited):
            self._form(switch, now)
        elif switch.until is None and switch.arrived.keys() & {*waited}:
            # From the first arrival on: before it, a step or the user's own code may take long.
            switch.until = now + max(self._rows[each].timeout_s for each in waited)

    def _form(self, switch: Switch, now: float) -> None:
        switch.stage, switch.until = "forming", None
        if self._started and not switch.has_state:
            return self._fail("no member that has the state is left", now)
        return self._tell(switch.group, switch.form(self._rendezvous))

    def _done_switching(self, switch: Switch, now: float) -> None:
        before = set(self.group)
        self.group, self._group_version = tuple(switch.group), switch.version
        self._group_plan, self._carried = switch.plan, ""
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
        reached = reached and self._plan == self._group_plan
        order = self.order if reached and not self._reported else None
        self._reported = self._reported or reached
        self._out.append(
            Changed(order, switch.version, self.group, step, stall_s, switch.why, switch.plan)
        )
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
            if not self._rows and self._restarting and not self._stop_asked:
                self._start_again(now)
            elif not self._rows:
                self._end("finished" if self._finished else "all members left")
            return
        switch = self._switch
        if switch is not None and member in switch.leavers and switch.stage != "asking":
            # If it did not reach its step, the others cannot either, and halt at once.
            self._leaver_lost(switch, member, now)
            return
        self._out.append(Lost(member))
        if member in self._wanted:
            self._wanted.remove(member)
        forming = switch is not None and switch.stage == "forming" and member in switch.group
        if member in self.group or forming:
            self._recover(now)
        else:
            self._newcomer_lost(member, "ended", now)

    def _leaver_lost(self, switch: Switch, member: Member, now: float) -> None:
        if switch.carries and switch.stage == "halting":
            if is_split(self._group_plan) and not switch.carried:
                self._recover(now)
                return
            switch.gone.add(member)
            self._form_if_all(switch, now)

    def _newcomer_lost(self, member: Member, how: str, now: float) -> None:
        """Go on as before: what it was to join is given up, unless the others have halted."""
        why = f"newcomer {member} {how}" + (" before it trained" if how == "ended" else "")
        switch = self._switch
        if switch is not None and member in switch.group:
            if switch.stage == "halting" and switch.carries:  # The plan needs all of them.
                return self._cancel(switch, why, now, member)
            if switch.stage == "halting":  # Too late to cancel.
                switch.group.remove(member)
                return self._form_if_all(switch, now)
            self._tell(self.group, Cancelled(switch.version))
            self._switch = None
            self.phase = Phase.RUNNING
        if self.group and self._switch is None:
            self._give_up(why, now, member)
        return self._advance(now)

    def _recover(self, now: float) -> None:
        """Form a group of those that are left; what was ordered comes after that."""
        switch = self._switch
        forming = switch is not None and switch.stage == "forming"
        plan = switch.plan if switch is not None and forming else self._group_plan
        carried = switch.carried if switch is not None else ""
        if is_split(plan):
            return self._restart(carried, now)
        among = switch.group if switch is not None and forming else self.group
        left = [member for member in among if self._rows.has(member)]
        leavers = [member for member in self.group if self._rows.has(member) and member not in left]
        if not any(member in self.group for member in left):  # One about to leave has the state.
            left, leavers = leavers[:1] + left, leavers[1:]
        self._switch = None
        if len(left) < self._limits.least:
            return self._fail(f"{len(left)} members are left", now)
        self.version += 1
        self.phase = Phase.SWITCHING
        self.group = tuple(left)
        self._switch = Switch(self.version, left, leavers, "loss", plan, stage="halting")
        self._switch.carried = carried if forming else ""
        return self._tell(left, Halt(self.version, None))

    def _restart(self, carried: str, now: float) -> None:
        """A part of the state is lost: all end, and start again from what was saved."""
        self._restarts += 1
        among = self._switch.group if self._switch is not None else []
        self._switch, self._restarting = None, True
        self.version += 1
        self._carried = carried
        self._tell(dict.fromkeys((*self.group, *among)), Halt(self.version, None))
        self.group, self._started, self._wanted = (), False, []
        if self._restarts > self._limits.restarts:
            self._restarting = False
            return self._fail(f"parts of the state were lost {self._restarts} times", now)
        for member in list(self._rows):
            self._dismiss(member, "a part of the state was lost", now)
        self.phase = Phase.STARTING
        if not self._rows:
            self._start_again(now)
        return None

    def _start_again(self, now: float) -> None:
        target, self._restarting = self._queued or self._target_now, False
        reported = self._reported and self._queued is None
        assert target is not None
        self._adopt(target, now)
        self._reported = reported

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

    # -- the end -----------------------------------------------------------------------------------

    def _stop(self, now: float) -> None:
        self._stop_asked = True
        for member in self._newcomers():
            self._dismiss(member, "the attempt stops", now)
        if self._switch is None:
            self._advance(now)

    def _begin_stop(self, now: float) -> None:
        for member in self._newcomers():  # also those of a switch that a loss has ended
            self._dismiss(member, "the attempt stops", now)
        if self.group:
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
        ends = all(row.finished for row in rows)
        if ends:
            self._tell(self.group, Done())
        for row in rows:
            row.leaving |= ends  # in its own time: it may evaluate or save its model
            if row.finished:
                row.until = None
            elif row.until is None:  # As long as one that hangs in a step is waited for.
                row.until = now + 2 * row.timeout_s

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
            case StopAsked() if not (self._restarting or self.phase is Phase.DRAINING):
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
                self._lose(late, "it did not arrive where the others wait", now)
        for member, row in list(self._rows.items()):
            if row.until is None or now < row.until:
                continue
            row.until = None
            if row.leaving:
                self._dismiss(member, "it was told to leave", now)
            elif member in self.group:
                self._lose([member], "it did not finish, and the others wait", now)
            else:
                self._dismiss(member, "it did not become ready", now)
                if member in self._wanted:
                    self._wanted.remove(member)
                    self._newcomer_lost(member, "did not become ready", now)

    def _lose(self, late: list[Member], why: str, now: float) -> None:
        """Members that hang: the others go on without them."""
        for member in late:
            self._dismiss(member, why, now, at_once=True)
            self._out.append(Lost(member))
            if member in self._wanted:
                self._wanted.remove(member)
        self._recover(now)

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
