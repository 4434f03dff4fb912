"""A job that is larger than any node starts on parts of nodes, if these are as few as whole ones.

Placements give such a job whole nodes and a remainder. Then a job of one device on the largest node
keeps off every one of them, however many devices are free, though the ranks have to cross nodes in
any case. Here a job that comes next in the order is started on the parts that are free. It
overtakes no job: one that waits for whole nodes would wait longer.
"""

from treadle.core.allocation import Allocation
from treadle.core.free import FreeDevices
from treadle.core.job import Job
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies.base.placement import Placement, on_few
from treadle.policies.wrappers.views import free_after, plain
from treadle.policies.wrappers.wrapper import Wrapper


def few(
    inner: Policy,
    placement: Placement,  # noqa: ARG001
    belief: PerformanceModel,  # noqa: ARG001
) -> "Few":
    """A job larger than a node may start on parts of as few nodes as it needs."""
    return Few(inner)


class Few(Wrapper):
    """Starts the next in line on what is free."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        schedule = self.inner.decide(snapshot)
        # What tenants are promised, their quotas count.
        if not snapshot.ranking.queue or self.inner.quotas(snapshot) is not None:
            return schedule
        changes = dict(schedule.changes)
        free = free_after(snapshot, changes)
        for job in snapshot.waiting():
            if changes.get(job.id) is not None:
                continue
            given = _given(job, free)
            if given is None:
                break
            free.take(given.devices)
            changes[job.id] = given
        return Schedule(changes, schedule.valid_until, schedule.memory)


def _given(job: Job, free: FreeDevices) -> Allocation | None:
    """The most of what it asks for that is free on few nodes."""
    if not plain(job.spec):
        return None
    for size in reversed(job.spec.sizes):
        found = on_few(free, size) if size <= job.spec.asked else None
        if found is not None:
            return Allocation(found)
    return None
