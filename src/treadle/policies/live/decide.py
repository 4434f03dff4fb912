"""The one decision around every live policy: who may run, who goes first, what it costs.

`treadle up` and `treadle simulate --live` run this. The policy decides about the jobs that it is
shown, as if there were nothing else: who, how many devices, under which plan, with whom. What it
decides is made on devices that suit each job (plan.py), as far as it pays (costs.py).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot, Standing
from treadle.models.change_costs import RESTART_S
from treadle.policies.base.placement import Placement
from treadle.policies.live.asking import Asking, Key, Question, Quiet, Sight
from treadle.policies.live.costs import Part, parts
from treadle.policies.live.eligibility import Eligibility, LevelOf, LineOf
from treadle.policies.live.fair import HALF_LIFE, Fairness, Used
from treadle.policies.live.fits import never_fits
from treadle.policies.live.limits import Limits
from treadle.policies.live.may_pause import MayPause
from treadle.policies.live.parking import (
    Company,
    Parking,
    freeze_those_soon_back,
    leave_what_is_kept,
)
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
from treadle.policies.live.sharing import Joining, Ring, ousted_of, rings_of, run_again
from treadle.policies.wrappers.wrapper import Wrapper, innermost
from treadle.wire.quotas import Quotas
from treadle.wire.quotas import quotas as parse_quotas

ROUNDS_MAX = 4  # the policy is asked again without what it could not have
_AGAIN_S = 900.0  # what was refused is not looked at sooner for no reason


class Decision(NamedTuple):
    """What one decision tells the next, and those who ask why."""

    policy: Mapping[Key, object] = {}  # the policy's own memory
    quiet: Mapping[Question, Quiet] = {}  # what it saw where it changed nothing
    patience: Patience = Patience()
    hidden: Mapping[JobId, Reason] = {}  # why the policy did not see these waiting jobs
    refused: tuple[Part, ...] = ()  # changes that do not pay yet
    for_whom: Mapping[JobId, JobId] = {}  # jobs that were stopped or shrunk, while both are there
    used: Used = Used()  # by users


class _Facts(NamedTuple):
    """What holds in all rounds of one decision."""

    snapshot: Snapshot
    before: Decision
    used: Used
    owed: Entitlements | None
    level_of: LevelOf
    eligible: Eligibility
    sight: Sight
    notes: Mapping[Key, object]  # the policy's memory, of levels that are there
    ousted: Sequence[Job]
    rings: Sequence[Ring]
    patient: Patient
    entries: Sequence[Reservation]  # jobs whose patience is over
    next_at: float  # when that of the next is
    outranked: Set[JobId]
    turns: Mapping[JobId, float]  # jobs that run because of their patience
    in_turn: Mapping[JobId, float]  # those of them that are not stopped yet
    parking: Parking  # jobs that are paused


class _Draft(NamedTuple):
    """What one round comes to."""

    plan: Plan
    asking: Asking
    patience: Patience
    refused: tuple[Part, ...]
    next_aside: Set[JobId]  # jobs that the policy is not shown if it is asked again


class Live(Wrapper):
    """The live decision: what may run, what pays, patience, quotas, sharing.

    quotas: devices that each tenant is entitled to, as a:32/b:16. share: jobs may share devices.
    tries: also those of which nothing is known, to see what they need.
    restart_s: what a restart is assumed to cost a job of which it was not measured.
    pause: which jobs that keep no checkpoints are paused for others: off, opportunistic or all.
    fair: how long it takes until what a user used counts half, and perhaps weights of users (1d or
    1d/alice:2/bob:1; of others 1). off: who has used what is ignored.
    limits: what users and tenants may have at once, as ann:4:2/@vision:16/*:8 (see limits.py).
    """

    def __init__(  # noqa: PLR0913  # users name them
        self,
        inner: Policy,
        placement: Placement,
        belief: PerformanceModel,
        *,
        quotas: str = "",
        share: bool = True,
        tries: bool = True,
        restart_s: float = RESTART_S,
        pause: str = "opportunistic",
        fair: str = HALF_LIFE,
        limits: str = "",
    ) -> None:
        if not 0 <= restart_s < inf:
            raise InvalidInputError(f"live restart_s must be 0 or more, not {restart_s:g}")
        super().__init__(inner)
        self.placement, self.belief = placement.in_parts(), belief
        self.given = parse_quotas("live", quotas)
        self._may_pause, self._restart_s = MayPause(pause), restart_s
        self.fairness, self.limits = Fairness(fair), Limits(limits)
        self.half_life_s = self.fairness.half_life_s
        self._sizes = any_size if inner.resizes else fast_enough(belief)
        self._joining = Joining.of(belief, tries=tries) if share else None
        self.shares = share and (inner.shares or self._joining is not None)
        self.in_order = False  # Priorities and retries let jobs overtake.
        self.strict = innermost(inner).in_order

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not snapshot.jobs:
            return self._emptied(snapshot)
        facts = self._facts(snapshot)
        aside = set[JobId]()
        draft = first = self._draft(facts, aside)
        refused = [*draft.refused]
        for _ in range(ROUNDS_MAX - 1):
            if draft.next_aside <= aside:
                break
            aside |= draft.next_aside
            draft = self._draft(facts, aside)
            refused += draft.refused
        return self._schedule(facts, draft, refused, first)

    def _emptied(self, snapshot: Snapshot) -> Schedule:
        """A policy may begin anew once there are no jobs, so it is told."""
        before, told = remembered(snapshot.memory), self.inner.decide
        notes = {k: told(snapshot._replace(memory=v)).memory for k, v in before.policy.items()}
        return Schedule(memory=before._replace(policy=notes, used=self.used(snapshot)))

    def _facts(self, snapshot: Snapshot) -> _Facts:
        """What does not depend on the plan."""
        before, owed = remembered(snapshot.memory), self.entitlements(snapshot)
        used = self.used(snapshot)
        level_of = by_priority if owed is None else owed.level_of
        company = Company(self.belief, snapshot.now, self._restart_s)
        parking = Parking.of(snapshot, company, before.for_whom)
        snapshot = parking.hidden_in(snapshot)

        # 1 Who may run now, who may be moved, and whose patience is over.
        line_of = self.line_of(snapshot, used, level_of)
        bounds = self.limits.on(snapshot) if self.limits else None
        eligible = Eligibility.of(
            snapshot, self.placement, line_of, in_order=self.strict, bounds=bounds
        )
        if owed is not None and not self.strict:
            eligible.misled |= owed.never_lent()
        # What is remembered of jobs that are out of sight for now is kept for them.
        levels = set(map(level_of, snapshot.jobs.values())) if before.policy else set()
        patient = Patient(snapshot, self.belief, before.patience)
        watched = owed is not None or not self.strict
        entries = patient.entries() if watched else []
        entries = [entry for entry in entries if entry.job not in eligible.limited]
        turns = _holding(before.patience.turns, snapshot)
        return _Facts(
            *(snapshot, before, used, owed, level_of, eligible),
            sight=Sight(snapshot, self.inner, eligible, line_of),
            notes={key: note for key, note in before.policy.items() if key[0][:2] in levels},
            ousted=ousted_of(eligible, snapshot.now),
            rings=rings_of(snapshot, eligible.holding),
            patient=patient,
            entries=entries,
            next_at=patient.next_at() if watched else inf,
            outranked=_outranked(eligible, level_of) if entries else frozenset(),
            turns=turns,
            in_turn={name: at for name, at in turns.items() if at > snapshot.now},
            parking=parking,
        )

    def _draft(self, facts: _Facts, aside: Set[JobId]) -> _Draft:
        """One round.

        aside: waiting jobs that could not have what the policy chose, and running jobs whose
        change does not pay.
        """
        snapshot, before, _, owed, level_of, eligible, sight, *_ = facts
        plan = Plan(snapshot, eligible.room.copy(), self._sizes)
        plan.may_pause = self._may_pause

        # 2 Jobs whose patience is over go first. What cannot start yet gets a reservation.
        stay = eligible.fixed.keys() | facts.in_turn.keys()
        reserving = Reserving(plan, self.belief, stay, level_of, resizes=self.inner.resizes)
        if owed is not None:
            late = {entry.job for entry in facts.entries}
            plan.room.quota = lambda job, size: job.id in late or owed.may_have(plan, job, size)
        reserved = reserving.serve(facts.entries, facts.outranked, facts.turns)
        parking = facts.parking

        def not_lent(job: Job) -> Set[Device]:
            own = reserved_from(job, reserved, level_of, self.belief, plan)
            return own | parking.kept_from(plan, job, level_of) if parking.jobs else own

        plan.room.not_lent = not_lent
        if not reserved:
            run_again(plan, facts.rings, facts.ousted, level_of)

        # 3 The policy decides about each level, the highest first, on what is left.
        # 4 Changes that cost their level more than they gain it are not made.
        asking = Asking(sight, plan, facts.notes, before.quiet, {*aside, *facts.in_turn})
        if self._joining is not None:
            self._joining.part(plan, facts.rings)
        refused: tuple[Part, ...] = ()
        for line in sorted({*sight.lines, *((*level, 0) for level in parking.levels(level_of))}):
            if parking.jobs:
                parking.go_on(plan, line[:2], level_of, asking.lower(line[:2]))
            settled = plan.changes.copy()
            asking.ask(line)
            if owed is not None and line[0] == OWED:
                owed.enforce(plan, eligible.waiting, eligible.fixed)
            refused += self._taken_back(plan, settled, parking.company)
            asking.restart(line)

        patience = Patience(reserved=tuple(reserved), turns=reserving.turns)
        return _Draft(plan, asking, patience, refused, asking.next_aside(refused))

    def _schedule(
        self, facts: _Facts, draft: _Draft, refused: Iterable[Part], first: _Draft
    ) -> Schedule:
        """What is made of the last round.

        refused: in any round. first: of the rounds, where the policy saw all; it is remembered.
        """
        plan, asking, reserved = draft.plan, draft.asking, draft.patience.reserved
        eligible, level_of, now = facts.eligible, facts.level_of, facts.snapshot.now

        # 5 What still waits may share devices, unless some are reserved.
        if self._joining is not None and not reserved:
            self._joining.join(plan, facts.rings, eligible, facts.ousted, level_of)

        if plan.room.kept_gib:
            leave_what_is_kept(plan)
        patience = draft.patience._replace(overtaken=facts.patient.after(plan.changes))
        changes, for_whom = plan.made(), plan.stopped_for()
        left = {part.jobs: part for part in refused if changes.keys().isdisjoint(part.jobs)}
        memory = Decision(
            *(first.asking.notes, first.asking.quiet, patience),
            *(eligible.hidden, tuple(left.values())),
            for_whom=_still(facts.before.for_whom, plan) | for_whom,
            used=facts.used._replace(holds=_held(plan, eligible)),
        )
        until = min(
            _after_refusals(asking.until, draft.refused, now),
            *(eligible.until, look_again_at(reserved, now), facts.next_at),
            *facts.in_turn.values(),
            *facts.parking.until(plan),
            *(part.pays_at for part in left.values()),
        )
        return Schedule(changes, until, memory, for_whom, _in_the_way(plan, facts))

    def _taken_back(
        self, plan: Plan, settled: Mapping[JobId, Allocation | None], company: Company
    ) -> tuple[Part, ...]:
        """Take back what one level changed and does not pay."""
        names = [
            name
            for name, new in plan.changes.items()
            if name not in settled or settled[name] != new
        ]
        if self._may_pause.freezes:
            freeze_those_soon_back(plan, names, company)
        weighed = parts(
            *(plan.snapshot, plan.changes, names, self.belief, plan.urgent, self._restart_s),
            paused=plan.paused,
        )
        refused = tuple(part for part in weighed if not part.pays)
        for part in refused:
            plan.take_back(part.jobs)
        if plan.room.taken is not None:
            _keep_within(plan, [part.jobs for part in weighed if part.pays])
        return refused

    def used(self, snapshot: Snapshot) -> Used:
        """What users have used until now."""
        last = remembered(snapshot.memory).used
        return last.until(snapshot.now, self.fairness.half_life_s) if self.fairness.on else last

    def line_of(self, snapshot: Snapshot, used: Used, level_of: LevelOf) -> LineOf:
        """Who is decided about first."""
        beyond = self.fairness.beyond(snapshot, used, resizes=self.inner.resizes)
        return lambda job: (*level_of(job), int(job.id in beyond))

    # -- what a policy is asked besides -----------------------------------------------------------

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        return never_fits(self.inner, spec, cluster)

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        return reason(self, remembered(snapshot.memory), snapshot, job)

    def take_over(self, memory: object) -> Decision:
        """Patience outlives a switch of policies, and a restart."""
        before = remembered(memory)
        notes = {key: self.inner.take_over(note) for key, note in before.policy.items()}
        return Decision(policy=notes, patience=before.patience, used=before.used)

    def entitlements(self, snapshot: Snapshot) -> Entitlements | None:
        """Who is within a quota; None without quotas."""
        if self.given is None:
            return None
        resizes = self.inner.resizes
        return Entitlements(snapshot, self.given, self.belief, self._may_pause, resizes=resizes)

    def standings(self, snapshot: Snapshot) -> Mapping[str, Standing] | None:
        if not self.fairness.on:
            return None
        used = self.used(snapshot)
        return self.fairness.standings(snapshot, used, resizes=self.inner.resizes)

    def quotas(self, snapshot: Snapshot) -> Quotas | None:
        return self.inner.quotas(snapshot) if self.given is None else self.given


def remembered(memory: object) -> Decision:
    """The last decision; an empty one at first and after a restart."""
    return memory if isinstance(memory, Decision) else Decision()


def _held(plan: Plan, eligible: Eligibility) -> dict[str, int]:
    """How many devices each user has once the plan is made."""
    rows, found = plan.snapshot.jobs, dict[str, int]()
    names = {job.id: None for job in eligible.holding} | dict.fromkeys(plan.changes)
    for name in names:
        held = plan.has(name)
        if held is not None and name not in plan.paused:
            owner = rows[name].spec.owner
            found[owner] = found.get(owner, 0) + held.size
    return found


def _outranked(eligible: Eligibility, level_of: LevelOf) -> Set[JobId]:
    """Waiting jobs of a lower level than another that could start."""
    first = min(map(level_of, eligible.in_sight()), default=None)
    return {job.id for job in eligible.waiting if first is not None and level_of(job) > first}


def _in_the_way(plan: Plan, facts: _Facts) -> frozenset[JobId]:
    """Jobs that start just now, and make way for one of a higher level once they run."""
    eligible, level_of = facts.eligible, facts.level_of
    starting = [job for job in eligible.holding if job.phase is Phase.STARTING]
    waiting = (*eligible.waiting, *facts.parking.jobs) if starting else ()
    levels = (level_of(job) for job in waiting if plan.has(job.id) is None)
    first = min(levels, default=None)
    late = (job.id for job in starting if first is not None and level_of(job) > first)
    return frozenset(late)


def _keep_within(plan: Plan, parts: Iterable[Sequence[JobId]]) -> None:
    """Take back what is too much for a user or tenant: what had to make way for it did not."""
    rows = plan.snapshot.jobs
    for names in parts:
        held = {name: plan.has(name) for name in names}
        more = [rows[name] for name, new in held.items() if new and new.size > rows[name].size]
        if any(plan.room.is_too_many(job, 0) for job in more):
            plan.take_back(names)
            plan.dropped |= {name: None for name in names if rows[name].allocation is None}


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
