"""Why a job waits, in one word and one sentence with its numbers."""

from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.snapshot import Reason, Snapshot
from treadle.core.wording import are, devices, free_of, jobs, named_jobs, several
from treadle.policies.base.placement import Placement, nodes_needed, on_few

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
        needs = "it needs at least" if smallest else "it asks for"
        return Reason(
            "devices",
            f"{needs} {devices(size)} and {free_of(free, snapshot.cluster.device_count)}"
            # Where jobs overtake, the rank is not the order of starts.
            f"{f'; {_ranks_ahead(ahead)} of it' if in_order else ''}",
        )
    if placement.place(snapshot.free, size) is None and (ahead or not on_few(snapshot.free, size)):
        return Reason(
            "fragmentation",
            f"it asks for {devices(size)} and {free} {are(free)} free, but not where it needs "
            f"them: {_where(snapshot.free, size)}",
        )
    if in_order and ahead:
        first = next(snapshot.waiting())
        return Reason(
            "order",
            f"{several(free, 'device is', 'devices are')} free and it asks for {size}, "
            f"but this policy lets no job overtake, and job {first.id} ahead of it "
            f"waits for {first.spec.asked}",
        )
    if not ahead and in_order:
        return Reason("rank", "it is next in line and is started at the next decision")
    if not ahead:
        here = several(free, "device is", "devices are")
        return Reason("rank", f"it ranks first and {here} free; the policy has not chosen it yet")
    return Reason(
        "rank",
        f"it ranks behind {several(ahead, 'waiting job')} and is started when its turn comes",
    )


def _where(free: FreeDevices, size: int) -> str:
    """Why so many free devices are not enough."""
    if size <= free.largest:
        return f"the emptiest node has {free.most_on_a_node()} free"
    nodes = several(nodes_needed(free, size), "node")
    if on_few(free, size) is not None:
        return f"{nodes} have them in parts, and a job ahead of it comes first"
    return f"no {nodes} have {size} free together, and it is not spread over more"


def _why_holding(job: Job, snapshot: Snapshot) -> Reason:
    assert job.allocation is not None, "asked only for jobs that hold devices"
    where = ", ".join(
        f"{sum(1 for d in job.allocation.devices if d.node == node)} on {node}"
        for node in job.allocation.nodes()
    )
    now = snapshot.now
    done = 100.0 * job.iterations_at(now) / job.spec.iterations
    asked = "all it asked for" if job.size == job.spec.asked else f"it asked for {job.spec.asked}"
    sharers = _sharers(job, snapshot)
    sentence = (
        f"it holds {devices(job.size)} ({where}; {asked}){_since(job, now)}, "
        f"{done:.1f} % done{f', and shares them with {sharers}' if sharers else ''}"
    )
    return Reason("starting" if job.phase is Phase.STARTING else "running", sentence, sentence)


def _since(job: Job, now: float) -> str:
    """Since when it holds these devices, which it may have been given in place of others."""
    moved = job.action != job.attempt
    seconds = f"{round(now - (job.since_at if moved else job.begun_at), 1):g} s"
    ran = moved and job.phase is Phase.RUNNING
    return f", where it has run for {seconds}" if ran else f" since {seconds} ago"


def _sharers(job: Job, snapshot: Snapshot) -> str:
    """The other jobs on its devices, in words; empty if it has them to itself."""
    assert job.allocation is not None, "asked only for jobs that hold devices"
    held = set(job.allocation.devices)
    # By what all jobs hold: a policy does not see who is on a device
    # that is closed, and a wrapper may withhold those of a job that is to be left alone.
    others = [
        other.id
        for other in snapshot.jobs.values()
        if other.allocation is not None
        and other.id != job.id
        and not held.isdisjoint(other.allocation.devices)
    ]
    return named_jobs(others, _NAMED_MAX) if others else ""


def _ahead(snapshot: Snapshot, identity: JobId) -> int:
    for position, job in enumerate(snapshot.waiting()):
        if job.id == identity:
            return position
    return len(snapshot.ranking.queue)


def _ranks_ahead(count: int) -> str:
    return jobs(count, "ranks ahead", "rank ahead") if count else "no job ranks ahead"
