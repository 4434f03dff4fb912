"""weave on a cluster with GPUs and CPU slots.

A model tells CPU slots from all other devices (models/workers.py). Each job is first given to one
of these two parts of the cluster. Then each part is a cluster of its own, on which jobs have the
speeds of its devices and the decision is the usual one. Where GPUs are too few, those jobs go to
slots that lose least worth by it for each GPU. A job that runs and is given to the other part
moves; the restart that this costs is counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import CPU, Cluster
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Ranker, Ranking
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.sizes.work import Alone, Curve
from treadle.models.workers import is_cpu_only, takes_slots
from treadle.policies.base.placement import Count, Placement
from treadle.policies.weave.places import WithinRacks
from treadle.policies.weave.worth import Worths
from treadle.policies.wrappers.views import let_go

if TYPE_CHECKING:
    from treadle.policies.weave.weave import Weave

LOOK = 6.0  # times the devices: so much demand of the queue is weighed
_FURTHER = 500  # jobs behind those are given a part, for a part that few of those suit
_REMEMBERED_MAX = 10_000
_LEAST = 1e-9


class Memory(NamedTuple):
    """What is carried from one decision to the next, by each part's policy."""

    each: tuple[object, ...] = (None, None)


class Offer(NamedTuple):
    """The fewest devices of a part, and what each does, in work of the job's best part."""

    devices: int
    each: float


Offers = Mapping[int, Offer]  # by the number of the part: 0 GPUs, 1 slots


class _Options(NamedTuple):
    """What jobs with these curves could have."""

    curves: tuple[Curve, ...]  # on each part; kept so that their identities stay their own
    parts: tuple[int, ...]  # those on which such a job runs
    offers: Offers


