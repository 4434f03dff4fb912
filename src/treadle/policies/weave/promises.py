"""What weave owes: devices to guaranteed jobs within quotas, and worth to jobs with deadlines.

A guaranteed job is promised the size that its user asked for, or the fewest devices on which it is
as fast, alone. Promises are made while the tenant's quota and the places that other promises leave
suffice: first to jobs that have theirs already, so that none is withdrawn, then in weave's order.
What a promise needs is taken from all jobs that run without one. Guaranteed jobs beyond the quota
are served as best-effort jobs are, and what a quota leaves idle is lent in the same way.

Only quotas make promises: jobs are guaranteed unless their user says otherwise, so without quotas
the word tells no two jobs apart.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.base.quotas import Left, Quotas
from treadle.policies.weave.curve import Curve
from treadle.policies.weave.places import Wanted, settle

Promised = Mapping[JobId, int]  # devices that a job was promised, by whose promise goes first
NONE: Promised = {}


class Owed(NamedTuple):
    """The jobs that go first in a decision."""

    overdue: Set[JobId] = frozenset()  # they have waited too long
    promised: Promised = NONE  # they go before those

    @property
    def names(self) -> Set[JobId]:
        return self.overdue | self.promised.keys() if self.promised else self.overdue


def promised_size(job: Job, curve: Curve) -> int:
    """What its user asked for, or the fewest devices on which it is as fast.

    A job that is believed to run only on more devices than it asked for is promised the fewest.
    """
    asked, sizes = job.spec.asked, curve.rates
    if asked in sizes:
        return asked
    return max((size for size in sizes if size < asked), default=min(sizes))


def promised(
    snapshot: Snapshot,
    placement: Placement,
    quotas: Quotas,
    *,
    size_of: Callable[[Job], int],
    order: Callable[[Job], object],
    earlier: Set[JobId],
    overdue: Set[JobId],
) -> Promised:
    """The jobs whose promise is kept now.

    earlier: those whose promise was kept at the last decision. overdue: jobs that have waited too
    long; no other job of their tenant is promised anything before them.
    """
    have, others = _by_turn(snapshot, size_of, earlier)
    others.sort(key=lambda job: (job.id not in overdue, order(job)))
    names = {job.id for job in have}
    left = _left(snapshot, quotas, size_of)
    free = snapshot.emptied()
    found: dict[JobId, int] = {}
    closed: set[str] = set()  # tenants in which an overdue job waits for its promise
    for job in (*have, *others):
        size, tenant = size_of(job), job.spec.tenant
        if size > quotas.get(tenant, 0.0) or tenant in closed:
            continue
        if size <= left.of(job.spec):
            if settle(free, placement, Wanted(size, (job,), (size,))) is not None:
                left.use(job.spec, size)
                found[job.id] = size
            elif job.id in overdue and job.id not in names:
                break  # The promises to others leave it no place: none is made to a new job.
        elif job.id in overdue and job.id not in names:
            closed.add(tenant)
    return found


def within(
    snapshot: Snapshot,
    quotas: Quotas,
    *,
    size_of: Callable[[Job], int],
    order: Callable[[Job], tuple[float, int]],
) -> Set[JobId]:
    """Guaranteed jobs for which quotas suffice, whether there is a place for them or not.

    For a decision about a part of the devices, since quotas count all of them.
    """
    have, others = _by_turn(snapshot, size_of, frozenset())
    left, found = _left(snapshot, quotas, size_of), set[JobId]()
    for job in (*have, *sorted(others, key=order)):
        if (size := size_of(job)) <= left.of(job.spec):
            left.use(job.spec, size)
            found.add(job.id)
    return found


def left_by(promises: Promised, snapshot: Snapshot, placement: Placement) -> FreeDevices:
    """The devices that are left once each promise has its place."""
    free = snapshot.emptied()
    for name, size in promises.items():
        settle(free, placement, Wanted(size, (snapshot.jobs[name],), (size,)))
    return free


def used(snapshot: Snapshot, promises: Promised, tenant: str, size_of: Callable[[Job], int]) -> int:
    """Devices of a tenant's quota that are promised, or that jobs out of sight have of it."""
    found = sum(
        size for name, size in promises.items() if snapshot.jobs[name].spec.tenant == tenant
    )
    hidden = (job for job in _out_of_sight(snapshot) if job.spec.tenant == tenant)
    return found + sum(min(job.size, size_of(job)) for job in hidden)


def bound(job: Job, size: int, *, grows: bool) -> Job:
    """The job as a decision must see it: it has at least this size, and its devices alone."""
    larger = [one for one in job.spec.sizes if one > size] if grows else []
    return job._replace(spec=replace(job.spec, sizes=(size, *larger), asked=size, exclusive=True))


def are_kept(promises: Promised, allocations: Mapping[JobId, Allocation]) -> bool:
    """Whether each job has at least what it was promised."""
    return all(
        job in allocations and allocations[job].size >= size for job, size in promises.items()
    )


def urgency(left_s: float, allowed_s: float) -> float:
    """The share of the time until its deadline that a job needs at its fastest, 0 to 1.

    0 as well if it cannot make it any more: no other job should wait for it then.
    """
    return left_s / allowed_s if 0 < left_s <= allowed_s else 0.0


def _by_turn(
    snapshot: Snapshot, size_of: Callable[[Job], int], earlier: Set[JobId]
) -> tuple[list[Job], list[Job]]:
    """Guaranteed jobs: those that have what they would be promised, in order, and the others."""
    holding = [job for job in snapshot.holding() if job.spec.guaranteed]
    have = [job for job in holding if job.size >= size_of(job) and _is_alone(snapshot, job)]
    have.sort(key=lambda job: (job.id not in earlier, job.begun_at, job.sequence))
    names = {job.id for job in have}
    others = [job for job in holding if job.id not in names]
    return have, [*others, *(job for job in snapshot.waiting() if job.spec.guaranteed)]


def _left(snapshot: Snapshot, quotas: Quotas, size_of: Callable[[Job], int]) -> Left:
    """What jobs out of sight leave of the quotas."""
    left = Left(quotas, snapshot.supply)
    for job in _out_of_sight(snapshot):
        left.use(job.spec, min(job.size, size_of(job)))
    return left


def _is_alone(snapshot: Snapshot, job: Job) -> bool:
    assert job.allocation is not None, "asked only for jobs that hold devices"
    return all(len(snapshot.tenants[device]) == 1 for device in job.allocation.devices)


def _out_of_sight(snapshot: Snapshot) -> Iterable[Job]:
    """Guaranteed jobs with devices that are not this decision's to change: they use their quota."""
    seen = {job.id for job in snapshot.holding()}
    return [
        job
        for job in snapshot.jobs.values()
        if job.allocation is not None and job.spec.guaranteed and job.id not in seen
    ]
