"""weave on a cluster with two kinds of devices, GPUs and CPU slots.

Each job is first given a kind. Then each kind is a cluster of its own, on which jobs have the
speeds of that kind and the decision is the usual one. Where GPUs are too few, those jobs go to
slots that lose least worth by it for each GPU. A job that runs and is given the other kind moves;
the restart that this costs is counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.workers import is_cpu_only
from treadle.policies.base import costs
from treadle.policies.base.placement import Placement
from treadle.policies.weave.curve import Alone, Curve
from treadle.policies.weave.kinds import Kind, speeds_on, view
from treadle.policies.weave.worth import worths

if TYPE_CHECKING:
    from treadle.policies.weave.weave import Weave

_LOOK = 6.0  # times the devices: so much demand of the queue is weighed
_FURTHER = 500  # jobs behind those are given a kind, for a kind that few of those have
_REMEMBERED_MAX = 10_000
_LEAST = 1e-9


class Memory(NamedTuple):
    """What is carried from one decision to the next."""

    each: tuple[object, ...]  # of each kind's policy


class Offer(NamedTuple):
    """The fewest devices of a kind, and what each gets done, in work of the job's best kind."""

    devices: int
    each: float


Offers = Mapping[int, Offer]  # by the number of the kind: 0 GPUs, 1 slots


class _Options(NamedTuple):
    """What jobs with these curves could have."""

    curves: tuple[Curve, ...]  # of each kind; kept so that their identities stay their own
    kinds: tuple[int, ...]  # those on which such a job runs
    offers: Offers


class _Choice(NamedTuple):
    """The number of the kind that each job is given: of those that hold devices, then of the queue
    in order, as far as it is looked at."""

    kinds: Mapping[JobId, int]
    others: Sequence[int]  # jobs that are not looked at, by kind: as many as of those that are


