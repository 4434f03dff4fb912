"""Why a job waits, in one word and one sentence with its numbers."""

from weft.core.job import Job, JobId
from weft.core.lifecycle import Phase
from weft.core.snapshot import Reason, Snapshot
from weft.policies.placement import Placement


def why_waiting(
    snapshot: Snapshot, identity: JobId, placement: Placement, *, in_order: bool
) -> Reason:
    """The reason for a job's present state under a policy that runs jobs at the asked size."""
    job = snapshot.jobs[identity]
    if job.allocation is not None:
        return _why_holding(job, snapshot.now)
    size, free = job.spec.asked, snapshot.free.total
    ahead = _ahead(snapshot, identity)
    if size > free:
        return Reason(
            "devices",
            f"it asks for {_devices(size)} and {free} of {snapshot.cluster.device_count} "
            f"are free; {_waiting(ahead)} {'is' if ahead == 1 else 'are'} ahead of it",
        )
    if placement.place(snapshot.free, size) is None:
        most = max(snapshot.free.count(p) for p in range(len(snapshot.free.capacity)))
        return Reason(
            "fragmentation",
            f"it asks for {_devices(size)} and {free} are free, but not where it needs them: "
            f"the emptiest node has {most} free",
        )
    if in_order and ahead:
        first = next(snapshot.waiting())
        return Reason(
            "order",
            f"{_devices(free)} {'is' if free == 1 else 'are'} free and it asks for {size}, "
            f"but this policy lets nobody overtake, and job {first.id} ahead of it "
            f"waits for {first.spec.asked}",
        )
    return Reason("rank", f"it ranks behind {_waiting(ahead)} and is started when its turn comes")


def _why_holding(job: Job, now: float) -> Reason:
    assert job.allocation is not None, "asked only for jobs that hold devices"
    where = ", ".join(
        f"{sum(1 for d in job.allocation.devices if d.node == node)} on {node}"
        for node in job.allocation.nodes()
    )
    done = 100.0 * job.iterations_at(now) / job.spec.iterations
    asked = "all it asked for" if job.size == job.spec.asked else f"it asked for {job.spec.asked}"
    held_s = now - job.begun_at
    return Reason(
        "starting" if job.phase is Phase.STARTING else "running",
        f"it holds {_devices(job.size)} ({where}; {asked}) since {held_s:g} s ago, "
        f"{done:.1f} % done",
    )


def _ahead(snapshot: Snapshot, identity: JobId) -> int:
    for position, job in enumerate(snapshot.waiting()):
        if job.id == identity:
            return position
    return len(snapshot.ranking.queue)


def _waiting(count: int) -> str:
    return "1 waiting job" if count == 1 else f"{count} waiting jobs"


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
