"""Running jobs that others may join.

Groups of alike jobs on as many devices are kept together: the belief is asked once for all of them,
so that a long queue beside many running jobs costs little.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from treadle.core.cluster import Device
from treadle.core.company import (
    CORES_SLACK,
    CROWD_MAX,
    cores_suffice,
    needed_cores,
    needed_gib,
)
from treadle.core.device_types import Nodes
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import SharingBelief
from treadle.core.snapshot import Snapshot
from treadle.policies.base.companions import GROUP_MAX
from treadle.policies.live.eligibility import Level
from treadle.policies.wrappers.views import Changes

TURNS = 8
SUM_MIN = 1.15  # what a group gets done at least, in jobs alone
FLOOR = 0.5  # how fast each runs at least

_Kinds = tuple[int, ...]  # of the members, by number


class Group(NamedTuple):
    """Jobs that hold exactly the same devices, in these turns."""

    place: int  # in the order of groups; of equals the smallest is joined, then the first
    devices: tuple[Device, ...]
    members: dict[int, Job]  # by turn
    device_gib: float  # the least memory of the devices; 0: one does not say
    cores: float  # the least that a node has for each of the devices there; 0: one does not say

    @property
    def free_turn(self) -> int:
        return next(turn for turn in range(TURNS) if turn not in self.members)

    @property
    def specs(self) -> list[JobSpec]:
        return [member.spec for member in self.members.values()]

    @property
    def jobs(self) -> list[JobId]:
        return [member.id for member in self.members.values()]


class _Alike(NamedTuple):
    """What groups have in common that a job gains as much by joining."""

    size: int
    device_gib: float
    cores: float
    level: Level  # the highest of a member
    kinds: _Kinds


class Cores:
    """The cores of each node that jobs use, once the changes are made.

    Jobs that share may use somewhat more than their node has, if no others are there: it slows
    them, and the belief counts that. Others are not to be slowed for it.
    """

    def __init__(self, snapshot: Snapshot, changes: Changes) -> None:
        self._all = {node.name: node.cores for node in snapshot.cluster.nodes}
        self._used: dict[str, float] = {}
        self._by: dict[str, set[tuple[Device, ...]]] = {}  # the devices of the jobs there
        for identity, job in snapshot.jobs.items():
            allocation = changes.get(identity, job.allocation)
            if allocation is not None:
                self.take(job.spec, allocation.devices)

    def take(self, spec: JobSpec, devices: Sequence[Device]) -> None:
        for node, cores in _cores_of(spec, devices):
            self._used[node] = self._used.get(node, 0.0) + cores
            self._by.setdefault(node, set()).add(tuple(devices))

    def suffice(self, spec: JobSpec, devices: Sequence[Device]) -> bool:
        """Whether the nodes have the cores that the job would use."""
        for node, cores in _cores_of(spec, devices):
            others = self._by.get(node, set()) - {tuple(devices)}
            most = CORES_SLACK if others else CROWD_MAX
            if not cores_suffice(self._used.get(node, 0.0) + cores, self._all.get(node, 0), most):
                return False
        return True


class Hosts:
    """Groups that jobs join one after another."""

    def __init__(
        self,
        groups: Iterable[Group],
        belief: SharingBelief,
        cores: Cores,
        level_of: Callable[[Job], Level],
    ) -> None:
        self._belief, self._cores = belief, cores
        self._level_of = level_of
        self._numbers: dict[object, int] = {}  # of kinds
        # Those with room for one more, by how many devices they hold; no empty list.
        self._alike: dict[int, dict[_Alike, list[Group]]] = {}
        self._gains: dict[tuple[int, _Alike], float] = {}  # by the newcomer's kind
        self._refused: set[object] = set()  # what jobs were like for whom there is no group now
        for group in groups:
            self._add(group)

    def best(self, job: Job, where: Sequence[Nodes] | None = None) -> Group | None:
        """The group that gains most by the job, if any may be joined by it.

        where: sets of nodes, within one of which it must be.
        """
        spec, level = job.spec, self._level_of(job)
        runs_on, kind = spec.runs_on, self._kind(spec)
        asks = (spec.sizes, spec.trial, spec.profile.cores, spec.host_cores)
        like = (kind, level, asks, None if where is None else (*where,))
        if like in self._refused:
            return None
        found = [
            (gain, -len(group.members), -group.place, group)
            for size, by_likeness in self._alike.items()
            for alike, groups in (by_likeness.items() if runs_on(size) else ())
            if alike.level >= level
            and self._gains.get((kind, alike), 1.0) > 0.0
            and (group := self._first(job, where, groups)) is not None
            and (gain := self._gain(job, kind, alike)) > 0.0
        ]
        if not found:
            self._refused.add(like)
        return max(found, key=itemgetter(0, 1, 2))[-1] if found else None

    def join(self, job: Job, group: Group, *, last: bool = False) -> int:
        """The turn that the job gets there. last: no other is to join them."""
        turn = group.free_turn
        self._refused.clear()
        alike, others = self._likeness(group), self._alike[len(group.devices)]
        others[alike].remove(group)
        if not others[alike]:
            del others[alike]
        if not last:
            self._add(group._replace(members={**group.members, turn: job}))
        self._cores.take(job.spec, group.devices)
        return turn

    def _add(self, group: Group) -> None:
        if (
            len(group.members) < GROUP_MAX
            and not self._belief.to_part(group.jobs)
            and all(self._belief.may_share(spec) is None for spec in group.specs)
        ):
            others = self._alike.setdefault(len(group.devices), {})
            insort(others.setdefault(self._likeness(group), []), group, key=itemgetter(0))

    def _likeness(self, group: Group) -> _Alike:
        return _Alike(
            len(group.devices),
            group.device_gib,
            group.cores,
            min(self._level_of(job) for job in group.members.values()),
            tuple(map(self._kind, group.specs)),
        )

    def _kind(self, spec: JobSpec) -> int:
        kind = (self._belief.kind(spec), needed_gib(spec), spec.exclusive)
        return self._numbers.setdefault(kind, len(self._numbers))

    def _first(
        self, job: Job, where: Sequence[Nodes] | None, groups: Iterable[Group]
    ) -> Group | None:
        for group in groups:
            nodes = [device.node for device in group.devices]
            inside = where is None or any(place.issuperset(nodes) for place in where)
            if inside and self._cores.suffice(job.spec, group.devices):
                return group
        return None

    def _gain(self, job: Job, kind: int, alike: _Alike) -> float:
        """What such a group gets done more with the job; 0 if it may not join."""
        key = kind, alike
        known = self._gains.get(key)
        if known is None:
            known = self._gains[key] = self._gained(job, self._alike[alike.size][alike][0])
        return known

    def _gained(self, job: Job, group: Group) -> float:
        specs = [job.spec, *group.specs]
        wrong = self._belief.refuses(
            specs,
            device_gib=group.device_gib,
            cores=group.cores,
            sum_min=SUM_MIN,
            floor=FLOOR,
        )
        if wrong is not None:
            return 0.0
        relative, cores = self._belief.relative, group.cores
        return sum(relative(specs, cores)) - sum(relative(specs[1:], cores))


def _cores_of(spec: JobSpec, devices: Sequence[Device]) -> list[tuple[str, float]]:
    """The cores that the job needs of each node."""
    if len(devices) == 1:
        return [(devices[0].node, needed_cores(spec, 1))]
    counts = Counter(device.node for device in devices)
    return [(node, needed_cores(spec, count)) for node, count in counts.items()]
