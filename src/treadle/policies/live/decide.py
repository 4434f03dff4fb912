"""The one decision around every live policy: who may run, who goes first, what it costs.

`treadle up` and `treadle simulate --live` run this. The policy decides about the jobs that it is
shown, as if there were nothing else: who, how many devices, under which plan, with whom. What it
decides is made on devices that suit each job (plan.py), as far as it pays (costs.py).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.costs import RESTART_S
from treadle.policies.base.placement import Placement
from treadle.policies.base.quotas import Quotas
from treadle.policies.base.quotas import quotas as parse_quotas
from treadle.policies.live.asking import Asking, Key, Question, Quiet
from treadle.policies.live.costs import Part, parts
from treadle.policies.live.eligibility import Eligibility, LevelOf
from treadle.policies.live.fits import never_fits
from treadle.policies.live.patience import (
    Patience,
    Patient,
    Reservation,
    Reserving,
    look_again_at,
    reserved_from,
)
from treadle.policies.live.plan import Plan, any_size, fast_enough
from treadle.policies.live.quotas import OWED, Entitlements, by_priority
from treadle.policies.live.reasons import reason
from treadle.policies.live.sharing import Joining, run_again
from treadle.policies.wrappers.wrapper import Wrapper, innermost

ROUNDS_MAX = 4  # the policy is asked again without what it could not have
_AGAIN_S = 900.0  # what was refused is not weighed again sooner because of a policy's timer


class Decision(NamedTuple):
    """What one decision tells the next, and those who ask why."""

    policy: Mapping[Key, object] = {}  # the policy's own memory
    quiet: Mapping[Question, Quiet] = {}  # what it saw where it changed nothing
    patience: Patience = Patience()
    hidden: Mapping[JobId, Reason] = {}  # waiting jobs that the policy did not see
    refused: tuple[Part, ...] = ()  # changes that do not pay yet
    for_whom: Mapping[JobId, JobId] = {}  # jobs that were stopped or shrunk, while both are there


class _Facts(NamedTuple):
    """What holds in all rounds of one decision."""

    snapshot: Snapshot
    before: Decision
    owed: Entitlements | None
    level_of: LevelOf
    eligible: Eligibility
    patient: Patient
    entries: Sequence[Reservation]  # jobs whose patience is over
    next_at: float  # when that of the next is
    outranked: Set[JobId]
    turns: Mapping[JobId, float]


class _Again(NamedTuple):
    """The policy is asked again, without what it could not have."""

    in_vain: Set[JobId]  # jobs that were left aside, or will be
    refused: tuple[Part, ...]


def live(
    inner: Policy,
    placement: Placement,
    belief: PerformanceModel,
    *,
    quotas: str = "",
    share: bool = True,
    restart_s: float = RESTART_S,
) -> "Live":
    """The live decision: what may run, what pays, patience, quotas, sharing.

    quotas: devices that each tenant is entitled to, as a:32/b:16. share: jobs may share devices.
    restart_s: what a restart is assumed to cost a job of which it was not measured.
    """
    if not 0 <= restart_s < inf:
        raise InvalidInputError(f"live restart_s must be 0 or more, not {restart_s:g}")
    given = parse_quotas("live", quotas)
    return Live(inner, placement, belief, given, share=share, restart_s=restart_s)


class Live(Wrapper):
    """The decision, around a policy."""

    def __init__(
        self,
        inner: Policy,
        placement: Placement,
        belief: PerformanceModel,
        given: Quotas | None,
        *,
        share: bool,
        restart_s: float,
    ) -> None:
        super().__init__(inner)
        self._restart_s = restart_s
        self.placement, self.belief, self.given = placement.in_parts(), belief, given
        self._sizes = any_size if inner.resizes else fast_enough(belief)
        self._joining = Joining.of(belief) if share else None
        self.shares = inner.shares or self._joining is not None
        self.in_order = False  # Priorities and retries let jobs overtake.
        self.strict = innermost(inner).in_order

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not snapshot.jobs:
            return Schedule(memory=snapshot.memory)
        facts, aside = self._facts(snapshot), set[JobId]()
        refused: list[Part] = []
        for left in reversed(range(ROUNDS_MAX)):
            found = self._decided(facts, aside, last=not left)
            if isinstance(found, Schedule):
                return _with_refused(found, [*refused, *remembered(found.memory).refused])
            refused += found.refused
            aside |= found.in_vain
        raise AssertionError("the last round decides")

    def _facts(self, snapshot: Snapshot) -> _Facts:
        """What does not depend on the plan."""
        before, owed = remembered(snapshot.memory), self.entitlements(snapshot)
        level_of = by_priority if owed is None else owed.level_of

        # 1 Who may run now, who may be moved, and whose patience is over.
        eligible = Eligibility.of(snapshot, self.placement, level_of, in_order=self.strict)
        patient = Patient(snapshot, self.belief, before.patience)
        watched = owed is not None or not self.strict
        return _Facts(
            *(snapshot, before, owed, level_of, eligible, patient),
            entries=patient.entries() if watched else [],
            next_at=patient.next_at() if watched else inf,
            outranked=_outranked(snapshot, level_of, eligible.hidden),
            turns=_holding(before.patience.turns, snapshot),
        )

    def _decided(self, facts: _Facts, aside: Set[JobId], *, last: bool) -> Schedule | _Again:
        """One round: the schedule, or why the policy is asked again.

        aside: waiting jobs that could not have what the policy chose, and running jobs whose
        change does not pay.
        """
        snapshot, before, owed, level_of, eligible, patient, *_ = facts
        now, turns = snapshot.now, facts.turns
        plan = Plan(snapshot, eligible.room.copy(), self._sizes)

        # 2 Jobs whose patience is over go first. What cannot start yet gets a reservation.
        in_turn = {name: at for name, at in turns.items() if at > now}
        stay = eligible.fixed.keys() | in_turn.keys()
        reserving = Reserving(plan, self.belief, stay, level_of, resizes=self.inner.resizes)
        if owed is not None:
            late = {entry.job for entry in facts.entries}
            plan.room.quota = lambda job, size: job.id in late or owed.may_have(plan, job, size)
        reserved = reserving.serve(facts.entries, facts.outranked, turns)
        plan.room.not_lent = lambda job: reserved_from(job, reserved, level_of, self.belief, plan)
        if not reserved:
            run_again(plan, level_of)

        # 3 The policy decides about each level, the highest first, on what is left.
        # 4 Changes that cost their level more than they gain it are not made.
        asking = Asking(
            *(self.inner, plan, eligible, level_of),
            *(before.policy, before.quiet, {*aside, *in_turn}),
        )
        if self._joining is not None:
            self._joining.part(plan)
        refused: tuple[Part, ...] = ()
        for level in asking.levels():
            settled = plan.changes.copy()
            asking.ask(level)
            if owed is not None and level[0] == OWED:
                owed.enforce(plan, list(snapshot.waiting()), eligible.fixed)
            refused += self._taken_back(plan, settled)
            asking.go_on(level)

        in_vain = asking.in_vain(refused)
        if not last and not in_vain <= aside:
            return _Again(in_vain, refused)

        # 5 What still waits may share devices, unless some are reserved.
        if self._joining is not None and not reserved:
            self._joining.join(plan, level_of, eligible.hidden)

        patience = Patience(patient.after(plan.changes), tuple(reserved), reserving.turns)
        for_whom = plan.stopped_for()
        memory = Decision(
            *(asking.notes, asking.quiet, patience, eligible.hidden, refused),
            for_whom=_still(before.for_whom, plan) | for_whom,
        )
        moments = [eligible.until, look_again_at(reserved, now), facts.next_at, *in_turn.values()]
        until = min(_after_refusals(asking.until, refused, now), *moments)
        soon = _in_the_way(plan, level_of)
        return Schedule(plan.made(), until, memory, for_whom, soon)

    def _taken_back(
        self, plan: Plan, settled: Mapping[JobId, Allocation | None]
    ) -> tuple[Part, ...]:
        """Take back what one level changed and does not pay."""
        names = [
            name
            for name, new in plan.changes.items()
            if name not in settled or settled[name] != new
        ]
        weighed = parts(
            plan.snapshot, plan.changes, names, self.belief, plan.urgent, self._restart_s
        )
        refused = tuple(part for part in weighed if not part.pays)
        for part in refused:
            plan.take_back(part.jobs)
        return refused

    # -- what a policy is asked besides -----------------------------------------------------------

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        return never_fits(self.inner, spec, cluster)

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        return reason(self, remembered(snapshot.memory), snapshot, job)

    def take_over(self, memory: object) -> Decision:
        """Patience outlives a switch of policies, and a restart."""
        before = remembered(memory)
        notes = {key: self.inner.take_over(note) for key, note in before.policy.items()}
        return Decision(policy=notes, patience=before.patience)

    def entitlements(self, snapshot: Snapshot) -> Entitlements | None:
        """Who is within a quota; None without quotas."""
        if self.given is None:
            return None
        return Entitlements(snapshot, self.given, self.belief, resizes=self.inner.resizes)

    def quotas(self, snapshot: Snapshot) -> Quotas | None:
        return self.inner.quotas(snapshot) if self.given is None else self.given


def _with_refused(schedule: Schedule, refused: Sequence[Part]) -> Schedule:
    """The schedule with what was refused in any round, and not made after all."""
    left = {part.jobs: part for part in refused if schedule.changes.keys().isdisjoint(part.jobs)}
    memory = remembered(schedule.memory)._replace(refused=tuple(left.values()))
    until = min([schedule.valid_until, *(part.pays_at for part in left.values())])
    return replace(schedule, memory=memory, valid_until=until)


def remembered(memory: object) -> Decision:
    """The last decision; an empty one at first and after a restart."""
    return memory if isinstance(memory, Decision) else Decision()


def _outranked(snapshot: Snapshot, level_of: LevelOf, hidden: Mapping[JobId, Reason]) -> Set[JobId]:
    """Waiting jobs of a lower level than another that could start."""
    levels = {job.id: level_of(job) for job in snapshot.waiting()}
    first = min((level for name, level in levels.items() if name not in hidden), default=None)
    return {name for name, level in levels.items() if first is not None and level > first}


def _in_the_way(plan: Plan, level_of: LevelOf) -> frozenset[JobId]:
    """Jobs that start just now, and make way for one of a higher level once they run."""
    snapshot = plan.snapshot
    starting = [job for job in snapshot.holding() if job.phase is Phase.STARTING]
    waiting = snapshot.waiting() if starting else ()
    levels = (level_of(job) for job in waiting if plan.has(job.id) is None)
    first = min(levels, default=None)
    late = (job.id for job in starting if first is not None and level_of(job) > first)
    return frozenset(late)


def _holding(turns: Mapping[JobId, float], snapshot: Snapshot) -> dict[JobId, float]:
    """Of these jobs, those that hold devices."""
    rows = snapshot.jobs
    return {name: at for name, at in turns.items() if name in rows and rows[name].allocation}


def _still(for_whom: Mapping[JobId, JobId], plan: Plan) -> dict[JobId, JobId]:
    """Jobs that still wait, or are small, for another that is still there."""
    rows = plan.snapshot.jobs
    return {
        name: other
        for name, other in for_whom.items()
        if name in rows and other in rows and name not in plan.changes
    }


def _after_refusals(until: float, refused: tuple[Part, ...], now: float) -> float:
    """When the policy wants to be asked again; its timers do not repeat what was refused."""
    if not refused:
        return until
    pays_at = min(part.pays_at for part in refused)
    return max(until, min(pays_at, now + _AGAIN_S))
