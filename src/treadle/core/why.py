"""Why a job waits, or what it has, as far as anybody can see who knows nothing of the policy.

Every policy answers so by default (`Policy.reason`). No decision is taken: the reason is in the
state. The checks go from what no policy could change to what this one chose.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from treadle.core.cluster import Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.core.snapshot import Snapshot

HOLDERS_MAX = 8  # jobs that a reason names

Place = Callable[[FreeDevices, int], tuple[Device, ...] | None]


def reason_of(
    snapshot: Snapshot,
    identity: JobId,
    place: Place | None = None,
    *,
    in_order: bool = False,
    resizes: bool = False,
) -> Reason:
    """The reason under a policy that starts jobs one after another.

    place: how it chooses among free devices; None: any will do. in_order: no job overtakes.
    resizes: a job starts on as few devices as it can use.
    """
    job = snapshot.jobs[identity]
    if job.phase is not Phase.WAITING:
        return holding(snapshot, job)
    size = job.least(resizes=resizes)
    return (
        too_few(snapshot, size)
        or _scattered(snapshot, size, place)
        or (_behind(snapshot, job) if in_order else None)
        or _in_line(snapshot, identity)
    )


def holding(snapshot: Snapshot, job: Job) -> Reason:
    """What a job has that holds devices, or lets go of them."""
    if job.phase is not Phase.RUNNING:
        return Reason(str(job.phase), {"size": job.size})
    if others := sharers(snapshot, job):
        return Reason("shares", {"size": job.size, "jobs": others})
    spec = job.spec
    sizes = {"least": spec.sizes[0], "most": spec.sizes[-1], "asked": spec.asked}
    return Reason("running", {"size": job.size, **sizes})


def too_few(snapshot: Snapshot, size: int) -> Reason | None:
    """That fewer devices are free than a job needs."""
    free = snapshot.free.total
    if size <= free:
        return None
    total = snapshot.cluster.device_count
    holders = holders_of(snapshot.tenants, snapshot.tenants)
    return Reason("devices", {"asked": size, "free": free, "total": total, "holders": holders})


def holders_of(
    tenants: Mapping[Device, Mapping[int, JobId]], devices: Iterable[Device]
) -> tuple[JobId, ...]:
    """The jobs on these devices, as many as are named."""
    found = (name for device in devices for name in tenants.get(device, {}).values())
    return tuple(islice(dict.fromkeys(islice(found, 64 * HOLDERS_MAX)), HOLDERS_MAX))


def sharers(snapshot: Snapshot, job: Job) -> tuple[JobId, ...]:
    """The other jobs on its devices, also on those that take no new work."""
    held = set(() if job.allocation is None else job.allocation.devices)
    return tuple(
        other.id
        for other in snapshot.jobs.values()
        if other.allocation is not None
        and other.id != job.id
        and not held.isdisjoint(other.allocation.devices)
    )


def _scattered(snapshot: Snapshot, size: int, place: Place | None) -> Reason | None:
    """That enough devices are free, but not where the policy would use them."""
    free = snapshot.free
    if place is None or place(free, size) is not None:
        return None
    return Reason(
        "fragmentation", {"asked": size, "free": free.total, "most": free.most_on_a_node()}
    )


def _in_line(snapshot: Snapshot, identity: JobId) -> Reason:
    """That the policy starts others first."""
    ranking = snapshot.ranking
    ahead = ranking.ahead_of(identity) if identity in ranking else len(ranking.queue)
    return Reason("rank", {"ahead": ahead})


def _behind(snapshot: Snapshot, job: Job) -> Reason | None:
    """That another job is first, under a policy that lets no job overtake."""
    first = next(snapshot.waiting(), job)
    if first.id == job.id:
        return None
    counts = {"asked": first.spec.asked, "free": snapshot.free.total}
    return Reason("order", {"first_job": first.id, **counts})
