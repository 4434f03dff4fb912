"""Pools of devices: which types are in one, which jobs are decided about there, what is seen."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.device_types import Nodes
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot
from treadle.policies.base.suited import places

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

    def has(self, given: Allocation) -> bool:
        """Whether all these devices are of this pool."""
        return self.nodes.issuperset(given.nodes())

    def is_open(self, job: Job, cluster: Cluster) -> bool:
        """Whether a waiting job may be started there."""
        return any(place <= self.nodes for place in places(job, cluster))


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


def narrowed(snapshot: Snapshot, cluster: Cluster, names: Collection[JobId]) -> Snapshot:
    """These nodes as a cluster of their own, with these jobs to decide about."""
    own = cluster.names
    return snapshot._replace(
        cluster=cluster,
        jobs={
            name: row
            for name, row in snapshot.jobs.items()
            if name in names or row.allocation is None or not own.isdisjoint(row.allocation.nodes())
        },
        free=snapshot.free.only(own),
        tenants={device: each for device, each in snapshot.tenants.items() if device.node in own},
        ranking=snapshot.ranking.only(names),
    )
