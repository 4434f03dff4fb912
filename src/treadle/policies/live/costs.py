"""A running job is stopped or changed only if that gains a multiple of what it costs.

There is no time in which a job is left alone. A resize that stalls a job for 0.05 s pays within
seconds, a restart of 30 s needs minutes, and stopping a job that is about to end gains nothing.

Changes are split into parts that depend on one another, because one job gets what another leaves.
A part that starts jobs on free devices costs nothing and is made. One that starts none and from
which no job loses is made if it gains what it costs, there and back. Any other is made if it gains
at least TIMES its cost, in seconds of one job's time:

    gain = starts x the least time left of the part's running jobs   (they would wait that long)
         - for each job that is stopped: the shortest new job's run, or its time left if shorter
         + for each other job: what its speed rises by x how long that is expected to last

The rise is a share of the higher of both speeds, so that two equal jobs gain nothing by a swap.
What lasted so far is expected to last as long again, and at least twice what the change costs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.models.change_costs import change_s
from treadle.policies.live.room import asks_host
from treadle.policies.wrappers.views import Changes

TIMES = 4.0
BACK_TOO = 2.0  # the way there and the way back
SOON_S = 1.0  # a part that does not pay is not looked at again sooner


class Part(NamedTuple):
    """Changes that are made together or not at all."""

    jobs: tuple[JobId, ...]
    gain_s: float
    cost_s: float
    pays_at: float  # when it will pay if nothing happens; inf: never
    times: float = TIMES  # how often it is to gain its cost

    @property
    def pays(self) -> bool:
        return self.gain_s >= self.times * self.cost_s


def left_s(job: Job, belief: PerformanceModel, now: float) -> float:
    """How long a running job is expected to take still."""
    speed = job.iterations_per_s or belief.alone(job.spec, job.size or job.spec.asked)
    return job.remaining_at(now) / speed


def surely_left_s(job: Job, belief: PerformanceModel, now: float) -> float:
    """The same, for one that would be stopped: of an unknown length, no more than it has run."""
    left = left_s(job, belief, now)
    return min(left, job.held_at(now)) if job.spec.order_work else left


def parts(
    snapshot: Snapshot,
    changes: Changes,
    names: Iterable[JobId],
    belief: PerformanceModel,
    urgent: Set[JobId],
    unknown_s: float,
    paused: Mapping[JobId, Pause],
) -> list[Part]:
    """Of the changes those of these jobs, in parts. With an urgent job one is made at any cost.

    paused: of the jobs that are stopped, those that are paused instead.
    unknown_s: what a restart is assumed to cost a job of which it was not measured.
    """
    found = []
    for part in _linked(snapshot, {name: changes[name] for name in names}):
        runs = any(snapshot.jobs[name].allocation is not None for name in part)
        again_at = max(_grow_at(snapshot.jobs[name], changes[name]) for name in part)
        if not runs or not urgent.isdisjoint(part):
            found.append(Part(part, inf, 0.0, snapshot.now))
        elif again_at > snapshot.now:  # It was tried a moment ago, and could not be done.
            found.append(Part(part, 0.0, inf, again_at))
        else:
            found.append(_Weighing(snapshot, changes, belief, part, unknown_s, paused).part())
    return found


def _grow_at(job: Job, new: Allocation | None) -> float:
    """From when on the job may be given more devices, if it is to be."""
    held = job.allocation
    grows = held is not None and new is not None and held.grows_to(new)
    return job.grow_at if grows else 0.0


def _linked(snapshot: Snapshot, changes: Changes) -> Iterator[tuple[JobId, ...]]:
    """The names of jobs whose changes depend on one another, in the order given."""
    parent = {name: name for name in changes}

    def root(name: JobId) -> JobId:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    first: dict[Device | str, JobId] = {}
    for name, new in changes.items():
        job = snapshot.jobs[name]
        for each in (job.allocation, new):
            links: list[Device | str] = [] if each is None else [*each.devices]
            if each is not None and asks_host(job.spec):
                links += each.nodes()
            for link in links:
                parent[root(name)] = root(first.setdefault(link, name))
    together: dict[JobId, list[JobId]] = {}
    for name in changes:
        together.setdefault(root(name), []).append(name)
    return (tuple(names) for names in together.values())


class _Weighing:
    """What one part gains and costs."""

    def __init__(
        self,
        snapshot: Snapshot,
        changes: Changes,
        belief: PerformanceModel,
        names: Sequence[JobId],
        unknown_s: float,
        paused: Mapping[JobId, Pause],
    ) -> None:
        self._jobs, self._now, self._belief = snapshot.jobs, snapshot.now, belief
        self._unknown_s, self._paused = unknown_s, paused
        self._names = tuple(names)
        touched = {
            device
            for name in names
            for each in (changes[name], snapshot.jobs[name].allocation)
            if each is not None
            for device in each.devices
        }
        # What others are given or lose was weighed before.
        beside = {*snapshot.on(touched)} - changes.keys()
        # Who is on which device then: the part's jobs, and those that share devices with them.
        self._after: dict[JobId, Allocation | None] = {
            name: changes.get(name, snapshot.jobs[name].allocation)
            for name in (*names, *sorted(beside.difference(names)))
        }
        self._on: dict[Device, list[JobId]] = {}
        for name, new in self._after.items():
            for device in () if new is None else new.devices:
                self._on.setdefault(device, []).append(name)

    def part(self) -> Part:
        jobs = [self._jobs[name] for name in self._names]
        running = [job for job in jobs if job.allocation is not None]
        begun = [job for job in jobs if job.allocation is None]
        cost_s = sum(self._change_s(job) for job in running)
        runs_s = min((self._run_s(job) for job in begun), default=inf)
        gain_s = len(begun) * min(left_s(job, self._belief, self._now) for job in running)
        rate = 0.0  # by which the gain grows each second, while nothing happens
        times = TIMES if begun else BACK_TOO
        for name, new in self._after.items():
            job = self._jobs[name]
            if job.allocation is None:
                continue
            if new is None:
                gained_s, faster = -self._lost_s(job, runs_s), 0.0
            else:
                gained_s, faster = self._gained_s(job, new, runs_s)
            gain_s, rate = gain_s + gained_s, rate + faster
            times = TIMES if gained_s < 0 else times
        pays_at = self._pays_at(times * cost_s - gain_s, cost_s, rate, running)
        return Part(self._names, gain_s, cost_s, pays_at, times)

    def _change_s(self, job: Job) -> float:
        new, how = self._after[job.id], self._paused.get(job.id)
        if how is not None and job.allocation is not None:
            new = job.allocation.as_paused(how)
        return change_s(job, new, self._unknown_s)

    def _lost_s(self, job: Job, runs_s: float) -> float:
        """By how much a job ends later that is stopped."""
        least_s = surely_left_s(job, self._belief, self._now)
        return left_s(job, self._belief, self._now) if runs_s > least_s else runs_s

    def _gained_s(self, job: Job, new: Allocation, runs_s: float) -> tuple[float, float]:
        """What a job that runs on gains, and by how much that grows each second."""
        then = self._speed(job.id)
        now = job.iterations_per_s or then
        share = (then - now) / max(then, now)
        cost_s = change_s(job, new, self._unknown_s)
        lasts_s = max(self._now - max(job.since_at, job.begun_at), 2.0 * cost_s)
        most_s = min(left_s(job, self._belief, self._now), lasts_s)
        if share < 0:
            most_s = min(most_s, runs_s)
        return share * most_s, share if most_s == lasts_s else 0.0

    def _pays_at(self, short_s: float, cost_s: float, rate: float, running: Sequence[Job]) -> float:
        if short_s <= 0:
            return self._now
        if rate <= 0:
            return inf
        # A policy has timers of its own; a refusal is not to make it ask all the time.
        since_s = min(self._now - max(job.since_at, job.begun_at) for job in running)
        return self._now + max(short_s / rate, cost_s, SOON_S, 0.5 * since_s)

    def _run_s(self, job: Job) -> float:
        return job.remaining_at(self._now) / max(self._speed(job.id), 1e-9)

    def _speed(self, name: JobId) -> float:
        """Of a job after the changes, beside those that then share its devices."""
        new = self._after[name]
        assert new is not None, "it has devices then"
        others = {other for device in new.devices for other in self._on[device]} - {name}
        ring = [
            (self._jobs[other].spec, held)
            for other in sorted(others)
            if (held := self._after[other]) is not None
        ]
        return self._belief.iterations_per_s(self._jobs[name].spec, new, ring)
