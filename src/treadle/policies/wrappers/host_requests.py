"""Jobs that ask for host memory or cores start only where these fit beside the jobs that run.

A job may ask for memory and cores of each node that it runs on (`treadle submit --memory 16G
--cpus 4`). The inner policy decides about devices alone. A start that would take more of a node
than it has is refused, and the inner policy decides again without that job. A job that asks for
nothing counts nothing, and a node that does not say what it has is never too small.
"""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from treadle.core.cluster import Cluster, Node
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import gib_text, gib_texts, several
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import free_for, usable_by
from treadle.policies.wrappers.views import starts
from treadle.policies.wrappers.wrapper import Refusing

ROUNDING = 1e-6  # sums of requests that should be equal to what a node has


def host(
    inner: Policy,
    placement: Placement,  # noqa: ARG001
    belief: PerformanceModel,  # noqa: ARG001
) -> "HostRequests":
    """Jobs start only where the host memory and cores that they ask for are left."""
    return HostRequests(inner)


class _Use(NamedTuple):
    """Host memory and cores of one node."""

    memory_gib: float = 0.0
    cores: float = 0.0

    def plus(self, spec: JobSpec) -> "_Use":
        return _Use(self.memory_gib + spec.host_memory_gib, self.cores + spec.host_cores)

    def fits(self, node: Node) -> bool:
        memory_gib, cores = node.memory_gib or inf, node.cores or inf
        return self.memory_gib <= memory_gib + ROUNDING and self.cores <= cores + ROUNDING


class HostRequests(Refusing):
    """Refuses starts that ask for more of a node than is left."""

    def refused(
        self,
        snapshot: Snapshot,
        seen: Snapshot,  # noqa: ARG002  # All jobs count, also those that are hidden.
        schedule: Schedule,
    ) -> Mapping[JobId, float]:
        begun = starts(snapshot, schedule.changes)
        if not any(_asks(snapshot.jobs[identity].spec) for identity in begun):
            return {}
        nodes = {node.name: node for node in snapshot.cluster.nodes}
        used = _used(snapshot, without=[i for i, new in schedule.changes.items() if new is None])
        found = {}
        for identity, allocation in begun.items():
            spec = snapshot.jobs[identity].spec
            after = {name: used.get(name, _Use()).plus(spec) for name in allocation.nodes()}
            if _asks(spec) and not all(use.fits(nodes[name]) for name, use in after.items()):
                found[identity] = inf
            else:
                used |= after
        return found

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        never = self.inner.never_fits(spec, cluster)
        if never is not None or not _asks(spec) or not cluster.nodes:
            return never
        nodes = [node for node in cluster.nodes if node.name in usable_by(spec, cluster)]
        if not nodes or any(fits_empty(spec, node) for node in nodes):
            return None
        most_gib = max(node.memory_gib for node in nodes)
        most_cores = max(node.cores for node in nodes)
        return (
            f"it asks for {_request(spec)} of one node, and the largest has "
            f"{gib_text(most_gib)} and {several(most_cores, 'core')}"
        )

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        return host_reason(snapshot, snapshot.jobs[job]) or self.inner.why(snapshot, job)


def fits_empty(spec: JobSpec, node: Node) -> bool:
    """Whether a node has the memory and cores that a job asks for, if no other job runs there."""
    return _Use().plus(spec).fits(node)


def host_reason(snapshot: Snapshot, row: Job) -> Reason | None:
    """That there are devices for a waiting job, and only its request does not fit; else None."""
    if row.allocation is not None or not _asks(row.spec):
        return None
    usable = usable_by(row.spec, snapshot.cluster, row.only_on)
    if row.spec.sizes[0] > free_for(usable, snapshot.free, snapshot.cluster).total:
        return None
    used = _used(snapshot)
    nodes = [node for node in snapshot.cluster.nodes if node.name in usable]
    if any(used.get(node.name, _Use()).plus(row.spec).fits(node) for node in nodes):
        return None
    left = [
        f"{node.name} has "
        f"{gib_texts((max(0.0, node.memory_gib - use.memory_gib), node.memory_gib), ' of ')} "
        f"and {max(0.0, node.cores - use.cores):g} of "
        f"{several(node.cores, 'core')} left"
        for node in nodes[:3]
        if (use := used.get(node.name, _Use())) is not None
    ]
    return Reason("host", f"it asks for {_request(row.spec)} of one node, and {', '.join(left)}")


def _asks(spec: JobSpec) -> bool:
    return bool(spec.host_memory_gib or spec.host_cores)


def _used(snapshot: Snapshot, without: "list[JobId] | tuple[()]" = ()) -> dict[str, _Use]:
    """What running jobs asked for, by node."""
    found: dict[str, _Use] = {}
    holders = {identity for own in snapshot.tenants.values() for identity in own.values()}
    for identity in holders.difference(without):
        job = snapshot.jobs.get(identity)
        if job is None or job.allocation is None or not _asks(job.spec):
            continue
        for name in job.allocation.nodes():
            found[name] = found.get(name, _Use()).plus(job.spec)
    return found


def _request(spec: JobSpec) -> str:
    parts = []
    if spec.host_memory_gib:
        parts.append(f"{gib_text(spec.host_memory_gib)} of host memory")
    if spec.host_cores:
        parts.append(f"{spec.host_cores:g} core{'' if spec.host_cores == 1 else 's'}")
    return " and ".join(parts)