class ByKind:
    """One policy for each kind of device of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        kinds: Sequence[Kind],
        belief: PerformanceModel,
        placement: Placement,
        make: Callable[[Alone], "Weave"],
        *,
        restart_s: float,
    ) -> None:
        self.cluster = cluster
        self._kinds = kinds
        self._speeds = [speeds_on(kind, belief, placement) for kind in kinds]
        self._each = [make(speed) for speed in self._speeds]
        self._restart_s = restart_s
        self._known: dict[tuple[int, ...], _Options] = {}  # by the curves' identities

    def never_fits(self, spec: JobSpec) -> str | None:
        """Why no kind has room for the job, or None."""
        reason: str | None = None
        for kind, policy in zip(self._kinds, self._each, strict=True):
            if not kind.suits(spec):
                continue
            found = policy.never_fits(spec, kind.cluster)
            if found is None:
                return None
            reason = reason or found
        return reason

    def decide(self, snapshot: Snapshot) -> Schedule:
        memory = self._memory(snapshot)
        choice = self._choice(snapshot, memory)
        targets: dict[JobId, Allocation] = {}
        memories: list[object] = []
        until = inf
        for number, policy in enumerate(self._each):
            seen = self._view(snapshot, choice, number, memory)
            schedule = policy.decide(seen, choice.others[number])
            until = min(until, schedule.valid_until)
            memories.append(schedule.memory)
            for identity, row in seen.jobs.items():
                target = schedule.changes.get(identity, row.allocation)
                if target is not None:
                    targets[identity] = target
        changes = Schedule.whole(snapshot, targets).changes
        return Schedule(changes, until, Memory(tuple(memories)))

    # -- kinds ----------------------------------------------------------------------------------

    def _choice(self, snapshot: Snapshot, memory: Memory) -> _Choice:
        now, none = snapshot.now, [0] * len(self._kinds)
        jobs, rest = self._looked_at(snapshot)
        if not jobs:
            return _Choice({}, none)
        values = [min(one.value(job, now) for one in self._able(job)) for job in jobs]
        order = sorted(range(len(jobs)), key=lambda i: (values[i], jobs[i].sequence))
        pairs = zip(self._each, memory.each, strict=True)
        power = sum(policy.power(own) for policy, own in pairs) / len(self._each)
        found = worths([values[i] for i in order], len(jobs) + len(rest), power)
        worth = [one for _, one in sorted(zip(order, found, strict=True))]
        offers = [self._offers(job, now) for job in jobs]
        numbers = split(offers, worth, [kind.cluster.device_count for kind in self._kinds])
        kinds = {job.id: number for job, number in zip(jobs, numbers, strict=True)}
        if not rest:
            return _Choice(kinds, none)
        for job in rest[:_FURTHER]:  # Ten thousand would take half a second.
            kinds[job.id] = _best(self._options(job.spec).offers)
        unseen = len(jobs) + len(rest) - len(kinds)
        seen = Counter(kinds.values())
        return _Choice(kinds, [unseen * seen[number] // len(kinds) for number in range(len(none))])

    def _looked_at(self, snapshot: Snapshot) -> tuple[list[Job], list[Job]]:
        """Jobs that are weighed, and those too far back in the queue for that."""
        jobs, queue = list(snapshot.holding()), list(snapshot.waiting())
        demand, count = _LOOK * self.cluster.device_count, 0
        while demand > 0 and count < len(queue):
            demand -= queue[count].spec.sizes[0]
            count += 1
        return [*jobs, *queue[:count]], queue[count:]

    def _offers(self, job: Job, now: float) -> Offers:
        """What a job would get done; of a kind on which it is not, less what its move costs."""
        offers = self._options(job.spec).offers
        if job.allocation is None:
            return offers
        left = max(min(one.left(job, now) for one in self._able(job)), _LEAST)
        move_s = costs.restart_s(job.spec, self._restart_s)
        return {
            number: one
            if self._kinds[number].part(job.allocation)
            else Offer(one.devices, one.each / (1.0 + move_s * one.devices * one.each / left))
            for number, one in offers.items()
        }

    def _able(self, job: Job) -> Iterator["Weave"]:
        """The policies of kinds on which it runs: a curve of any other has a unit of no meaning."""
        return (self._each[number] for number in self._options(job.spec).kinds)

    def _options(self, spec: JobSpec) -> _Options:
        curves = tuple(
            policy.curves.of(spec, kind.cluster.device_count)
            for kind, policy in zip(self._kinds, self._each, strict=True)
        )
        key = (is_cpu_only(spec), *(kind.suits(spec) for kind in self._kinds), *map(id, curves))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            known = self._known[key] = self._made(spec, curves)
        return known

    def _made(self, spec: JobSpec, curves: tuple[Curve, ...]) -> _Options:
        firsts = {
            number: curve.steps[0].size
            for number, curve in enumerate(curves)
            if self._kinds[number].suits(spec)
            and self._speeds[number](spec, curve.steps[0].size) > 0
        }
        if not firsts:  # One that runs nowhere now has to be somewhere.
            return _Options(curves, (0,), {0: Offer(spec.sizes[0], _LEAST)})
        unit = max(curves[number].unit for number in firsts)
        offers = {
            number: Offer(size, curves[number].rates[size] * curves[number].unit / unit / size)
            for number, size in firsts.items()
        }
        if len(offers) == 2 and self._looks_alike(spec):  # It does not lose less on slots, then.
            slots = offers[1]._replace(each=min(offers[1].each, offers[0].each * (1.0 - _LEAST)))
            offers = {0: offers[0], 1: slots} if spec.device_types else {0: offers[0]}
        return _Options(curves, tuple(firsts), offers)

    def _looks_alike(self, spec: JobSpec) -> bool:
        """Whether the belief does not tell the kinds apart. A job that makes use of a GPU, and does
        not ask for others too, then stays off them: they may be many times slower, and what it is
        seen to do there would be taken for its speed on a GPU."""
        if is_cpu_only(spec):
            return False
        first, *others = (speed(spec, spec.sizes[0]) for speed in self._speeds)
        return first > 0 and all(first == other for other in others)

    def _view(self, snapshot: Snapshot, choice: _Choice, number: int, memory: Memory) -> Snapshot:
        jobs = (snapshot.jobs[job] for job, one in choice.kinds.items() if one == number)
        own = memory.each[number]
        return view(snapshot, self._kinds[number], jobs, rank=self._each[number].rank, memory=own)

    def _memory(self, snapshot: Snapshot) -> Memory:
        found, count = snapshot.memory, len(self._kinds)
        if isinstance(found, Memory) and len(found.each) == count:
            return found
        return Memory((None,) * count)


def split(
    offers: Sequence[Offers], worths: Sequence[float], supplies: Sequence[float]
) -> list[int]:
    """The kind of each job: while GPUs are too few, slots to those that lose least by it.

    Jobs for which there is no room at all wait for the kind that they do best on.
    """
    found = [_best(own) for own in offers]
    room, (gpus, slots) = sum(supplies), supplies
    choices: list[tuple[float, int]] = []  # what is lost on slots for each device, and the job
    for i in sorted(range(len(found)), key=lambda i: -worths[i] * offers[i][found[i]].each):
        own = offers[i]
        room -= min(one.devices for one in own.values())
        if room < 0:
            break
        if len(own) == 2:
            choices.append((worths[i] * (own[0].each - own[1].each), i))
        if 0 in own:
            gpus -= own[0].devices
        else:
            slots -= own[1].devices
    for loss, i in sorted(choices):
        on_slots = offers[i][1].devices <= slots and (loss <= 0 or gpus < 0)
        found[i] = int(on_slots)
        if on_slots:
            slots -= offers[i][1].devices
            gpus += offers[i][0].devices
    return found


def _best(offers: Offers) -> int:
    """The kind that gets most done for each device."""
    return max(offers, key=lambda number: offers[number].each)
