"""weave: sizes, sharing, order and place by one price for a device.

1. A unit of each job's work has a worth (worth.py), and each device that a job is given brings so
   many units a second (curve.py). Steps of all jobs are taken in the order of worth x gain for each
   device, as if the cluster were f times as large.
2. The answer is folded onto the real cluster: groups of equal size share devices, those first that
   lose least for each device that they save (fold.py).
3. Layouts are improved by small changes, as is what runs now (improve.py).
4. The f is taken whose groups are worth most in all. f = 1 means that no job shares.
5. Groups stay where a member is (places.py).

Most decisions only look at what is new (seen.py), and leave the rest as it is.

With f = 1 and elastic jobs this is close to AFS with heSRPT's weights; with rigid jobs to Muri's
grouping in order of remaining service; with neither to shortest remaining service first.
"""

from collections.abc import Collection, Iterable
from functools import cache
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.company import smallest_device_gib
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobSpec
from treadle.core.ports import InterleavingModel
from treadle.core.ranking import Rank
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.change_costs import RESTART_S, resize_s, restart_s
from treadle.models.forecasts import forecaster
from treadle.models.plans.best_plans import BestPlans
from treadle.models.sizes.work import Alone, Curve, Curves
from treadle.policies.base.companions import GROUP_MAX
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import Sharing
from treadle.policies.weave.candidate import Candidate
from treadle.policies.weave.fold import Folding
from treadle.policies.weave.gpus_and_slots import LOOK, GpusAndSlots, parts_of, speeds_on
from treadle.policies.weave.layout import Layout, Layouts
from treadle.policies.weave.places import WithinRacks, place
from treadle.policies.weave.seen import Look, News, Seen, by_devices, level_of, look, next_look_at
from treadle.policies.weave.sharing import SharedSpeeds
from treadle.policies.weave.worth import Worths

_NEWER = 1 / 16  # weight of the newest figure in what is carried on
_NEXT = 4  # waiting jobs; if one of them has never run, changes are weighed more often


class _Memory(NamedTuple):
    """What is carried from one decision to the next."""

    fold: int = 0
    power: float = 0.5
    seen: Seen = Seen()


