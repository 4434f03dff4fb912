"""What is left for jobs while a plan grows: devices, and the memory and cores of their hosts.

A job may use a node that has its type of device, its files and enough device memory, on which it
did not fail a moment ago, and which has the host memory and cores that it asks for left. `place`
answers with such devices only, `allows` checks devices that somebody else chose, and `take` and
`release` keep the count. A job that asks for nothing may use every node, and costs nothing here.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from math import inf
from typing import NamedTuple, Self

from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Cluster, Device
from treadle.core.company import needed_gib
from treadle.core.device_types import Nodes
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobSpec
from treadle.core.snapshot import Snapshot
from treadle.policies.base.companions import GROUP_MAX
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import places
from treadle.policies.live.limits import Limits, Taken

AVOIDED_S = 600.0  # how long a job that failed waits for other nodes than those suspected
_ROUNDING = 1e-6  # sums of requests that should be equal to what a node has

Lends = Callable[[Job], Set[Device]]  # devices that are reserved, and not lent to the job


class Needs(NamedTuple):
    """What a job asks of nodes besides devices. Jobs with equal needs are placed alike."""

    places: tuple[Nodes, ...]  # sets of nodes, tried in this order; a job is within one of them
    memory_gib: float = 0.0
    cores: float = 0.0
    avoid: tuple[str, ...] = ()  # nodes and devices on which it failed


def asks_host(spec: JobSpec) -> bool:
    """Whether it asks for memory or cores of its nodes."""
    return bool(spec.host_memory_gib or spec.host_cores)


def needs_of(job: Job, cluster: Cluster, now: float) -> Needs | None:
    """What a job asks of nodes; None: any node will do."""
    spec = job.spec
    where = places(job, cluster)
    avoid = (*job.avoid,) if job.avoid and now < avoided_until(job) else ()
    if where == (cluster.names,) and not asks_host(spec) and not avoid and not job.failed_on:
        return None
    return Needs(where, spec.host_memory_gib, spec.host_cores, avoid)


def avoided_until(job: Job) -> float:
    """Until when a job that failed waits for other nodes than those that are suspected."""
    return max(job.since_at, job.ready_at) + AVOIDED_S


class Room:
    """Free devices, host memory and cores, used up as a plan grows."""

    def __init__(self, snapshot: Snapshot, placement: Placement) -> None:
        self._cluster, self._now = snapshot.cluster, snapshot.now
        self._placement = placement
        self._holders = {device: len(own) for device, own in snapshot.tenants.items()}
        self.free: FreeDevices = snapshot.free.copy()
        self._memory = {n.name: n.memory_gib or inf for n in snapshot.cluster.nodes}
        self._cores = {n.name: float(n.cores) or inf for n in snapshot.cluster.nodes}
        self.not_lent: Lends = lambda _: frozenset()
        self.quota: Callable[[Job, int], bool] = lambda *_: True
        self.taken: Taken | None = None  # by those whom limits bind
        for job in snapshot.jobs.values():
            if job.allocation is not None and asks_host(job.spec):
                self._debit(job.spec, job.allocation.nodes(), -1.0)
        self._sizes = {n.name: n.device_memory_gib for n in snapshot.cluster.nodes}
        self.kept_gib: dict[Device, float] = {}  # of devices' memory, by frozen jobs
        for job in snapshot.paused.values():
            if job.allocation is not None:
                self.park(job, job.allocation)

    def copy(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.free = self.free.copy()
        twin.taken = self.taken and self.taken.copy()
        twin._holders, twin.kept_gib = self._holders.copy(), self.kept_gib.copy()
        twin._memory, twin._cores = self._memory.copy(), self._cores.copy()
        return twin

    # -- what a job may have ----------------------------------------------------------------------

    def needs(self, job: Job) -> Needs | None:
        return needs_of(job, self._cluster, self._now)

    def where(self, job: Job) -> Sequence[Nodes] | None:
        """Sets of nodes, within one of which it may be; None: it may be on all of them."""
        needs = self.needs(job)
        return None if needs is None else self.hosts(needs)

    def place(self, job: Job, size: int) -> tuple[Device, ...] | None:
        """So many free devices that the job may have, or None."""
        if size > self.free.total or self.is_too_many(job, size) or not self.quota(job, size):
            return None
        needs, reserved = self.needs(job), self._not_for(job)
        free = self._without(self.free, reserved) if reserved else self.free
        if needs is None:
            return self._placement.place(free, size)
        suspected = [d for d in free if _is_in(d, needs.avoid)] if needs.avoid else []
        if suspected and self._has_others(needs, size):
            free = free.withholding(suspected)
        failed = [d for d in free if _is_in(d, job.failed_on)] if job.failed_on else []
        for some in (free.withholding(failed), free) if failed else (free,):
            for nodes in self.hosts(needs):
                found = self._placement.place(_on(nodes, some, self._cluster), size)
                if found is not None:
                    return found
        return None

    def is_too_many(self, job: Job, size: int) -> bool:
        """Whether its user or tenant would have more than they may."""
        return self.taken is not None and self.taken.too_many(job, size)

    def bind(self, limits: Limits, holding: Iterable[Job]) -> None:
        """From now on no user or tenant is given more than it may have."""
        self.taken = Taken(limits)
        for job in holding:
            self.taken.count(job, job.size)

    def most(self, job: Job) -> int:
        """How many devices the job could have if no job held any."""
        needs = self.needs(job)
        if needs is None:
            return self._cluster.device_count
        counts = self._cluster.counts
        return max((sum(counts[name] for name in nodes) for nodes in needs.places), default=0)

    def allows(self, job: Job, devices: Sequence[Device]) -> bool:
        """Whether the job may have exactly these, if they are free."""
        if job.allocation is None and not self.quota(job, len(devices)):
            return False
        if self.is_too_many(job, len(devices)):
            return False
        reserved = self._not_for(job)
        if reserved and not reserved.isdisjoint(devices):
            return False
        needs = self.needs(job)
        if needs is None:
            return True
        nodes = {device.node for device in devices}
        if not any(there.issuperset(nodes) for there in self.hosts(needs)):
            return False
        if job.allocation is not None:
            return True  # It was there when it did not fail.
        suspect = any(_is_in(device, needs.avoid) for device in devices)
        return not (suspect and self._has_others(needs, len(devices)))

    # -- paused jobs ------------------------------------------------------------------------------

    def takes_back(self, job: Job, held: Allocation) -> bool:
        """Whether a paused job, which is parked no more, may go on where it was."""
        free = self.free.knows(held.devices) and self.free.holds(held.devices)
        if not free or self.is_too_many(job, held.size) or not self.quota(job, held.size):
            return False
        if not self.not_lent(job).isdisjoint(held.devices):
            return False
        if any(self._cores[name] < job.spec.host_cores - _ROUNDING for name in held.nodes()):
            return False
        return held.paused is Pause.FROZEN or all(self._has_left(d, job) for d in held.devices)

    def way_to_pause(self, job: Job, held: Allocation, starter: Job) -> Pause | None:
        """How a running job can be paused so that another one has room there."""
        stays = all(self._both_fit(device, job, starter) for device in held.devices)
        if stays and Pause.FROZEN in job.pauses:
            return Pause.FROZEN
        return Pause.SUSPENDED if Pause.SUSPENDED in job.pauses else None

    def leaves(self, job: Job, held: Allocation, others: Sequence[Job]) -> bool:
        """Whether a frozen job that has let go leaves its nodes and these others enough."""
        needs_gib, keeps_gib = sum(needed_gib(each.spec) for each in others), needed_gib(job.spec)
        for device in held.devices:
            size_gib = self._sizes.get(device.node, 0.0)
            known = keeps_gib and all(needed_gib(each.spec) for each in others)
            if size_gib and not (known and keeps_gib + needs_gib <= self.device_gib(device)):
                return False
        hosts = held.nodes()
        return all(self._memory.get(each, inf) >= job.spec.host_memory_gib for each in hosts)

    def _both_fit(self, device: Device, job: Job, starter: Job) -> bool:
        """Whether what the one keeps of a device's memory leaves enough for the other."""
        keeps_gib = needed_gib(job.spec)
        if not self._sizes.get(device.node):
            return True
        return bool(keeps_gib) and self._has_left(device, starter, keeps_gib)

    def park(self, job: Job, held: Allocation) -> None:
        """What a paused job keeps is not free."""
        self._park(job, held, 1.0)

    def unpark(self, job: Job, held: Allocation) -> None:
        self._park(job, held, -1.0)

    def device_gib(self, device: Device) -> float:
        """What frozen jobs leave of its memory; infinite if that is not known."""
        size_gib = self._sizes.get(device.node, 0.0)
        return size_gib - self.kept_gib.get(device, 0.0) if size_gib else inf

    def _park(self, job: Job, held: Allocation, sign: float) -> None:
        """What a paused job keeps: host memory, and that of its devices if it is frozen."""
        for name in held.nodes():
            if name in self._memory:
                self._memory[name] -= sign * job.spec.host_memory_gib
        kept_gib = needed_gib(job.spec) if held.paused is Pause.FROZEN else 0.0
        for device in held.devices if kept_gib else ():
            self.kept_gib[device] = self.kept_gib.get(device, 0.0) + sign * kept_gib

    def _has_left(self, device: Device, job: Job, more_gib: float = 0.0) -> bool:
        """Whether frozen jobs, and one that keeps so much more, leave it enough of the memory.

        A job of unknown needs is put where they leave at least half.
        """
        half_gib = self._sizes.get(device.node, 0.0) / 2
        return self.device_gib(device) - more_gib >= (needed_gib(job.spec) or half_gib)

    def _not_for(self, job: Job) -> Set[Device]:
        """Free devices that the job may not have: they are reserved, or too full."""
        reserved = self.not_lent(job)
        if not self.kept_gib:
            return reserved
        return reserved | {each for each in self.kept_gib if not self._has_left(each, job)}

    def hosts(self, needs: Needs) -> list[Nodes]:
        """Its places, with the nodes that have the memory and cores it asks for left."""
        if not needs.memory_gib and not needs.cores:
            return list(needs.places)
        memory, cores = needs.memory_gib - _ROUNDING, needs.cores - _ROUNDING
        enough = Nodes(
            name
            for name, left in self._memory.items()
            if left >= memory and self._cores[name] >= cores
        )
        return [both for nodes in needs.places if (both := nodes & enough)]

    def most_gib(self, needs: Needs, size: int) -> float:
        """The memory of each node that so many devices can have, were all free; less than 0: none.

        needs: apart from memory.
        """
        most_gib = -inf
        for nodes in needs.places:
            count = 0
            left = ((self._memory[name], name) for name in nodes & self._memory.keys())
            for left_gib, name in sorted(left, reverse=True):
                if self._cores[name] >= needs.cores - _ROUNDING:
                    count += self._cluster.counts[name]
                    if count >= size:
                        most_gib = max(most_gib, left_gib + _ROUNDING)
                        break
        return most_gib

    def times(self, job: Job) -> tuple[float, float]:
        """For how many jobs like it nodes have memory and cores left, at the most; and devices.

        The second is infinite unless free devices of other nodes would be as good to one who counts
        devices.
        """
        needs, least = self.needs(job), job.spec.sizes[0]
        if needs is None:
            return inf, inf
        suited = Nodes().union(*self.hosts(needs))
        types = [
            own for own in self._cluster.by_type.values() if any(map(own.__and__, needs.places))
        ]
        others = Nodes().union(*types) - suited
        misled = any(self.free.count_on(name) >= least for name in others)
        total, now = 0, 0
        for name in suited:
            most = inf
            if needs.memory_gib:
                most = self._memory[name] / needs.memory_gib
            if needs.cores:
                most = min(most, self._cores[name] / needs.cores)
            total += int(min(most + _ROUNDING, GROUP_MAX * self._cluster.counts[name]))
            now += int(min(most + _ROUNDING, self.free.count_on(name) // least))
        return total, now if misled else inf

    def left_on(self, node: str) -> tuple[float, float]:
        """Host memory and cores that are left on a node."""
        return self._memory[node], self._cores[node]

    def most_left(self) -> tuple[float, float]:
        """The most host memory that is left on a node, and the most cores."""
        memory, cores = self._memory.values(), self._cores.values()
        return max(memory, default=inf) + _ROUNDING, max(cores, default=inf) + _ROUNDING

    # -- what a plan gives and takes --------------------------------------------------------------

    def take(self, job: Job, devices: Sequence[Device]) -> None:
        """Give devices to a job, perhaps beside others that hold them."""
        if self.taken is not None:
            self.taken.count(job, len(devices))
        taken = []
        for device in devices:
            self._holders[device] = count = self._holders.get(device, 0) + 1
            if count == 1:
                taken.append(device)
        if taken:
            self.free.take(taken)
        if asks_host(job.spec):
            self._debit(job.spec, {device.node for device in devices}, -1.0)

    def release(self, job: Job, held: Allocation) -> None:
        """Take from a job what it holds."""
        if self.taken is not None:
            self.taken.count(job, held.size, -1)
        given = []
        for device in held.devices:
            self._holders[device] = count = self._holders[device] - 1
            if not count:
                given.append(device)
        if given:
            self.free.give(given)
        if asks_host(job.spec):
            self._debit(job.spec, held.nodes(), 1.0)

    def _debit(self, spec: JobSpec, nodes: Iterable[str], sign: float) -> None:
        for name in nodes:
            if name in self._memory:  # Not drained.
                self._memory[name] += sign * spec.host_memory_gib
                self._cores[name] += sign * spec.host_cores

    def _has_others(self, needs: Needs, size: int) -> bool:
        """Whether other devices than those suspected would do, if no job held any."""
        everything = self.free.emptied()
        others = self._without(everything, [d for d in everything if _is_in(d, needs.avoid)])
        found = (
            self._placement.place(_on(nodes, others, self._cluster), size) for nodes in needs.places
        )
        return any(devices is not None for devices in found)

    @staticmethod
    def _without(free: FreeDevices, devices: Iterable[Device]) -> FreeDevices:
        left = [device for device in devices if free.knows((device,))]
        return free.withholding(left) if left else free


def _is_in(device: Device, names: Sequence[str]) -> bool:
    return device.node in names or str(device) in names


def _on(nodes: Nodes, free: FreeDevices, cluster: Cluster) -> FreeDevices:
    return free if nodes is cluster.names else free.only(nodes)
