"""Pools of devices: a policy is asked about each type of device as a cluster of its own.

Policies count devices as if all were alike. Two types are one pool while a job needs devices of
both. A policy that tells GPUs from CPU slots has both in one pool while a job may have both; while
one needs both, all devices there look alike to it.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import Nodes, devices_on, needs_both, says_any
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import Policy
from treadle.core.snapshot import Snapshot
from treadle.models.workers import says_slots
from treadle.policies.base.suited import places, usable_by

Types = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Nodes about which a policy is asked at once."""

    types: Types
    cluster: Cluster

    @classmethod
    def of(cls, types: Types, cluster: Cluster) -> "Pool":
        nodes = Nodes().union(*(cluster.by_type[each] for each in types))
        return cls(types, cluster.part(nodes))

    @property
    def nodes(self) -> Nodes:
        return self.cluster.names

    def is_open(self, job: Job, cluster: Cluster) -> bool:
        """Whether a waiting job may be started there."""
        return any(place <= self.nodes for place in places(job, cluster))


def pools_of(snapshot: Snapshot, policy: Policy) -> list[tuple[Pool, dict[JobId, None] | None]]:
    """The pools of a cluster with their jobs; None: all jobs, as where there is but one type."""
    cluster = snapshot.cluster
    types = tuple(cluster.by_type)
    if len(types) < 2:
        return [(Pool(types, cluster), None)]
    pools = [Pool.of(each, cluster) for each in merged(types, _joined(snapshot, policy))]
    return list(zip(pools, members_of(snapshot, pools), strict=True))


def shown(cluster: Cluster, specs: Iterable[JobSpec], policy: Policy) -> Cluster:
    """Devices without kinds, if the policy tells kinds apart and one of these jobs needs both."""
    if not policy.knows_slots or CPU not in cluster.by_type or len(cluster.by_type) < 2:
        return cluster
    both = (
        needs_both(spec.sizes[0], usable_by(spec, cluster), cluster)
        for spec in specs
        if says_slots(spec)
    )
    return cluster.alike if any(both) else cluster


def _joined(snapshot: Snapshot, policy: Policy) -> list[Set[str]]:
    """Types that are one pool now."""
    cluster = snapshot.cluster
    kind = {node.name: node.device_type for node in cluster.nodes}
    together: dict[Nodes | tuple[str, ...], None] = {}  # Most jobs are like others.
    mixes = False
    for job in (*snapshot.holding(), *snapshot.waiting()):
        if job.allocation is not None:
            together[job.allocation.nodes()] = None
        elif len(own := places(job, cluster)) == 1:
            together[own[0]] = None
        mixes = mixes or says_any(job.spec.device_types)
    found = {frozenset(kind[each] for each in nodes if each in kind): None for nodes in together}
    others = [each for each in cluster.by_type if each != CPU]
    if mixes and policy.knows_slots and 0 < len(others) < len(cluster.by_type):
        sizes = {each: devices_on(cluster.by_type[each], cluster) for each in others}
        found[frozenset({CPU, max(others, key=sizes.__getitem__)})] = None
    return [types for types in found if len(types) > 1]


def merged(types: Types, joined: Iterable[Set[str]]) -> list[Types]:
    """The types in groups, so that those that are joined are in one."""
    groups: list[Set[str]] = [{each} for each in types]
    for one in joined:
        together = frozenset(one).union(*(group for group in groups if not group.isdisjoint(one)))
        groups = [together, *(group for group in groups if group.isdisjoint(one))]
    found = [tuple(each for each in types if each in group) for group in groups]
    return sorted(found, key=lambda group: types.index(group[0]))


def members_of(snapshot: Snapshot, pools: Sequence[Pool]) -> list[dict[JobId, None]]:
    """The jobs of each pool. One that no pool suits is in none, and keeps what it has.

    A waiting job that may use several is in one with enough free devices, the one that jobs with no
    choice want least, and of such the one with the least to do; if there is none, in the one with
    the least to do of all.
    """
    at = {name: number for number, pool in enumerate(pools) for name in pool.nodes}
    found: list[dict[JobId, None]] = [{} for _ in pools]
    for job in snapshot.holding():
        assert job.allocation is not None, "it holds devices"
        known = [at[name] for name in job.allocation.nodes() if name in at]
        if known:
            found[known[0]][job.id] = None
    queue = [
        (job, [n for n, pool in enumerate(pools) if pool.is_open(job, snapshot.cluster)])
        for job in snapshot.waiting()
    ]
    choice = _Choice(snapshot, pools, at, queue)
    for job, numbers in queue:
        if numbers:
            found[choice.of(job, numbers)][job.id] = None
    return found


class _Choice:
    """Which pool a job is offered to, one job after another."""

    def __init__(
        self,
        snapshot: Snapshot,
        pools: Sequence[Pool],
        at: Mapping[str, int],
        queue: Iterable[tuple[Job, Sequence[int]]],
    ) -> None:
        self._counts = [pool.cluster.device_count for pool in pools]
        self._busy, self._left, self._fixed = ([0] * len(pools) for _ in range(3))
        for counts, devices in ((self._busy, snapshot.tenants), (self._left, snapshot.free)):
            for device in devices:
                if device.node in at:
                    counts[at[device.node]] += 1
        for job, numbers in queue:
            if len(numbers) == 1:
                self._fixed[numbers[0]] += job.spec.sizes[0]

    def of(self, job: Job, numbers: Sequence[int]) -> int:
        """The number of its pool, of these that are open to it."""
        size = job.spec.sizes[0]
        free = [number for number in numbers if self._left[number] >= size]

        def demand(number: int) -> tuple[float, float]:
            fixed, count = self._fixed[number] if free else 0, self._counts[number]
            return fixed / count, self._busy[number] / count

        found = min(free or numbers, key=demand)
        self._left[found] -= size
        self._busy[found] += size
        return found
