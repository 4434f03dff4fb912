"""Try a failed job again later, and somewhere else.

The retry rule has said of a job that failed when another try makes sense and which nodes it had
better not run on (`Job.ready_at` and `Job.avoid`). Until then it is kept out of the inner policy's
sight; but no job of lower priority starts in its stead: rather than let one pass, it is tried at
once. A start on a node or device to be avoided is moved to others, or waits for some; not for ever,
because a suspicion is no proof, and not at all where there are no others. Any other failure may
have been a device's too: the next start is on others if some are free, and waits for none.
"""

from collections.abc import Mapping, Sequence
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.device_types import Nodes
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import devices, times
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import place
from treadle.policies.wrappers.views import Changes, free_after, starts
from treadle.policies.wrappers.wrapper import Wrapper


def elsewhere(
    inner: Policy,
    placement: Placement,
    belief: PerformanceModel,  # noqa: ARG001
    *,
    patience_s: float = 600.0,
) -> "Elsewhere":
    """A job that failed is tried again after a while, and not on nodes that are suspected.

    patience_s: how long it waits for devices of other nodes.
    """
    if not 0 <= patience_s < inf:
        raise InvalidInputError(f"elsewhere patience_s must be 0 or more, not {patience_s:g}")
    return Elsewhere(inner, placement, patience_s)


class Elsewhere(Wrapper):
    """Keeps what a retry rule asked for."""

    def __init__(self, inner: Policy, placement: Placement, patience_s: float) -> None:
        super().__init__(inner)
        self.in_order = False  # While a job is kept back, others start.
        self._placement = placement
        self._patience_s = patience_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        late = {job.id: job.ready_at for job in snapshot.waiting() if job.ready_at > snapshot.now}
        stuck: dict[JobId, float] = {}
        while True:
            seen = snapshot.hiding((*late, *stuck)) if late or stuck else snapshot
            schedule = self.inner.decide(seen)
            passed = _passed(snapshot, schedule.changes, late)
            if passed:
                late = {i: at for i, at in late.items() if i not in passed}
                continue
            changes, waits = self._moved(snapshot, schedule.changes)
            if not waits:
                until = min(schedule.valid_until, *late.values(), *stuck.values(), inf)
                return Schedule(changes, until, schedule.memory)
            stuck |= waits

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row, now = snapshot.jobs[job], snapshot.now
        if row.allocation is None and row.ready_at > now:
            return Reason(
                "order",
                f"it failed {times(row.failures)} and is tried again in {row.ready_at - now:g} s, "
                f"or as soon as a job of lower priority would start",
            )
        if row.allocation is None and self._patient(row, now):
            size, free, cluster = row.spec.asked, snapshot.free, snapshot.cluster
            usual = place(row, size, free, cluster=cluster, placement=self._placement)
            found = self._elsewhere(free, row, size, cluster)
            if usual is not None and found is None:
                return Reason(
                    "fragmentation",
                    f"it asks for {devices(row.spec.asked)} and failed on {', '.join(row.avoid)}; "
                    f"it waits for others up to {self._patient_until(row) - now:g} s more",
                )
        return self.inner.why(snapshot, job)

    def _moved(self, snapshot: Snapshot, changes: Changes) -> tuple[Changes, Mapping[JobId, float]]:
        """The changes with better devices for starts, and who finds none yet."""
        moved, waits = dict(changes), dict[JobId, float]()
        for identity, allocation in starts(snapshot, changes).items():
            job = snapshot.jobs[identity]
            suspects = self._is_suspect(snapshot, job, allocation)
            if not suspects and not any(str(each) in job.failed_on for each in allocation.devices):
                continue
            others = {i: new for i, new in moved.items() if i != identity}
            shares = _shares(snapshot, others, allocation.devices)
            free, size = free_after(snapshot, others), allocation.size
            if not suspects:  # It is not put among the jobs that wait for another type.
                free = free.only(_of_its_types(allocation, snapshot.cluster))
            devices = None if shares else self._elsewhere(free, job, size, snapshot.cluster)
            better = devices and Allocation(devices, allocation.plan)  # Cores are of a node.
            if better and (suspects or len(better.nodes()) <= len(allocation.nodes())):
                moved[identity] = better
            elif suspects:
                waits[identity] = self._patient_until(job)
        return moved, waits

    def _is_suspect(self, snapshot: Snapshot, job: Job, allocation: Allocation) -> bool:
        """Whether it had better wait for others than start there."""
        return (
            self._patient(job, snapshot.now)
            and any(_suspected(device, job) for device in allocation.devices)
            and self._has_others(snapshot, job)
        )

    def _elsewhere(
        self, free: FreeDevices, job: Job, size: int, cluster: Cluster
    ) -> tuple[Device, ...] | None:
        """On devices that are neither suspected nor those on which it failed last; if they are too
        few, only not suspected."""
        left = free.withholding([device for device in free if _suspected(device, job)])
        tried = [device for device in left if str(device) in job.failed_on]
        for some in (left.withholding(tried), left) if tried else (left,):
            found = place(job, size, some, cluster=cluster, placement=self._placement)
            if found is not None:
                return found
        return None

    def _has_others(self, snapshot: Snapshot, job: Job) -> bool:
        """Whether it could run on devices that are not suspected, if no job held any."""
        least, everything = job.spec.sizes[0], snapshot.emptied()
        return self._elsewhere(everything, job, least, snapshot.cluster) is not None

    def _patient(self, job: Job, now: float) -> bool:
        return bool(job.avoid) and now < self._patient_until(job)

    def _patient_until(self, job: Job) -> float:
        return max(job.since_at, job.ready_at) + self._patience_s


def _of_its_types(allocation: Allocation, cluster: Cluster) -> Nodes:
    """The nodes with devices of the types that were chosen for it."""
    own = [nodes for nodes in cluster.by_type.values() if not nodes.isdisjoint(allocation.nodes())]
    return Nodes().union(*own)


def _suspected(device: Device, job: Job) -> bool:
    return device.node in job.avoid or str(device) in job.avoid


def _passed(snapshot: Snapshot, changes: Changes, late: Mapping[JobId, float]) -> set[JobId]:
    """Jobs that are kept back while one of lower priority would start."""
    jobs = snapshot.jobs
    if not late:
        return set()
    lowest = min((jobs[i].spec.priority for i in starts(snapshot, changes)), default=inf)
    return {identity for identity in late if jobs[identity].spec.priority > lowest}


def _shares(snapshot: Snapshot, others: Changes, devices: Sequence[Device]) -> bool:
    """Whether another job is on these devices once the other changes are made."""
    return not free_after(snapshot, others).holds(devices)
