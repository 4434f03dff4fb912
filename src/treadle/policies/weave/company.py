"""Which jobs share devices: groups of equal size, formed where the least is lost for each device.

Two groups that are put together free as many devices as either holds, and lose what their members
get done less: worth x rate x (1 - the speed that is kept). Which groups would be put together is a
matching of greatest total efficiency (Muri's, matching.py); of its pairs those are taken that lose
least for each device, until the devices suffice. Jobs that share already go first: joining is
preferred to moving.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import inf
from operator import attrgetter, itemgetter
from typing import NamedTuple

from treadle.core.company import needed_gib, no_company
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import InterleavingModel
from treadle.policies.afs.afs import Revisable
from treadle.policies.base.companions import Doubting, SharingBelief
from treadle.policies.muri.matching import Solved, pair_counts, weights_of

Kinds = tuple[int, ...]  # of the members of a group, ascending
_SCALE = 10**6  # the matching takes whole numbers
_KINDS_MAX = 48  # every pair of kinds is weighed
_REMEMBERED_MAX = 20_000
_WEIGHTS_MAX = 50  # tables of weights under which matchings are remembered, 10,000 for each
# Companies of different kinds that one decision asks about, so that jobs which are all of another
# kind take no longer; whatever was asked before, a decision must be the same.
_ASKED_MAX = 2_500
_KEEPS_MIN = 0.01  # of its speed; no doubt makes a job run backwards
_SLOWEST = 1e-100  # iterations a second; shares of less would not be finite
_KEEPS_MAX = 100.0  # of its speed; what is believed to be beyond is a wrong figure

_NONE: Mapping[int, float] = {}


class Member(NamedTuple):
    """A job as company counts it."""

    spec: JobSpec
    kind: int
    value: float  # worth x rate alone at the group's size
    home: Hashable  # what it holds now at just this size, or None
    cost: float  # of being moved from there


class Group(NamedTuple):
    """Jobs on one set of devices."""

    members: tuple[int, ...]  # positions
    kinds: Kinds
    value: float  # of what they get done in a second
    home: Hashable
    cost: float  # of being moved from home
    moved: float = 0.0  # what moves to it cost; the value is less by that


class Company:
    """What is known of jobs on the same devices; by kinds, so that groups can be tabulated."""

    def __init__(self, belief: InterleavingModel, *, largest: int, least: float) -> None:
        self._belief = belief
        self._sharing = belief if isinstance(belief, SharingBelief) else None
        self._doubting = belief if isinstance(belief, Doubting) else None
        self._may_change = isinstance(belief, Revisable)  # also of which kind a job is
        self.largest = largest
        self._least = least
        self._for: tuple[float, object] = (0.0, None)
        self._numbers: dict[Hashable, int] = {}
        self._of_job: dict[JobId, tuple[JobSpec, int]] = {}
        self._keeps: dict[Kinds, Mapping[int, float]] = {}
        self._asked: dict[Kinds, Mapping[int, float]] = {}  # in this decision
        self._pays: dict[Kinds, Mapping[int, float]] = {}  # and only where it gets enough done
        self._weights: dict[tuple[Kinds, Kinds], int] = {}  # in this decision
        self._matched: dict[tuple[tuple[Kinds, int], ...], Mapping[tuple[int, int], int]] = {}
        self._solved: dict[tuple[tuple[int, ...], ...], Solved] = {}  # by weights

    def refresh(self, device_gib: float) -> None:
        """Before a decision: forget what rests on another state of the belief or on other
        devices."""
        for of_one_decision in (self._asked, self._pays, self._weights):
            of_one_decision.clear()
        present = (device_gib, getattr(self._belief, "revision", None))
        if len(self._solved) > _WEIGHTS_MAX:
            self._solved.clear()
        counts = (len(self._of_job), len(self._keeps), len(self._matched))
        crowded = max(counts) > _REMEMBERED_MAX
        if present != self._for or crowded:
            self._for = present
            for table in (self._numbers, self._of_job, self._keeps, self._matched):
                table.clear()

    def kind(self, spec: JobSpec) -> int:
        known = self._of_job.get(spec.id)
        if known is None or known[0] is not spec or self._may_change:
            key = (self._belief.kind(spec), needed_gib(spec), spec.exclusive)
            known = (spec, self._numbers.setdefault(key, len(self._numbers)))
            self._of_job[spec.id] = known
        return known[1]

    def keeps(self, kinds: Kinds, specs: Sequence[JobSpec]) -> Mapping[int, float]:
        """The share of its speed that each kind keeps in this company; empty: they may not."""
        known = self._asked.get(kinds)
        if known is None:
            if len(self._asked) >= _ASKED_MAX and len(kinds) > 1:
                return _NONE
            known = self._keeps.get(kinds)
            if known is None:
                known = self._keeps[kinds] = self._together(specs)
            self._asked[kinds] = known
        return known

    def _kept(
        self, kinds: Kinds, members: Sequence[int], jobs: Mapping[int, Member]
    ) -> Mapping[int, float]:
        """The same of jobs by position."""
        known = self._asked.get(kinds)
        return self.keeps(kinds, [jobs[i].spec for i in members]) if known is None else known

    def _together(self, specs: Sequence[JobSpec]) -> Mapping[int, float]:
        if len(specs) == 1:
            return {self.kind(specs[0]): 1.0}
        if no_company(specs, self._for[0]) is not None:
            return _NONE
        if self._sharing is not None and self._sharing.refuses(specs) is not None:
            return _NONE
        belief = self._belief
        alone = [belief.alone(spec, spec.asked) for spec in specs]
        if not min(alone) > _SLOWEST:
            return _NONE
        # Company that is badly known must promise more.
        doubt = 0.0 if self._doubting is None else self._doubting.doubt(specs)
        rows = zip(specs, belief.together(specs), alone, strict=True)
        found = {self.kind(spec): speed / speed_alone - doubt for spec, speed, speed_alone in rows}
        if not all(keeps < _KEEPS_MAX for keeps in found.values()):  # nor is NaN
            return _NONE
        return {kind: max(keeps, _KEEPS_MIN) for kind, keeps in found.items()}

    # -- groups ---------------------------------------------------------------------------------

    def alone(self, position: int, member: Member) -> Group:
        return Group((position,), (member.kind,), member.value, member.home, member.cost)

    def gain(self, group: Group, one: Group, jobs: Mapping[int, Member]) -> float:
        """What a group gains by one more member, less what its move costs; 0: not enough."""
        members = group.members
        if len(members) >= self.largest:
            return 0.0
        keeps = self._kept(tuple(sorted(group.kinds + one.kinds)), members + one.members, jobs)
        if not keeps:
            return 0.0
        value = one.value * keeps[one.kinds[0]] - group.value - group.moved
        for i in members:
            job = jobs[i]
            value += job.value * keeps[job.kind]
        if one.home is not None and group.home is not None and one.home != group.home:
            value -= min(one.cost, group.cost)
        return value if value >= (self._least - 1.0) * group.value else 0.0

    def joined(self, one: Group, other: Group, jobs: Mapping[int, Member]) -> Group | None:
        """The two groups as one, if they may."""
        members = one.members + other.members
        if len(members) > self.largest:
            return None
        kinds = tuple(sorted(one.kinds + other.kinds))
        keeps = self._kept(kinds, members, jobs)
        if not keeps:
            return None
        value = 0.0
        for i in members:
            job = jobs[i]
            value += job.value * keeps[job.kind]
        moved = one.moved + other.moved
        if one.home is None or one.home == other.home:
            home, cost = other.home, one.cost + other.cost
        elif other.home is None or other.cost <= one.cost:
            home, cost, moved = one.home, one.cost, moved + other.cost
        else:
            home, cost, moved = other.home, other.cost, moved + one.cost
        return Group(members, kinds, value - moved, home, cost, moved)

    def together(self, members: tuple[int, ...], jobs: Mapping[int, Member | None]) -> Group | None:
        """These jobs as one group, where moves cost least; None if they may not, or if they get
        too little more done than one of them alone."""
        ones = [job for i in members if (job := jobs[i]) is not None]
        value = self.value(ones) if len(ones) == len(members) else -inf
        if value == -inf:
            return None
        kinds = tuple(sorted([job.kind for job in ones]))
        homes = _homes(ones)
        if not homes:
            return Group(members, kinds, value, None, 0.0)
        home = max(homes, key=lambda one: homes[one])
        return Group(members, kinds, value, home, homes[home])

    def value(self, jobs: Sequence[Member]) -> float:
        """What they would get done as one group, less what moves cost; -inf: they may not."""
        if len(jobs) == 1:
            return jobs[0].value
        kinds = tuple(sorted([job.kind for job in jobs]))
        keeps = self._pays.get(kinds)
        if keeps is None:
            keeps = self.keeps(kinds, [job.spec for job in jobs])
            if keeps and sum([keeps[kind] for kind in kinds]) < self._least:
                keeps = _NONE
            self._pays[kinds] = keeps
        if not keeps:
            return -inf
        value = 0.0
        for job in jobs:
            value += job.value * keeps[job.kind]
        costs = _homes(jobs).values()
        return value - (sum(costs) - max(costs)) if len(costs) > 1 else value

    def fold(
        self, buckets: Mapping[int, list[Group]], jobs: Mapping[int, Member], excess: int
    ) -> tuple[int, float]:
        """Put groups of equal size together until so many devices are saved; what is missing, and
        what the last device saved has cost, in work a second."""
        last: tuple[float, int, Group, Group] | None = None
        for _ in range(2):  # pairs, then pairs of pairs
            if excess <= 0:
                break
            found = [
                ((one.value + other.value - both.value) / size, size, one, other, both)
                for size, groups in buckets.items()
                for one, other, both in self._matching(groups, jobs)
                if both.value > max(one.value, other.value)
            ]
            found.sort(key=itemgetter(0))
            gone: set[int] = set()  # by the first member
            new: dict[int, list[Group]] = {}
            for loss, size, one, other, both in found:
                if excess <= 0:
                    break
                last = (loss, size, one, other)
                gone |= {one.members[0], other.members[0]}
                new.setdefault(size, []).append(both)
                excess -= size
            for size, groups in new.items():
                buckets[size][:] = [g for g in buckets[size] if g.members[0] not in gone] + groups
        return excess, self._cost(last, jobs)

    def _cost(
        self, last: tuple[float, int, Group, Group] | None, jobs: Mapping[int, Member]
    ) -> float:
        """What a pair loses for each device that it saves, without regard to its worth."""
        if last is None:
            return 1.0
        loss, size, one, other = last
        share = loss * size / (one.value + other.value)
        return share * (self._sum(one, jobs) + self._sum(other, jobs))

    def _matching(
        self, groups: Sequence[Group], jobs: Mapping[int, Member]
    ) -> list[tuple[Group, Group, Group]]:
        """Pairs of greatest total efficiency; of groups that are alike, those that share go first
        and the more valuable ones are put together."""
        alike: dict[Kinds, list[Group]] = {}
        for group in groups:
            if len(group.members) < self.largest:
                alike.setdefault(group.kinds, []).append(group)
        if len(alike) > _KINDS_MAX:
            most = sorted(alike, key=lambda kinds: -len(alike[kinds]))[:_KINDS_MAX]
            alike = {kinds: alike[kinds] for kinds in most}
        kinds = list(alike)  # As they appear, so that the answer is a matter of these jobs only.
        key = tuple((one, len(alike[one])) for one in kinds)
        wanted = self._matched.get(key)
        if wanted is None:
            table = weights_of(kinds, lambda a, b: self._weight(alike[a][0], alike[b][0], jobs))
            solved = self._solved.setdefault(tuple(map(tuple, table)), {})
            wanted = self._matched[key] = pair_counts([count for _, count in key], table, solved)
        for row in alike.values():
            row.sort(key=attrgetter("value"))
        found = []
        taken: set[int] = set()
        for (a, b), count in sorted(wanted.items()):
            left, right = alike[kinds[a]], alike[kinds[b]]
            homes = {group.home: group for group in right}
            for _ in range(count):
                one = _next(left, taken)
                other = homes.get(one.home) if one.home is not None else None
                if other is None or other.members[0] in taken:
                    other = _next(right, taken)
                else:
                    taken.add(other.members[0])
                both = self.joined(one, other, jobs)
                if both is not None:
                    found.append((one, other, both))
        return found

    def _weight(self, one: Group, other: Group, jobs: Mapping[int, Member]) -> int:
        """The speeds that two groups keep together, relative to alone; 0 if it is not enough."""
        members, pair = one.members + other.members, (one.kinds, other.kinds)
        if len(members) > self.largest:
            return 0
        if pair in self._weights:
            return self._weights[pair]
        keeps = self._kept(tuple(sorted(one.kinds + other.kinds)), members, jobs)
        total = sum(keeps[kind] for kind in one.kinds + other.kinds) if keeps else 0.0
        apart = max(self._sum(one, jobs), self._sum(other, jobs))
        self._weights[pair] = round(_SCALE * total) if total >= self._least * apart else 0
        return self._weights[pair]

    def _sum(self, group: Group, jobs: Mapping[int, Member]) -> float:
        keeps = self._kept(group.kinds, group.members, jobs)
        return sum(keeps[kind] for kind in group.kinds)


def _next(groups: list[Group], taken: set[int]) -> Group:
    """The last of the groups that is not taken yet; it is then."""
    while True:
        group = groups.pop()
        if group.members[0] not in taken:
            taken.add(group.members[0])
            return group


def _homes(members: Sequence[Member]) -> dict[Hashable, float]:
    """What it costs to move the members from each place where some are."""
    homes: dict[Hashable, float] = {}
    for job in members:
        if job.home is not None:
            homes[job.home] = homes.get(job.home, 0.0) + job.cost
    return homes