class GpusAndSlots:
    """One policy for the GPUs of a cluster and one for its CPU slots."""

    def __init__(
        self,
        parts: Sequence[Cluster],
        belief: PerformanceModel,
        placement: Placement,
        make: Callable[[Alone], "Weave"],
    ) -> None:
        self._parts = parts  # GPUs, then slots
        self._speeds = [speeds_on(part, belief, placement) for part in parts]
        self._each = [make(speed) for speed in self._speeds]
        self._known: dict[tuple[int, ...], _Options] = {}  # by the curves' identities

    def never_fits(self, spec: JobSpec) -> str | None:
        """Why no part has room for the job, or None."""
        found = [
            self._each[number].never_fits(spec, part)
            for number, part in enumerate(self._parts)
            if _suits(spec, number)
        ]
        return None if None in found or not found else found[0]

    def decide(self, snapshot: Snapshot) -> Schedule:
        memory = snapshot.memory if isinstance(snapshot.memory, Memory) else Memory()
        choice, others = self._choice(snapshot, memory)
        targets: dict[JobId, Allocation] = {}
        memories: list[object] = []
        until = inf
        for number, policy in enumerate(self._each):
            jobs = (snapshot.jobs[job] for job, one in choice.items() if one == number)
            own = memory.each[number]
            seen = _view(snapshot, self._parts[number], jobs, rank=policy.rank, memory=own)
            schedule = policy.decide(seen, others[number])
            until = min(until, schedule.valid_until)
            memories.append(schedule.memory)
            for identity, row in seen.jobs.items():
                target = schedule.changes.get(identity, row.allocation)
                if target is not None:
                    targets[identity] = target
        changes = Schedule.whole(snapshot, targets).changes
        return Schedule(changes, until, Memory(tuple(memories)))

    # -- parts ----------------------------------------------------------------------------------

    def _choice(self, snapshot: Snapshot, memory: Memory) -> tuple[Mapping[JobId, int], list[int]]:
        """The number of the part that each job is given: of those that hold devices, then of the
        queue in order; and how many of each part are likely among those not looked at."""
        now = snapshot.now
        jobs, rest = self._looked_at(snapshot)
        if not jobs:
            return {}, [0, 0]
        values = [min(one.value(job, now) for one in self._able(job)) for job in jobs]
        pairs = zip(self._each, memory.each, strict=True)
        power = sum(policy.power(own) for policy, own in pairs) / len(self._each)
        worths = Worths(values, (), len(rest), power)
        offers = [self._offers(job, now) for job in jobs]
        worth = [worths.of(value) for value in values]
        numbers = split(offers, worth, [part.device_count for part in self._parts])
        chosen = {job.id: number for job, number in zip(jobs, numbers, strict=True)}
        for job in rest[:_FURTHER]:  # Ten thousand would take half a second.
            chosen[job.id] = _best(self._options(job.spec).offers)
        unseen = len(jobs) + len(rest) - len(chosen)
        seen = Counter(chosen.values())
        return chosen, [unseen * seen[number] // len(chosen) for number in (0, 1)]

    def _looked_at(self, snapshot: Snapshot) -> tuple[list[Job], list[Job]]:
        """Jobs that are weighed, and those too far back in the queue for that."""
        jobs, queue = list(snapshot.holding()), list(snapshot.waiting())
        demand, count = LOOK * sum(part.device_count for part in self._parts), 0
        while demand > 0 and count < len(queue):
            demand -= queue[count].spec.sizes[0]
            count += 1
        return [*jobs, *queue[:count]], queue[count:]

    def _offers(self, job: Job, now: float) -> Offers:
        """What a job would do; on a part on which it is not, less what its move costs."""
        offers = self._options(job.spec).offers
        if job.allocation is None:
            return offers
        left = max(min(one.left(job, now) for one in self._able(job)), _LEAST)
        move_s, nodes = self._each[0].restart_s(job), job.allocation.nodes()
        return {
            number: one
            if not self._parts[number].names.isdisjoint(nodes)
            else Offer(one.devices, one.each / (1.0 + move_s * one.devices * one.each / left))
            for number, one in offers.items()
        }

    def _able(self, job: Job) -> Iterator["Weave"]:
        """The policies of parts on which it runs: a curve of another has a unit of no meaning."""
        return (self._each[number] for number in self._options(job.spec).parts)

    def _options(self, spec: JobSpec) -> _Options:
        curves = tuple(
            policy.curves.of(spec, part.device_count)
            for part, policy in zip(self._parts, self._each, strict=True)
        )
        key = (is_cpu_only(spec), _suits(spec, 0), _suits(spec, 1), *map(id, curves))
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
            if _suits(spec, number) and self._speeds[number](spec, curve.steps[0].size) > 0
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
        """Whether the belief does not tell the parts apart. A job that makes use of a GPU, and does
        not ask for others too, then stays off them: they may be many times slower, and what it is
        seen to do there would be taken for its speed on a GPU."""
        on_gpus, on_slots = (speed(spec, spec.sizes[0]) for speed in self._speeds)
        return not is_cpu_only(spec) and on_gpus == on_slots > 0


def parts_of(cluster: Cluster) -> list[Cluster]:
    """The GPUs of a cluster, then its CPU slots, each as a cluster; those that there are."""
    slots = cluster.by_type.get(CPU, frozenset())
    return [cluster.part(own) for own in (cluster.names - slots, slots) if own]


def speeds_on(part: Cluster, belief: PerformanceModel, placement: Placement) -> Alone:
    """A job's speed on so many of these devices, placed as well as can be; 0 if there are fewer."""
    free = FreeDevices.of(part)
    placement = WithinRacks(placement, part)
    known: dict[int, Allocation | None] = {}

    def alone(spec: JobSpec, size: int) -> float:
        if size not in known:
            devices = placement.place(free, size) or Count().place(free, size)
            known[size] = None if devices is None else Allocation(devices)
        allocation = known[size]
        return 0.0 if allocation is None else belief.iterations_per_s(spec, allocation, ())

    return alone


def _suits(spec: JobSpec, number: int) -> bool:
    """Whether a job may use devices of a part; one whose user named no types may."""
    if not spec.device_types:
        return True
    return takes_slots(spec) if number else not is_cpu_only(spec)


def _view(
    snapshot: Snapshot, part: Cluster, jobs: Iterable[Job], *, rank: Ranker, memory: object
) -> Snapshot:
    """One part as a cluster of its own, with these jobs and no others.

    jobs: those that wait in the policy's order. One that holds only devices elsewhere waits from
    now on, as this part sees it.
    """
    now = snapshot.now
    rows = {job.id: _seen(job, part, now) for job in jobs}
    free = snapshot.free.only(part.names)
    tenants = {}
    for device, turns in snapshot.tenants.items():
        if device.node in part.names:
            stay = {turn: job for turn, job in turns.items() if job in rows}
            if stay:
                tenants[device] = stay
            else:
                free.give((device,))
    ranking = Ranking(rank)
    for row in rows.values():
        ranking.put(row, now)
    return Snapshot(now, part, rows, free, tenants, ranking, memory)


def _seen(job: Job, part: Cluster, now: float) -> Job:
    held = job.allocation
    if held is None:
        return job
    own = tuple(device for device in held.devices if device.node in part.names)
    if len(own) == len(held.devices):
        return job
    if own:  # The others are lent to it.
        return job.settled(now)._replace(allocation=Allocation(own, turn=held.turn))
    return let_go(job, now)


def split(
    offers: Sequence[Offers], worths: Sequence[float], supplies: Sequence[float]
) -> list[int]:
    """The part of each job: while GPUs are too few, slots to those that lose least by it.

    Jobs for which there is no room at all wait for the part that they do best on.
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
    """The part on which a device does most."""
    return max(offers, key=lambda number: offers[number].each)
