"""Nodes for large jobs alone, so that no job beside them slows them down.

While a large job runs, the free devices of its nodes are given to no other job. A large job that is
to start on a node with others is given an empty one instead, or waits for one. Jobs that share all
their devices are one to this wrapper: they are large together and alone together.
"""

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.job import JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.views import Changes, free_after
from treadle.policies.wrappers.wrapper import Wrapper

Devices = tuple[Device, ...]


class Dedicated(Wrapper):
    """Jobs of so many devices and more get nodes to themselves."""

    def __init__(
        self,
        inner: Policy,
        placement: Placement,
        belief: PerformanceModel,  # noqa: ARG002
        *,
        from_: int = 4,
    ) -> None:
        if from_ < 1:
            raise InvalidInputError(f"dedicated from must be 1 or more, not {from_}")
        super().__init__(inner)
        self._placement = placement
        self._large = from_

    def decide(self, snapshot: Snapshot) -> Schedule:
        shown, beside = snapshot, self._beside_large(snapshot)
        while True:
            schedule = self.inner.decide(shown.withholding(beside))
            left = self._left(snapshot, schedule.changes)
            if any(device.node in left for device in beside):
                # Ask again: what is beside a large job that goes can be had as well.
                beside = [device for device in beside if device.node not in left]
                continue
            changes, refused = self._settled(snapshot, schedule.changes)
            if not refused:
                return Schedule(changes, schedule.valid_until, schedule.memory)
            shown = shown.hiding(self.held_up(shown, refused))

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        row, size = snapshot.jobs[job], snapshot.jobs[job].spec.asked
        free = snapshot.free.total
        reason = self.inner.reason(self.inside(snapshot), job)
        if row.allocation is not None or size > free or reason.code == "order":
            return reason
        usable = free - len(self._beside_large(snapshot))
        crowded = size >= self._large and _empty(snapshot.free, size) is None
        if not crowded and size <= usable:
            return reason
        numbers = {"asked": size, "free": free, "usable": usable, "large": self._large}
        return Reason("dedicated", numbers)

    def _beside_large(self, snapshot: Snapshot) -> list[Device]:
        """Free devices on nodes that belong to one job."""
        nodes = {
            node
            for job in snapshot.jobs.values()
            if job.allocation is not None and job.size >= self._large
            for node in job.allocation.nodes()
        }
        return [device for device in snapshot.free if device.node in nodes] if nodes else []

    def _left(self, snapshot: Snapshot, changes: Changes) -> set[str]:
        """Nodes that large jobs are to leave."""
        left: set[str] = set()
        for identity, allocation in changes.items():
            job = snapshot.jobs[identity]
            if job.allocation is not None and job.size >= self._large:
                stay = () if allocation is None else allocation.nodes()
                left.update(node for node in job.allocation.nodes() if node not in stay)
        return left

    def _settled(
        self, snapshot: Snapshot, changes: Changes
    ) -> tuple[dict[JobId, Allocation | None], list[JobId]]:
        """The changes with better devices where they are needed, and who finds none."""
        plan = _Plan(snapshot, changes, self._large, self._placement)
        settled: dict[JobId, Allocation | None] = {}
        refused: list[JobId] = []
        places: dict[Devices, Devices | None] = {}  # by what is wanted: sharers stay together
        for identity, wanted in changes.items():
            held = snapshot.jobs[identity].allocation
            if wanted is not None and wanted.devices not in places:
                places[wanted.devices] = plan.place(wanted.devices)
            found = None if wanted is None else places[wanted.devices]
            if wanted is not None and found is not None:
                # Cores are of a node, and not taken along.
                same = found == wanted.devices
                settled[identity] = wanted if same else Allocation(found, wanted.plan, wanted.turn)
            elif held is None:
                refused.append(identity)
            elif wanted is None or not plan.keep(held.devices):
                settled[identity] = None
        return settled, refused


class _Plan:
    """Who is where while changes are made one after another."""

    def __init__(
        self, snapshot: Snapshot, changes: Changes, large: int, placement: Placement
    ) -> None:
        self._large = large
        self._placement = placement
        self._free = free_after(snapshot, dict.fromkeys(changes))
        self._nodes: dict[str, set[Devices]] = {}  # node -> sets of devices in use there
        self._staying: set[Devices] = set()  # of jobs that do not change
        for job in snapshot.jobs.values():
            if job.allocation is not None and job.id not in changes:
                self._staying.add(job.allocation.devices)
                self._note(job.allocation.devices)

    def place(self, devices: Devices) -> Devices | None:
        """These devices if they may be had, or as many others; None if there are none."""
        if devices in self._staying:
            return devices  # To be shared with a job that stays there.
        if self.keep(devices):
            return devices
        found = self._elsewhere(len(devices))
        return found if found is not None and self.keep(found) else None

    def keep(self, devices: Devices) -> bool:
        """Take exactly these, if they are free and may be had."""
        if not (self._free.holds(devices) and self._allowed(devices)):
            return False
        self._free.take(devices)
        self._note(devices)
        return True

    def _allowed(self, devices: Devices) -> bool:
        """Whether a large job finds no other there, and a small one no large one."""
        least = 1 if len(devices) >= self._large else self._large
        nodes = dict.fromkeys(device.node for device in devices)
        return all(len(other) < least for node in nodes for other in self._nodes.get(node, ()))

    def _elsewhere(self, size: int) -> Devices | None:
        if size >= self._large:
            return _empty(self._free, size)
        taken = {
            node for node, uses in self._nodes.items() if any(len(d) >= self._large for d in uses)
        }
        kept = [device for device in self._free if device.node in taken]
        return self._placement.place(self._free.withholding(kept), size)

    def _note(self, devices: Devices) -> None:
        for device in devices:
            self._nodes.setdefault(device.node, set()).add(devices)


def _empty(free: FreeDevices, size: int) -> Devices | None:
    """Devices of empty nodes: the smallest one that suffices, or the largest ones together."""
    whole = [p for p, count in enumerate(free.capacity) if count and free.count(p) == count]
    fitting = min((p for p in whole if free.capacity[p] >= size), key=free.count, default=None)
    if fitting is not None:
        return free.pick(fitting, size)
    devices: list[Device] = []
    for position in sorted(whole, key=lambda p: -free.capacity[p]):
        devices += free.pick(position, min(size - len(devices), free.capacity[position]))
        if len(devices) == size:
            return tuple(devices)
    return None
