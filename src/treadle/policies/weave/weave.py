"""weave: sizes, company, order and place by one price for a device.

1. A unit of each job's work has a worth (worth.py), and each device that a job is given brings so
   many units a second (curve.py). Steps of all jobs are taken in the order of worth x gain for each
   device, as if the cluster were f times as large.
2. The answer is folded onto the real cluster: groups of equal size share devices, those first that
   lose least for each device that they save (company.py).
3. Plans are improved by small changes, as is what runs now (improve.py).
4. The f is taken whose groups are worth most in all. f = 1 means that no job shares.
5. Groups stay where a member is (places.py).

With f = 1 and elastic jobs this is close to AFS with heSRPT's weights; with rigid jobs to Muri's
grouping in order of remaining service; with neither to shortest remaining service first.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.company import smallest_device_gib
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import InterleavingModel
from treadle.core.ranking import Rank
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.forecasts import forecaster
from treadle.policies.base.companions import GROUP_MAX
from treadle.policies.base.costs import RESTART_S, restart_s
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import Sharing
from treadle.policies.weave.anew import MANY, Anew
from treadle.policies.weave.by_kind import LOOK, ByKind, kinds_of, speeds_on
from treadle.policies.weave.company import Company
from treadle.policies.weave.curve import Alone, Curves
from treadle.policies.weave.decision import Decision
from treadle.policies.weave.places import WithinRacks, place
from treadle.policies.weave.plans import Plans
from treadle.policies.weave.worth import worths

_NEWER = 1 / 16  # weight of the newest figure in what is carried on
_SETTLED = 4.0  # restarts: after so long, one counts for little
_LOOKS = 2  # at that age, and at twice that if one of the next jobs has never run
_NEXT = 4
_QUANTUM_S = 3600.0  # without lengths: where the first class ends, in device-seconds
_RATIO = 4.0  # of the ends of two classes


class _Memory(NamedTuple):
    """What is carried from one decision to the next."""

    fold: int = 0
    power: float = 0.5
    jobs: tuple[int, int] = (0, 0)  # how many wait, and the sum of the numbers of the others
    anew: Anew = Anew()


class Levers(NamedTuple):
    """What a user may set: what may be decided, and how much is asked of a change."""

    power: float  # the elasticity of work to devices; inf: measured
    group: int  # most jobs on the same devices
    least: float  # what company must get done, where one job alone gets 1 done
    sizes: bool  # jobs may have other sizes than they ask for
    restart_s: float  # what a restart takes, where it was not measured
    deadline: float  # what a job gains in worth that has no time to lose

    def check(self, policy: str) -> None:
        """Raise an error if one means nothing."""
        wanted = (
            ("power", "from 0 to 1, or inf: measured", 0 <= self.power <= 1 or self.power == inf),
            ("group", "1 to 4 jobs", 1 <= self.group <= GROUP_MAX),
            ("least", "1 or more", self.least >= 1),
            ("restart_s", "0 or more", self.restart_s >= 0),
            ("deadline", "0 (off) or more", self.deadline >= 0),
        )
        for name, expected, is_right in wanted:
            if not is_right:
                found = getattr(self, name)
                raise InvalidInputError(f"{policy} {name} must be {expected}, not {found:g}")


class Weave(Sharing):
    """Sizes, company, order and place by one price for a device; lengths known or believed.

    deadline: what a job gains in worth that has no time to lose; 0 is none.
    """

    shares = True
    knows_slots = True
    name = "weave"
    known = True  # lengths

    def __init__(
        self,
        placement: Placement,
        belief: InterleavingModel,
        *,
        power: float = inf,
        group: int = GROUP_MAX,
        least: float = 1.05,
        sizes: bool = True,
        restart_s: float = RESTART_S,
        deadline: float = 0.5,
    ) -> None:
        super().__init__(placement)
        self._levers = Levers(power, group, least, sizes, restart_s, deadline)
        self._levers.check(self.name)
        self._lengths = forecaster(belief)
        self._belief = belief
        self._plans = Plans(belief)
        self.curves = Curves(belief, self._plans.alone, resizes=sizes)
        self._cluster: Cluster | None = None
        self._near = WithinRacks(placement, Cluster(()))
        self._by_kind: ByKind | None = None
        self._company = Company(belief, largest=group, least=least)

    # -- order ----------------------------------------------------------------------------------

    def rank(self, job: Job, now: float) -> Rank:
        return Rank(0.0 if job.allocation is not None else self.value(job, now))

    def value(self, job: Job, now: float) -> float:
        """Work left, in device-seconds at its best; or the class of what it was given."""
        if self.known:
            found = self._lengths.forecast(job, now)
            # An end that cannot be predicted yet says less than the length that the job declares.
            left = found.remaining if found.predictable else job.order_at(now)
            return left / self.curves.of(job.spec).unit
        served, level = job.service_at(now) / _QUANTUM_S, 0.0
        while served >= 1.0:
            served /= _RATIO
            level += 1.0
        return level

    def left(self, job: Job, now: float) -> float:
        """Work left; of a job of unknown length, as much as it was given."""
        if not self.known:
            return job.service_at(now)
        return job.remaining_at(now) / self.curves.of(job.spec).unit

    def _to_gain(self, job: Job, now: float) -> float:
        """The work that a restart is weighed against.

        It is what is left, but no more than the job got done since it was last changed: one that
        was changed a moment ago is as likely to be changed again in another.
        """
        since_s = max(now - job.begun_at, 2.0 * self.restart_s(job))
        return min(self.left(job, now), since_s * job.size) if job.size else inf

    def restart_s(self, job: Job) -> float:
        return restart_s(job.spec, self._levers.restart_s)

    def _settles_at(self, job: Job, now: float, *, changed: bool, looks: int) -> float:
        """When another change of the job costs much less than now; inf: it does not.

        A restart weighs half as much when twice the time has passed since the last one.
        """
        begun, after = now if changed else job.begun_at, _SETTLED * self.restart_s(job)
        for _ in range(looks):
            if begun + after > now:
                return begun + after
            after *= 2.0
        return inf

    def _class_ends_at(self, job: Job, size: int, now: float) -> float:
        """When it has been given so much on so many devices that it is of the next class."""
        limit_s: float = _QUANTUM_S * _RATIO ** self.value(job, now)
        return now + max((limit_s - job.service_at(now)) / size, 1.0)

    # -- kinds of devices -----------------------------------------------------------------------

    def power(self, memory: object) -> float:
        return _memory(memory).power if self._levers.power == inf else self._levers.power

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        by_kind = self._kinds(cluster)
        return super().never_fits(spec, cluster) if by_kind is None else by_kind.never_fits(spec)

    def _kinds(self, cluster: Cluster) -> ByKind | None:
        """A policy for each kind of device, if there are several."""
        if self._cluster is not cluster:
            self._cluster = cluster
            self._near = WithinRacks(self._placement, cluster)
            alone: Alone = self._belief.alone
            if self._near.several:  # A size for which no rack has room may be a slow one.
                alone = speeds_on(cluster, self._belief, self._placement)
            self._plans.on(cluster, alone)
            self.curves.forget()
            kinds, self._by_kind = kinds_of(cluster), None
            if len(kinds) > 1:
                self._by_kind = ByKind(kinds, self._belief, self._placement, self._on_kind)
        return self._by_kind

    def _on_kind(self, alone: Alone) -> "Weave":
        policy = type(self)(self._placement, self._belief, **self._levers._asdict())
        policy.curves = Curves(self._belief, alone, resizes=self._levers.sizes)
        return policy

    # -- decision -------------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot, others: int = 0) -> Schedule:
        """others: jobs in the system that are not in the snapshot, far back in the queue."""
        # Jobs on nodes that are being drained run on, and get no other devices.
        knows = snapshot.free.knows
        held = ((job, job.allocation) for job in snapshot.holding())
        snapshot = snapshot.keeping([job for job, own in held if own and not knows(own.devices)])
        by_kind = self._kinds(snapshot.cluster)
        if by_kind is not None:
            return by_kind.decide(snapshot)
        now, queue = snapshot.now, snapshot.ranking.queue
        holding = list(snapshot.holding())
        memory = _memory(snapshot.memory)
        if not holding and not queue:
            return Schedule(memory=memory)
        total = len(holding) + len(queue) + others
        decision = self._decision(snapshot, holding, memory, total)
        fold, plan = memory.fold, None
        if memory.anew.holds(now, total, len(decision.jobs)):
            plan = decision.carried_on(snapshot.supply)
        anew = memory.anew.later() if plan is not None else Anew(now, total)
        if plan is None:
            fold, plan = decision.best(snapshot.supply, memory.fold)
        allocations = place(snapshot, self._near, decision.wanted(plan), decision.each_alone())
        allocations = self._plans.named(snapshot.jobs, allocations)
        changes = Schedule.whole(snapshot, allocations).changes
        power, jobs = memory.power, (len(queue), sum([job.sequence for job in holding]))
        # A decision that is made again about the same jobs is the same.
        if jobs != memory.jobs and not anew.since:
            weight = 1.0 - (1.0 - _NEWER) ** (1 + memory.anew.since)
            power += (decision.power(plan) - power) * weight
        until = self._until(snapshot, allocations, changes) if queue else inf
        if queue and len(decision.jobs) >= MANY:
            until = min(until, anew.ends_at)
        return Schedule(changes, until, _Memory(fold, power, jobs, anew))

    def _until(
        self,
        snapshot: Snapshot,
        allocations: Mapping[JobId, Allocation],
        changes: Mapping[JobId, Allocation | None],
    ) -> float:
        """When to decide again although nothing happens, because jobs wait."""
        now = snapshot.now
        # What was not worth a restart may be so soon.
        first = (snapshot.jobs[row[2]] for row in snapshot.ranking.queue[:_NEXT])
        looks = _LOOKS if any(not job.service_at(now) for job in first) else 1
        settle = [
            self._settles_at(snapshot.jobs[job], now, changed=job in changes, looks=looks)
            for job in allocations
        ]
        until = min(settle, default=inf)
        if not self.known:
            for identity, allocation in allocations.items():
                job = snapshot.jobs[identity]
                until = min(until, self._class_ends_at(job, allocation.size, now))
        return until

    def _decision(
        self, snapshot: Snapshot, holding: Sequence[Job], memory: _Memory, total: int
    ) -> Decision:
        """The jobs in order: those that hold devices, and as much of the queue as could share.

        total: jobs in the system.
        """
        now, queue = snapshot.now, snapshot.ranking.queue
        rows = [(self.value(job, now), not job.size, job.sequence, job) for job in holding]
        demand, empty = LOOK * snapshot.supply, snapshot.emptied()
        fits = cache(lambda size: self._placement.place(empty, size) is not None)
        for value, _, identity in queue:
            if demand <= 0:
                break
            job = snapshot.jobs[identity]
            if fits(job.spec.sizes[0]):
                rows.append((value, True, job.sequence, job))
                demand -= job.spec.sizes[0]
        rows.sort()
        worth = worths([row[0] for row in rows], total, self.power(memory))
        self._company.refresh(smallest_device_gib(snapshot.cluster))
        jobs = [row[3] for row in rows]
        most = snapshot.supply
        worth = [own * self._haste(job, now, most) for own, job in zip(worth, jobs, strict=True)]
        left = [self._to_gain(job, now) for job in jobs]
        curves = [self.curves.of(job.spec, most) for job in jobs]
        return Decision(self._company, jobs, worth, left, curves, self._levers.restart_s)

    def _haste(self, job: Job, now: float, most: int) -> float:
        """What its deadline makes of a job's worth, as a factor; most: devices that there are."""
        deadline_at = job.spec.deadline_at
        if deadline_at is None or not self._levers.deadline:
            return 1.0
        curve = self.curves.of(job.spec, most)
        if self.known:
            left_s = job.remaining_at(now) / (max(curve.rates.values()) * curve.unit)
        else:
            left_s = job.spec.estimate_s - job.held_at(now)
        return 1.0 + self._levers.deadline * urgency(left_s, deadline_at - now)


def urgency(left_s: float, allowed_s: float) -> float:
    """The share of the time until its deadline that a job needs at its fastest, 0 to 1.

    0 as well if it cannot make it any more: no other job should wait for it then.
    """
    return left_s / allowed_s if 0 < left_s <= allowed_s else 0.0


def _memory(memory: object) -> _Memory:
    return memory if isinstance(memory, _Memory) else _Memory()


class WeaveL(Weave):
    """The same without lengths: by classes of what jobs were given.

    deadline: what a job gains in worth that has no time to lose, if its user said how long it
    takes; 0 is none.
    """

    name = "weave-l"
    known = False
