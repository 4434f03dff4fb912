"""Jobs that can go on only on some nodes are started there, or wait.

Where nodes have no file system in common, checkpoints are copied to the nodes on which a job goes
on, and its working folder to nodes that lack it, up to a limit. A job that has more is bound to the
nodes that have its files (`Job.only_on`). The inner policy does not know that. A start elsewhere is
moved to devices of those nodes, before others are given them; if none are free, the job waits and
the inner policy decides without it. A running job that would be moved away keeps what it has.
"""

from operator import attrgetter

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import are, devices, listed
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.views import plain
from treadle.policies.wrappers.wrapper import Wrapper

NAMED_MAX = 3
_ONLY_ON = attrgetter("only_on")  # All jobs are asked for it at every decision.


def bound(
    inner: Policy,
    placement: Placement,
    belief: PerformanceModel,  # noqa: ARG001
) -> "Bound":
    """A job whose checkpoints cannot be copied runs only where they are."""
    return Bound(inner, placement)


class Bound(Wrapper):
    """Keeps jobs on the nodes that have their checkpoints."""

    def __init__(self, inner: Policy, placement: Placement) -> None:
        super().__init__(inner)
        self.in_order = False  # While a job waits for its nodes, others start.
        self._placement = placement

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not any(map(_ONLY_ON, snapshot.jobs.values())):
            return self.inner.decide(snapshot)
        seen, moved = snapshot, dict[JobId, Allocation]()
        while True:
            schedule = self.inner.decide(seen)
            stray = [
                (snapshot.jobs[identity], new)
                for identity, new in schedule.changes.items()
                if new is not None and _leaves(snapshot.jobs[identity], new)
            ]
            if not stray:
                changes = {**schedule.changes, **moved}
                return Schedule(changes, schedule.valid_until, schedule.memory)
            for job, new in stray:
                if job.allocation is not None:
                    seen = seen.keeping([job])
                    continue
                seen = seen.hiding([job.id])
                found = self._there(seen.free, job, new)
                if found is not None:
                    moved[job.id] = found
                    seen = seen.withholding(found.devices)

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row = snapshot.jobs[job]
        if row.allocation is not None or not row.only_on:
            return self.inner.why(snapshot, job)
        known = {node.name for node in snapshot.cluster.nodes}
        here = [name for name in row.only_on if name in known]
        free = len([device for device in snapshot.free if device.node in row.only_on])
        state = f"{free} {are(free)} free there" if here else "they are not in use now"
        needs = f"it needs {devices(row.spec.sizes[0])}, and {state}"
        return Reason("devices", f"{only_there(row)}; {needs}")

    def _there(self, free: FreeDevices, job: Job, wanted: Allocation) -> Allocation | None:
        """As many devices of its nodes as it was to have, or fewer."""
        others: list[Device] = [device for device in free if device.node not in job.only_on]
        left = free.withholding(others)
        for size in reversed([size for size in job.spec.sizes if size <= wanted.size]):
            found = self._placement.place(left, size)
            if found is not None and (size == wanted.size or plain(job.spec)):
                return Allocation(found, wanted.plan) if size == wanted.size else Allocation(found)
        return None


def only_there(job: Job) -> str:
    """That a job is bound to its nodes, and why."""
    where, have = listed(job.only_on, NAMED_MAX), "has" if len(job.only_on) == 1 else "have"
    why = job.only_because or "they cannot be copied to other nodes"
    return f"it can run only on {where}, which {have} its files: {why}"


def _leaves(job: Job, new: Allocation) -> bool:
    return bool(job.only_on) and not set(new.nodes()) <= set(job.only_on)