class Levers(NamedTuple):
    """What a user may set: what may be decided, and how much is asked of a change."""

    power: float  # the elasticity of work to devices; inf: measured
    group: int  # most jobs on the same devices
    least: float  # what jobs that share must do together, where one job alone does 1
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
    """Sizes, sharing, order and place by one price for a device; lengths known or believed.

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
        self._plans = BestPlans(belief)
        self.curves = Curves(belief, self._plans.alone, resizes=sizes)
        self._cluster: Cluster | None = None
        self._near = WithinRacks(placement, Cluster(()))
        self._parts: GpusAndSlots | None = None
        self._shared = SharedSpeeds(belief, largest=group, least=least)
        self._folding = Folding(self._shared)

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
        return float(level_of(job.service_at(now)))

    def left(self, job: Job, now: float) -> float:
        """Work left; of a job of unknown length, as much as it was given."""
        if not self.known:
            return job.service_at(now)
        return job.remaining_at(now) / self.curves.of(job.spec).unit

    def restart_s(self, job: Job) -> float:
        return restart_s(job.spec, self._levers.restart_s)

    # -- GPUs and CPU slots ---------------------------------------------------------------------

    def power(self, memory: object) -> float:
        return _memory(memory).power if self._levers.power == inf else self._levers.power

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        parts = self._parts_of(cluster)
        return super().never_fits(spec, cluster) if parts is None else parts.never_fits(spec)

    def _parts_of(self, cluster: Cluster) -> GpusAndSlots | None:
        """A policy for GPUs and one for CPU slots, if there are both."""
        if self._cluster is not cluster:
            self._cluster = cluster
            self._near = WithinRacks(self._placement, cluster)
            alone: Alone = self._belief.alone
            if self._near.several:  # A size for which no rack has room may be a slow one.
                alone = speeds_on(cluster, self._belief, self._placement)
            self._plans.on(cluster, alone)
            self.curves.forget()
            parts, self._parts = parts_of(cluster), None
            if len(parts) > 1:
                self._parts = GpusAndSlots(parts, self._belief, self._placement, self._on_part)
        return self._parts

    def _on_part(self, alone: Alone) -> "Weave":
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
        parts = self._parts_of(snapshot.cluster)
        if parts is not None:
            return parts.decide(snapshot)
        return self._decided(snapshot, _memory(snapshot.memory), others)

    def _decided(self, snapshot: Snapshot, memory: _Memory, others: int) -> Schedule:
        most, queue, seen = snapshot.supply, snapshot.ranking.queue, memory.seen
        holding = {job.spec.id: job for job in snapshot.holding()}
        held = {name: own for name, job in holding.items() if (own := job.allocation)}
        looks = {name: self._look(holding[name], own, snapshot) for name, own in held.items()}
        groups = by_devices(held, looks)
        if not queue and self._all_have_the_best(snapshot, holding.values()):
            return Schedule(memory=memory._replace(seen=Seen(groups, {}, {}, 0)))
        waiting = self._first(snapshot, most)
        sharing = getattr(self._belief, "revision", None)
        curves = {job.spec.id: self.curves.of(job.spec, most) for _, job in waiting}
        news = seen.news(groups, curves, sharing)
        anew = seen.is_far(news, len(holding) + len(waiting))
        if anew or snapshot.free.total:
            waiting = self._first(snapshot, LOOK * most)
        running = [(job, looks[name].mark.curve) for name, job in holding.items()]
        jobs = self._candidates(snapshot, running, waiting, self.power(memory), others)
        layouts = Layouts(self._shared, self._folding, jobs, most)
        if anew:
            layout, memory = self._anew(layouts, news, memory)
        else:
            layout = layouts.going_on(news)
        allocations = place(snapshot, self._near, layouts.wanted(layout), layouts.each_alone())
        allocations = self._plans.named(snapshot.jobs, allocations)
        changes = Schedule.whole(snapshot, allocations).changes
        planned = groups
        if changes:
            for name in changes:
                looks.pop(name, None)
            for name, new in allocations.items():
                if name in changes:
                    looks[name] = self._look(snapshot.jobs[name], new, snapshot, changed=True)
            planned = by_devices(allocations, looks)
        left = {
            one.job.spec.id: one.curve
            for one in jobs
            if not one.held or one.job.spec.id not in looks
        }
        seen = Seen(planned, groups, left, 0 if anew else seen.changes + news.changes, sharing)
        until = self._next_look_at(snapshot, looks.values()) if queue else inf
        return Schedule(changes, until, memory._replace(seen=seen))

    def _anew(self, layouts: Layouts, news: News, memory: _Memory) -> tuple[Layout, _Memory]:
        """A layout of all jobs, and what to remember of it."""
        fold, layout = layouts.best(memory.fold, news)
        weight = 1.0 - (1.0 - _NEWER) ** max(memory.seen.changes + news.changes, 1)
        power = memory.power + (layouts.power(layout) - memory.power) * weight
        return layout, memory._replace(fold=fold, power=power)

    def _all_have_the_best(self, snapshot: Snapshot, holding: Collection[Job]) -> bool:
        """Whether each job is alone on as many devices as it can make use of."""
        most = snapshot.supply
        return sum([job.size for job in holding]) == len(snapshot.tenants) and all(
            job.size == self.curves.of(job.spec, most).steps[-1].size for job in holding
        )

    def _next_look_at(self, snapshot: Snapshot, looks: Collection[Look]) -> float:
        """When to decide again although nothing happens, because jobs wait."""
        now = snapshot.now
        first = (snapshot.jobs[row[2]] for row in snapshot.ranking.queue[:_NEXT])
        return next_look_at(looks, now, often=any(not job.service_at(now) for job in first))

    def _look(
        self, job: Job, held: Allocation, snapshot: Snapshot, *, changed: bool = False
    ) -> Look:
        curve = self.curves.of(job.spec, snapshot.supply)
        least_s = resize_s(job.spec, self._levers.restart_s)  # the cheapest change of it
        return look(job, held, curve, snapshot.now, least_s, known=self.known, changed=changed)

    def _first(self, snapshot: Snapshot, demand: float) -> list[tuple[float, Job]]:
        """The first waiting jobs that want so many devices, with their values."""
        empty, jobs = snapshot.emptied(), snapshot.jobs
        fits = cache(lambda size: self._placement.place(empty, size) is not None)
        found = []
        for value, _, name in snapshot.ranking.queue:
            if demand <= 0:
                break
            job = jobs[name]
            least = job.spec.sizes[0]
            if fits(least):
                found.append((value, job))
                demand -= least
        return found

    def _candidates(
        self,
        snapshot: Snapshot,
        holding: Iterable[tuple[Job, Curve]],
        waiting: Iterable[tuple[float, Job]],
        power: float,
        others: int,
    ) -> list[Candidate]:
        """The jobs in order."""
        now, most, of = snapshot.now, snapshot.supply, self.curves.of
        rows = [(self.value(job, now), False, job.sequence, job, curve) for job, curve in holding]
        worths = Worths([row[0] for row in rows], snapshot.ranking.queue, others, power)
        rows += [(value, True, job.sequence, job, of(job.spec, most)) for value, job in waiting]
        rows.sort()
        self._folding.begin(forget=self._shared.refresh(smallest_device_gib(snapshot.cluster)))
        found = []
        for number, (value, waits, _, job, curve) in enumerate(rows):
            worth = worths.of(value)
            if job.spec.deadline_at is not None:
                worth *= self._haste(job, job.spec.deadline_at, now, curve)
            one = Candidate(job, curve, worth, self._shared.kind(job.spec), 1 << number)
            if not waits:
                # What is left, but no more than it did since it was last changed: a job that was
                # changed a moment ago is as likely to be changed again in another.
                restart = self.restart_s(job)
                done = max(now - job.begun_at, 2.0 * restart) * one.held
                left = job.remaining_at(now) / curve.unit if self.known else job.service_at(now)
                resize = resize_s(job.spec, self._levers.restart_s)
                one.runs(min(left, done), restart, resize)
            found.append(one)
        return found

    def _haste(self, job: Job, deadline_at: float, now: float, curve: Curve) -> float:
        """What its deadline makes of a job's worth, as a factor."""
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
