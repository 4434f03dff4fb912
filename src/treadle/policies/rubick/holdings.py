"""How many devices each job has on which node while a decision is made; changes can be undone.

Counts and not devices: which ones is settled at the end, once it is known which jobs keep theirs.
"""

from collections.abc import Mapping

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobId
from treadle.core.plan import Plan
from treadle.core.snapshot import Snapshot
from treadle.models.plans.layouts import NOTHING, Counts, counted


class Holdings:
    """Free devices and holdings as a decision would have them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        free = snapshot.free
        self.free = {node.name: free.count_on(node.name) for node in snapshot.cluster.nodes}
        self.total = sum(self.free.values())
        self.held: dict[JobId, Counts] = {}
        self.on: dict[str, dict[JobId, None]] = {node: {} for node in self.free}
        self.touched: dict[JobId, None] = {}  # jobs whose holdings changed since the last look
        self.plans: dict[JobId, Plan | None] = {}  # of holdings that changed
        self._log: list[tuple[JobId, Counts, Plan | None]] = []
        for job in snapshot.holding():
            assert job.allocation is not None, "holding jobs hold"
            self._enter(job.id, counted(job.allocation.devices))
            self.touched[job.id] = None

    def mark(self) -> int:
        """A moment to go back to."""
        return len(self._log)

    def back(self, mark: int) -> None:
        """Undo everything since."""
        while len(self._log) > mark:
            job, counts, self.plans[job] = self._log.pop()
            self.touched[job] = None
            self._leave(job)
            self._enter(job, counts, free=True)

    def size(self, job: JobId) -> int:
        return sum(self.held.get(job, NOTHING).values())

    def room(self, own: Counts, spare: Mapping[JobId, int] = NOTHING) -> dict[str, int]:
        """Devices by node that are free, a job's own, or could be spared by others."""
        room = {node: count + own.get(node, 0) for node, count in self.free.items()}
        for job, most in spare.items():
            for node, count in self.held[job].items():
                if node in room:
                    room[node] += min(count, most)
        return {node: count for node, count in room.items() if count}

    def set(self, job: JobId, counts: Counts, plan: Plan | None) -> None:
        """Let a job hold exactly these under a plan; there must be enough."""
        self._log.append((job, self.held.get(job, NOTHING), self.plans.get(job)))
        self.plans[job] = plan
        self.touched[job] = None
        self._leave(job)
        self._enter(job, counts, free=True)

    def allocations(self) -> dict[JobId, Allocation | None]:
        """What changed, as devices: each job keeps those it can."""
        jobs, free = self._snapshot.jobs, self._snapshot.free.copy()
        kept: dict[JobId, list[Device]] = {}
        changed = {job: self.held.get(job, NOTHING) for job, _, _ in self._log}
        for identity, counts in changed.items():
            allocation, left = jobs[identity].allocation, dict(counts)
            mine: list[Device] = []
            for device in () if allocation is None else allocation.devices:
                if left.get(device.node, 0):
                    left[device.node] -= 1
                    mine.append(device)
                else:
                    free.give((device,))
            kept[identity] = mine
        changes: dict[JobId, Allocation | None] = {}
        for identity, counts in changed.items():
            devices: list[Device] = []
            for node in sorted(counts, key=lambda n: -counts[n]):
                own = [device for device in kept[identity] if device.node == node]
                more = free.pick_on(node, counts[node] - len(own))
                if more:
                    free.take(more)
                devices += sorted((*own, *more))
            old = jobs[identity].allocation
            if devices:
                plan = self.plans[identity]
                assert plan is not None, "a job that holds devices has a plan"
                new = Allocation(tuple(devices), plan)
                # Cores and host memory are settled later.
                if old is None or (new.devices, new.plan) != (old.devices, old.plan):
                    changes[identity] = new
            elif old is not None:
                changes[identity] = None
        return changes

    def _leave(self, job: JobId) -> None:
        for node, count in self.held.pop(job, NOTHING).items():
            if node in self.free:  # A drained node's devices do not become free.
                self.free[node] += count
                self.total += count
                del self.on[node][job]

    def _enter(self, job: JobId, counts: Counts, *, free: bool = False) -> None:
        if not counts:
            return
        self.held[job] = counts
        for node, count in counts.items():
            if node in self.free:
                self.on[node][job] = None
                if free:
                    self.free[node] -= count
                    self.total -= count
                    assert self.free[node] >= 0, "more was given than there is"


def less(counts: Counts, amount: int, node: str) -> Counts:
    """A holding with so many fewer: first off this node, then off those where there are fewest."""
    left = dict(counts)
    for name in sorted(left, key=lambda other: (other != node, left[other])):
        taken = min(left[name], amount)
        left[name] -= taken
        amount -= taken
    return {name: count for name, count in left.items() if count}
