"""Why a job waits, in one word and one sentence with its numbers."""

from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.snapshot import Reason, Snapshot
from treadle.policies.base.placement import Placement

_NAMED_MAX = 4  # jobs in a sentence


def why_waiting(
    snapshot: Snapshot,
    identity: JobId,
    placement: Placement,
    *,
    in_order: bool,
    smallest: int = 0,
) -> Reason:
    """The reason for a job's present state under a policy that runs jobs at the asked size.

    smallest: the least size that would do, where the policy chooses among several.
    """
    job = snapshot.jobs[identity]
    if job.allocation is not None:
        return _why_holding(job, snapshot)
    size, free = smallest or job.spec.asked, snapshot.free.total
    ahead = _ahead(snapshot, identity)
    if size > free:
        needs = (
            f"it needs at least {_devices(size)}" if smallest else f"it asks for {_devices(size)}"
        )
        return Reason(
            "devices",
            f"{needs} and {_free_of(free, snapshot.cluster.device_count)}; "
            f"{_waits_ahead(ahead)} of it",
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
            f"but this policy lets no job overtake, and job {first.id} ahead of it "
            f"waits for {first.spec.asked}",
        )
    if not ahead:
        return Reason("rank", "it is next in line and is started at the next decision")
    return Reason("rank", f"it ranks behind {_waiting(ahead)} and is started when its turn comes")


def _why_holding(job: Job, snapshot: Snapshot) -> Reason:
    assert job.allocation is not None, "asked only for jobs that hold devices"
    where = ", ".join(
        f"{sum(1 for d in job.allocation.devices if d.node == node)} on {node}"
        for node in job.allocation.nodes()
    )
    now = snapshot.now
    done = 100.0 * job.iterations_at(now) / job.spec.iterations
    asked = "all it asked for" if job.size == job.spec.asked else f"it asked for {job.spec.asked}"
    held_s = now - job.begun_at
    sharers = _sharers(job, snapshot)
    return Reason(
        "starting" if job.phase is Phase.STARTING else "running",
        f"it holds {_devices(job.size)} ({where}; {asked}) since {held_s:g} s ago, "
        f"{done:.1f} % done{f', and shares them with {sharers}' if sharers else ''}",
    )


def _sharers(job: Job, snapshot: Snapshot) -> str:
    """The other jobs on its devices, in words; empty if it has them to itself."""
    assert job.allocation is not None, "asked only for jobs that hold devices"
    turns = [snapshot.tenants[device].values() for device in job.allocation.devices]
    others = list(dict.fromkeys(other for jobs in turns for other in jobs if other != job.id))
    named = ", ".join(others[:_NAMED_MAX])
    more = f" and {len(others) - _NAMED_MAX} more" if len(others) > _NAMED_MAX else ""
    return f"job{'s' if len(others) > 1 else ''} {named}{more}" if others else ""


def _ahead(snapshot: Snapshot, identity: JobId) -> int:
    for position, job in enumerate(snapshot.waiting()):
        if job.id == identity:
            return position
    return len(snapshot.ranking.queue)


def _waiting(count: int) -> str:
    return "1 waiting job" if count == 1 else f"{count} waiting jobs"


def _waits_ahead(count: int) -> str:
    if count == 0:
        return "no job waits ahead"
    return "1 job waits ahead" if count == 1 else f"{count} jobs wait ahead"


def _free_of(free: int, total: int) -> str:
    if free == 0:
        return "the only one is taken" if total == 1 else f"all {total} are taken"
    return f"{free} of {total} {'is' if free == 1 else 'are'} free"


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
