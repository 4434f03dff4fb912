"""Cores, given out once each job's devices are known; and host memory, last of all.

Every device comes with the cores that its job was measured with, or its node's even share where
that is less. What a node has beyond goes core by core to the job that makes the most of one, the
same for each of its devices: an optimizer on the host runs on them. A job that is newly placed may
also take cores over from a running one that makes less of them; a running job gets more only where
it then ends sooner, although a restart costs. So does one that began before its plans were known
get the best plan of its devices.

Host memory is what the chosen plan needs. It cannot fail: a plan is on offer only where it keeps to
its devices' even share of their host.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace

from treadle.core.allocation import Allocation, Host
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot
from treadle.models.change_costs import restart_s
from treadle.models.plans.layouts import Counts, counted, shape
from treadle.models.plans.sensitivity import CoreStep, Curves

Changes = Mapping[JobId, Allocation | None]
MayChange = Callable[[Job], bool]
CORES_EACH = 12.0  # cores for each device of a node that does not say: Rubick's servers


@dataclass(slots=True)
class _Tuned:
    """A job whose speed depends on cores."""

    job: Job
    allocation: Allocation
    counts: Counts
    steps: tuple[CoreStep, ...]  # ascending; the first is what comes with the devices
    at: int  # which step it is at
    begun: int  # which one it was at
    speed: float  # with what it has now; of a newly placed one, with what comes with the devices
    fresh: bool  # newly placed, so that its cores cost nothing to choose
    kept: bool  # it runs on as it is, unless it moves to another step

    @property
    def step(self) -> CoreStep:
        return self.steps[self.at]

    def gain(self) -> float:
        """What a core brings, of those of the next step; 0 at the last."""
        return self._slope(self.at) if self.at + 1 < len(self.steps) else 0.0

    def loss(self) -> float:
        """What a core brings, of those of the present step."""
        return self._slope(self.at - 1)

    def _slope(self, at: int) -> float:
        lower, upper = self.steps[at], self.steps[at + 1]
        cores = (upper.cores - lower.cores) * self.allocation.size
        return (upper.speed.value - lower.speed.value) / cores


class Hosts:
    """The cores of all nodes while one decision is finished."""

    def __init__(
        self, snapshot: Snapshot, curves: Curves, restart_s: float, may_change: MayChange
    ) -> None:
        self._snapshot = snapshot
        self._curves = curves
        self._restart_s = restart_s
        self._may_change = may_change
        self._with_devices: dict[str, float] = {}
        self._spare: dict[str, float] = {}
        for node in snapshot.cluster.nodes:
            cores = float(node.cores or CORES_EACH * node.device_count)
            each = min(curves.cores, cores / node.device_count)
            self._with_devices[node.name] = each
            self._spare[node.name] = cores - each * node.device_count
        self._tuned: dict[JobId, _Tuned] = {}

    def settled(self, changes: Changes) -> dict[JobId, Allocation | None]:
        """The same changes with each job's cores and host memory, and what follows from them."""
        for job in self._snapshot.holding():
            if job.id not in changes:
                assert job.allocation is not None, "holding jobs hold"
                self._enter(job, job.allocation, fresh=False)
        for identity, allocation in changes.items():
            if allocation is not None:
                self._enter(self._snapshot.jobs[identity], allocation, fresh=True)
        self._deal()
        for tuned in self._tuned.values():
            if not tuned.fresh and self._may_change(tuned.job):
                self._improve(tuned)
        settled = dict(changes)
        for identity, tuned in self._tuned.items():
            new = self._allocation(tuned)
            if tuned.fresh or new != tuned.allocation:
                settled[identity] = new
        return settled

    def _enter(self, job: Job, allocation: Allocation, *, fresh: bool) -> None:
        if not self._curves.planned(job.spec):
            return
        counts = counted(allocation.devices)
        least = min(self._with_devices.get(node, self._curves.cores) for node in counts)
        steps = self._curves.by_cores(job.spec, shape(counts), least)
        if not steps:
            return
        host = allocation.host
        has = least if fresh or host is None else host.cores
        at = max((i for i, step in enumerate(steps) if step.cores <= has), default=0)
        speed = steps[at].speed.value
        if not fresh and host is None:  # It began before its plans were known.
            speed = self._curves.under(job.spec, shape(counts), allocation.plan)
        tuned = _Tuned(job, allocation, counts, steps, at, at, speed, fresh=fresh, kept=not fresh)
        self._use(tuned, steps[at].cores - least)
        if all(node in self._with_devices for node in counts):
            # Others, on nodes that are being drained, stay as they are.
            self._tuned[job.id] = tuned

    def _deal(self) -> None:
        """Cores to newly placed jobs, the one that makes the most of them first."""
        heap = [
            (-tuned.gain(), tuned.job.sequence, identity)
            for identity, tuned in self._tuned.items()
            if tuned.fresh and tuned.gain() > 0
        ]
        heapify(heap)
        while heap:
            _, sequence, identity = heap[0]
            tuned = self._tuned[identity]
            gain = tuned.gain()
            if gain > 0 and self._raised(tuned, gain):
                heapreplace(heap, (-tuned.gain(), sequence, identity))
            else:
                heappop(heap)

    def _raised(self, tuned: _Tuned, gain: float) -> bool:
        """Bring a job to its next step, if cores are free or another job gains less from them."""
        more = tuned.steps[tuned.at + 1].cores - tuned.step.cores
        taken: list[_Tuned] = []
        for node, count in tuned.counts.items():
            while self._spare.get(node, 0.0) < more * count:
                victim = min(self._victims(node, tuned, gain), key=_Tuned.loss, default=None)
                if victim is None:
                    for other in reversed(taken):
                        self._move(other, +1)
                    return False
                self._move(victim, -1)
                taken.append(victim)
        self._move(tuned, +1)
        return True

    def _victims(self, node: str, tuned: _Tuned, gain: float) -> Iterator[_Tuned]:
        for other in self._tuned.values():
            if other is tuned or not other.at or node not in other.counts:
                continue
            if other.loss() < gain and (other.fresh or self._may_change(other.job)):
                yield other

    def _improve(self, tuned: _Tuned) -> None:
        """More cores for a running job, if they are there and make good for a restart."""
        while tuned.at + 1 < len(tuned.steps) and self._has_room(tuned):
            self._move(tuned, +1)
        job, before, after = tuned.job, tuned.speed, tuned.step.speed.value
        left_s = 0.0
        if job.iterations_per_s:
            left_s = job.remaining_at(self._snapshot.now) / job.iterations_per_s
        if left_s * before / after + restart_s(job.spec, self._restart_s) < left_s:
            tuned.kept = False
        else:
            self._move(tuned, tuned.begun - tuned.at)

    def _has_room(self, tuned: _Tuned) -> bool:
        more = tuned.steps[tuned.at + 1].cores - tuned.step.cores
        return all(self._spare.get(n, 0.0) >= more * count for n, count in tuned.counts.items())

    def _move(self, tuned: _Tuned, steps: int) -> None:
        before = tuned.step.cores
        tuned.at += steps
        self._use(tuned, tuned.step.cores - before)

    def _use(self, tuned: _Tuned, cores: float) -> None:
        for node, count in tuned.counts.items():
            if node in self._spare:
                self._spare[node] -= cores * count

    def _allocation(self, tuned: _Tuned) -> Allocation:
        old, step = tuned.allocation, tuned.step
        if tuned.kept and tuned.at == tuned.begun:
            return old
        memory_gib = self._curves.host_gib(tuned.job.spec, step.speed.plan, old.size)
        return replace(old, plan=step.speed.plan, host=Host(step.cores, memory_gib))
