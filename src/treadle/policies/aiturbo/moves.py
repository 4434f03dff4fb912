"""Moves of devices between jobs, and what they are worth: the mechanics of AITurbo's rounds.

GPUs and CPU slots are two pools of free devices. Jobs run on GPUs, those that have no use for one
on slots, as do jobs whose users said that they may while no GPU is free. Idle slots are lent to
jobs on GPUs, and called back for jobs that have no use for one. The worth of a move is the
remaining time that it saves over the share of the pool that it takes, so both kinds are paid in one
currency.

The remaining work of a job that cannot be predicted is unknown. For a move, and only there, it is
assumed to equal the work done so far, which is what to expect where few jobs are long.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import CPU, Cluster, Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.models.change_costs import resize_s
from treadle.models.forecasts import forecaster
from treadle.models.workers import is_cpu_only, says_slots, takes_slots
from treadle.policies.base.placement import Count, Placement
from treadle.policies.base.shares import kept

_PAYS = 2.0  # times what a restart costs a move must save
_YOUNG_S = 60.0  # what a job is taken to need that has had nothing yet


class Values:
    """The estimated value of jobs and of moves."""

    def __init__(self, belief: PerformanceModel, restart_s: float) -> None:
        self._belief = belief
        self._lengths = forecaster(belief)
        self._restart_s = restart_s

    def of(self, job: Job, now: float) -> tuple[float | None, bool]:
        """A round of running saves a round; it is worth that over the service still to be paid."""
        forecast = self._lengths.forecast(job, now)
        if not forecast.predictable:
            return None, True
        size = job.size or job.spec.sizes[0]
        return self._belief.alone(job.spec, size) / (max(forecast.remaining, 1e-9) * size), True

    def best_move(self, job: Job, now: float) -> tuple[float | None, bool]:
        """Time saved for each device by the next step up, or lost by the next down; and which."""
        forecast = self._lengths.forecast(job, now)
        if not forecast.predictable:
            return None, True
        spec, size, left = job.spec, job.size, forecast.remaining
        larger, smaller = self.larger(spec, size), self.smaller(spec, size)
        if larger:
            saved_s = self.saved_s(spec, left, size, larger)
            if not smaller or saved_s >= self.pays_s(spec):
                return saved_s / (larger - size), True
        return -self.saved_s(spec, left, smaller, size) / (size - smaller), False

    def left(self, job: Job, now: float) -> float:
        """Iterations that a job is taken to need."""
        forecast = self._lengths.forecast(job, now)
        if forecast.predictable:
            return forecast.remaining
        return max(job.iterations_at(now), _YOUNG_S * self._belief.alone(job.spec, job.spec.asked))

    def saved_s(self, spec: JobSpec, left: float, size: int, larger: int) -> float:
        """Time that a job saves on more devices; on none, it is taken to run half the time."""
        slow = self._belief.alone(spec, size) if size else self._belief.alone(spec, larger) / 2.0
        return left / slow - left / self._belief.alone(spec, larger)

    def saved_by_s(self, job: Job, now: float, new: tuple[Device, ...]) -> float:
        """Time that a job saves on exactly these devices."""
        assert job.allocation is not None, "asked of jobs that run"
        left = self.left(job, now)
        before = self._belief.iterations_per_s(job.spec, job.allocation, ())
        return left / before - left / self._belief.iterations_per_s(job.spec, Allocation(new), ())

    def larger(self, spec: JobSpec, size: int) -> int:
        """The next size above on which the job is not slower; 0 if there is none.

        Where plans set the speed, it does not rise with every size: a model may run well on 12 and
        on 16 devices and badly on 15. A job that stepped by one size would stay on 12.
        """
        above = [each for each in spec.sizes if each > size]
        if not size or not above:
            return above[0] if above else 0
        now = self._belief.alone(spec, size)
        return next((each for each in above if self._belief.alone(spec, each) >= now), 0)

    def smaller(self, spec: JobSpec, size: int) -> int:
        """The next size below, without those on which it is slower than on the one below them."""
        found = 0
        for each in reversed([each for each in spec.sizes if each < size]):
            if found and self._belief.alone(spec, each) < self._belief.alone(spec, found):
                break
            found = each
        return found

    def fastest(self, spec: JobSpec, sizes: Sequence[int]) -> int:
        return max(sizes, key=lambda size: (self._belief.alone(spec, size), size))

    def keeps(self, spec: JobSpec, size: int, smaller: int) -> float:
        """The share of its speed that a job keeps on fewer devices."""
        return self._belief.alone(spec, smaller) / self._belief.alone(spec, size)

    def pays_s(self, spec: JobSpec) -> float:
        """What a move of a running job must save."""
        return _PAYS * resize_s(spec, self._restart_s)


_Held = dict[JobId, tuple[Device, ...]]
# What a move that does not work out is taken back to: free GPUs and slots, and the jobs.
_State = tuple[FreeDevices, FreeDevices, _Held, dict[JobId, Allocation | None], set[JobId]]
_Step = tuple[int, float, int, JobId]  # level, worth below 0, arrival, job


class Moves:
    """One round's changes, made on copies of the free devices."""

    def __init__(
        self,
        snapshot: Snapshot,
        placement: Placement,
        values: Values,
        levels: Mapping[JobId, int],
    ) -> None:
        self.changes: dict[JobId, Allocation | None] = {}
        self._snapshot = snapshot
        self._placement = placement
        self._values = values
        self._levels = levels
        self._cpu = cpu_nodes(snapshot.cluster)
        # Each pool ignores the other's devices: to it, they are on nodes that are gone.
        self._gpus = snapshot.free.only(snapshot.cluster.names - self._cpu)
        self._slots = snapshot.free.only(self._cpu)
        self._held: _Held = {
            job.spec.id: job.allocation.devices
            for job in snapshot.holding()
            if job.allocation is not None
        }
        self._started: dict[JobId, Job] = {}
        self._moved: set[JobId] = set()
        # By pool and level: a size that could not be had, so that no larger one need be tried.
        self._hopeless: dict[tuple[bool, int], int] = {}

    # -- light ----------------------------------------------------------------------------------

    def admit(self, waiting: Sequence[Job]) -> None:
        """Start jobs at their smallest size, then let those grow that have just started."""
        for job in waiting:
            devices = self._room_for(job)
            if devices is not None:
                self._start(job, devices)
        growing = list(self._started.values())
        while growing and self._gpus.total + self._slots.total:
            growing = [job for job in growing if self._grow(job, job.spec.asked)]

    def _room_for(self, job: Job) -> tuple[Device, ...] | None:
        """Devices for the smallest size of a waiting job: free ones, or those of lower levels."""
        smallest, level = job.spec.sizes[0], self._levels[job.spec.id]
        pool = self._runs_on_slots(job), level
        hopeless = smallest >= self._hopeless.get(pool, inf)
        devices = None if hopeless else self._place(job, smallest)
        if devices is None and says_slots(job.spec):
            devices = Count().place(self._slots, smallest)
        if devices is None and not hopeless:
            devices = self._make_room(job, smallest, level)
            if devices is None:
                self._hopeless[pool] = smallest
        return devices

    def _make_room(self, waiting: Job, size: int, level: int) -> tuple[Device, ...] | None:
        """Take from jobs of lower levels, the youngest first, or from none."""
        before, on_slots = self._saved(), self._runs_on_slots(waiting)
        if on_slots:
            self._recall()
        devices = self._place(waiting, size)
        for identity in self._victims(level) if devices is None else ():
            job, own = self._snapshot.jobs[identity], self._held[identity]
            if self._runs_on_slots(job) != on_slots:
                continue
            missing = size - self._pool(waiting).total
            enough = [s for s in job.spec.sizes if s < len(own) and len(own) - s >= missing]
            if not (enough and self._resize(job, self._values.fastest(job.spec, enough))):
                self._free_all(self._held.pop(identity))
                self.changes[identity] = None
            devices = self._place(waiting, size)
            if devices is not None:
                break
        if devices is None:
            self._take_back(before)
        return devices

    def _victims(self, level: int) -> list[JobId]:
        """Jobs of lower levels with devices, those to be disturbed first in front."""
        jobs, levels = self._snapshot.jobs, self._levels
        found = [i for i in self._held if levels[i] > level and i not in self._started]
        found.sort(key=lambda i: (-levels[i], -jobs[i].begun_at, jobs[i].sequence))
        return found

    def _recall(self) -> None:
        """End the loans of slots to jobs that run on GPUs."""
        for identity, own in list(self._held.items()):
            if self._lent(identity):
                gpus = tuple(device for device in own if device.node not in self._cpu)
                self._free_all(own)
                self._hold(identity, gpus)

    # -- full -----------------------------------------------------------------------------------

    def trade(self, waiting: Sequence[Job]) -> None:
        """Shrink running jobs for those that wait, then give idle devices where they help."""
        for job in waiting:
            if job.spec.id not in self._held and not self._shrink_for(job):
                break
        self._grow_by_value()
        if self._cpu and self._slots.total:
            self._lend()

    def _shrink_for(self, job: Job) -> bool:
        """Room for a job's smallest size by steps down of others, where they lose least."""
        before = self._saved()
        for identity in self._shrinkable(job):
            other = self._snapshot.jobs[identity]
            if self._resize(other, self._values.smaller(other.spec, self._size(identity))):
                self._moved.add(identity)
            devices = self._place(job, job.spec.sizes[0])
            if devices is not None:
                self._start(job, devices)
                return True
        self._take_back(before)
        return False

    def _shrinkable(self, waiting: Job) -> list[JobId]:
        """Jobs that can give it a step, those that lose least for each device first."""
        jobs, on_slots = self._snapshot.jobs, self._runs_on_slots(waiting)
        found: list[tuple[float, int, JobId]] = []
        for identity in self._held:
            if identity in self._moved or identity in self._started:
                continue
            other, size = jobs[identity].spec, self._size(identity)
            smaller = self._values.smaller(other, size)
            if smaller and self._runs_on_slots(jobs[identity]) == on_slots:
                loss = 1.0 - self._values.keeps(other, size, smaller)
                found.append((loss / (size - smaller), jobs[identity].sequence, identity))
        return [identity for _, _, identity in sorted(found)]

    def _grow_by_value(self) -> None:
        """Idle devices step by step, level by level; a running job moves once."""
        if not self._gpus.total + self._slots.total:
            return
        steps = [step for i in self._held if i not in self._moved for step in self._next_step(i)]
        heapify(steps)
        while steps and self._gpus.total + self._slots.total:
            _, _, _, identity = heappop(steps)
            job = self._snapshot.jobs[identity]
            if self._grow(job, job.spec.sizes[-1]):
                if identity not in self._started:
                    self._moved.add(identity)
                    continue
                for step in self._next_step(identity):
                    heappush(steps, step)

    def _next_step(self, identity: JobId) -> list[_Step]:
        """The next larger size as a heap entry: by level, and there what is worth most first."""
        job, size = self._snapshot.jobs[identity], self._size(identity)
        larger = self._values.larger(job.spec, size)
        if not larger:
            return []
        left = self._values.left(job, self._snapshot.now)
        saved_s = self._values.saved_s(job.spec, left, size, larger)
        if saved_s <= (0.0 if identity in self._started else self._values.pays_s(job.spec)):
            return []
        return [(self._levels[identity], -saved_s / (larger - size), job.sequence, identity)]

    def _lend(self) -> None:
        """Idle slots to running jobs on GPUs, where they save more than the restart costs."""
        now, offers = self._snapshot.now, []
        for identity, own in self._held.items():
            job = self._snapshot.jobs[identity]
            changed = identity in self._moved or identity in self._started
            if changed or any(d.node in self._cpu for d in own) or not takes_slots(job.spec):
                continue
            for total in job.spec.sizes:
                more = Count().place(self._slots, total - len(own)) if total > len(own) else None
                if more is not None:
                    saved_s = self._values.saved_by_s(job, now, (*own, *more))
                    if saved_s > self._values.pays_s(job.spec):
                        offers.append((-saved_s / len(more), job.sequence, identity, len(more)))
        for _, _, identity, count in sorted(offers):
            more = Count().place(self._slots, count)
            if more is not None and identity not in self._moved:
                self._free_all(own := self._held[identity])
                self._hold(identity, (*own, *more))
                self._moved.add(identity)

    # -- leaves ---------------------------------------------------------------------------------

    def _start(self, job: Job, devices: tuple[Device, ...]) -> None:
        self._started[job.spec.id] = job
        self._hold(job.spec.id, devices)

    def _grow(self, job: Job, most: int) -> bool:
        """One step up for a job, if there is room."""
        larger = self._values.larger(job.spec, self._size(job.spec.id))
        return 0 < larger <= most and self._resize(job, larger)

    def _resize(self, job: Job, size: int) -> bool:
        """So many devices of its pool for a job, near those it holds; a loan of slots ends."""
        own = self._held[job.spec.id]
        self._free_all(own)
        near = kept(self._pool(job), own, size, job.spec.profile.lead)
        devices = near if len(near) == size else self._place(job, size)
        if devices is None:
            self._take_all(own)
            return False
        self._hold(job.spec.id, devices)
        return True

    def _place(self, job: Job, size: int) -> tuple[Device, ...] | None:
        if self._runs_on_slots(job):
            return Count().place(self._slots, size)
        return self._placement.place(self._gpus, size)

    def _pool(self, job: Job) -> FreeDevices:
        return self._slots if self._runs_on_slots(job) else self._gpus

    def _runs_on_slots(self, job: Job) -> bool:
        """Whether a job has slots alone; of one that waits, whether it is to."""
        if not self._cpu:
            return False
        own = self._held.get(job.spec.id)
        return is_cpu_only(job.spec) if own is None else all(d.node in self._cpu for d in own)

    def _lent(self, identity: JobId) -> bool:
        """Whether a job on GPUs has slots as well."""
        return self._size(identity) < len(self._held[identity])

    def _size(self, identity: JobId) -> int:
        """Devices that it holds, without those it was lent."""
        own = self._held[identity]
        return sum(device.node not in self._cpu for device in own) or len(own)

    def _hold(self, identity: JobId, devices: tuple[Device, ...]) -> None:
        self._take_all(devices)
        self._held[identity] = devices
        self.changes[identity] = Allocation(devices)

    def _take_all(self, devices: tuple[Device, ...]) -> None:
        self._gpus.take(devices)
        self._slots.take(devices)

    def _free_all(self, devices: tuple[Device, ...]) -> None:
        self._gpus.give(devices)
        self._slots.give(devices)

    def _saved(self) -> _State:
        pools = self._gpus.copy(), self._slots.copy()
        return *pools, self._held.copy(), self.changes.copy(), self._moved.copy()

    def _take_back(self, state: _State) -> None:
        self._gpus, self._slots, self._held, self.changes, self._moved = state


def cpu_nodes(cluster: Cluster) -> frozenset[str]:
    """The nodes whose devices are CPU slots; none if all are, and there is but one pool."""
    found = cluster.by_type.get(CPU, frozenset())
    return found if len(found) < len(cluster.nodes) else frozenset()
