"""What jobs that share devices are worth together.

What is known of sharing is known by kinds of jobs, so that groups can be tabulated: the share of
its speed alone that each kind keeps beside others.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from treadle.core.company import needed_gib, no_company
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import Doubting, InterleavingModel, Revisable, SharingBelief
from treadle.policies.weave.candidate import Candidate, Sized

# A kind of jobs is a power of eight, and those of a group are their sum: no order of members needs
# to be agreed on.
Kinds = int
Mask = int  # a set of jobs, as the sum of their bits
Kept = Mapping[int, float]  # the share of its speed alone that each kind keeps; empty: they may not

_REMEMBERED_MAX = 20_000
# Groups of different kinds that one decision asks about, so that jobs which are all of another
# kind take no longer; whatever was asked before, a decision must be the same.
_ASKED_MAX = 2_500
_KEEPS_MIN = 0.01  # of its speed; no doubt makes a job run backwards
_SLOWEST = 1e-100  # iterations a second; shares of less would not be finite
_KEEPS_MAX = 100.0  # of its speed; what is believed to be beyond is a wrong figure

_NONE: Kept = {}


class Group(NamedTuple):
    """Jobs on one set of devices."""

    members: tuple[Candidate, ...]
    mask: Mask
    size: int
    kinds: Kinds
    value: float  # worth x rate of all, less what moves cost
    home: Hashable  # where most of it is now, or None
    cost: float  # of being moved from home
    moved: float = 0.0  # what moves to it cost


class SharedSpeeds:
    """What the belief says of jobs on the same devices."""

    def __init__(self, belief: InterleavingModel, *, largest: int, least: float) -> None:
        """largest: the most jobs in a group. least: what a group must do, where one job alone
        does 1."""
        self._belief = belief
        self._sharing = belief if isinstance(belief, SharingBelief) else None
        self._doubting = belief if isinstance(belief, Doubting) else None
        self._may_change = isinstance(belief, Revisable)  # also of which kind a job is
        self.largest = largest
        self.least = least
        self._for: tuple[float, object] = (0.0, None)
        self._numbers: dict[Hashable, int] = {}
        self._kind_of: dict[JobId, tuple[JobSpec, int]] = {}
        self._kept: dict[Kinds, Kept] = {}
        self._asked: dict[Kinds, Kept] = {}  # in this decision
        self._pays: dict[Kinds, Kept] = {}  # in this decision; empty also where they do too little

    def refresh(self, device_gib: float) -> bool:
        """Before a decision: forget what rests on another state of the belief or other devices.

        Whether anything was forgotten that others may have remembered by kinds.
        """
        self._asked.clear()
        self._pays.clear()
        basis = (device_gib, getattr(self._belief, "revision", None))
        crowded = max(len(self._kind_of), len(self._kept)) > _REMEMBERED_MAX
        if basis == self._for and not crowded:
            return False
        self._for = basis
        for table in (self._numbers, self._kind_of, self._kept):
            table.clear()
        return True

    def kind(self, spec: JobSpec) -> int:
        known = self._kind_of.get(spec.id)
        if known is None or known[0] is not spec or self._may_change:
            key = (self._belief.kind(spec), needed_gib(spec), spec.exclusive)
            known = (spec, self._numbers.setdefault(key, 8 ** len(self._numbers)))
            self._kind_of[spec.id] = known
        return known[1]

    def kept(self, kinds: Kinds, members: Sequence[Candidate]) -> Kept:
        """The share of its speed alone that each of these kinds keeps; members: jobs of them."""
        known = self._asked.get(kinds)
        if known is None:
            if len(self._asked) >= _ASKED_MAX and len(members) > 1:
                return _NONE
            known = self._kept.get(kinds)
            if known is None:
                known = self._kept[kinds] = self._found(members)
            self._asked[kinds] = known
        return known

    def throughput(self, group: Group) -> float:
        """What a group does, where one job alone does 1."""
        kept = self.kept(group.kinds, group.members)
        return sum([kept[one.kind] for one in group.members])

    def _found(self, members: Sequence[Candidate]) -> Kept:
        if len(members) == 1:
            return {members[0].kind: 1.0}
        specs = [one.job.spec for one in members]
        if no_company(specs, self._for[0]) is not None:
            return _NONE
        if self._sharing is not None and self._sharing.refuses(specs) is not None:
            return _NONE
        belief = self._belief
        alone = [belief.alone(spec, spec.asked) for spec in specs]
        if not min(alone) > _SLOWEST:
            return _NONE
        # Sharing of which little is known must promise more.
        doubt = 0.0 if self._doubting is None else self._doubting.doubt(specs)
        rows = zip(members, belief.together(specs), alone, strict=True)
        found = {one.kind: speed / speed_alone - doubt for one, speed, speed_alone in rows}
        if not all(share < _KEEPS_MAX for share in found.values()):  # nor is NaN
            return _NONE
        return {kind: max(share, _KEEPS_MIN) for kind, share in found.items()}

    # -- groups ---------------------------------------------------------------------------------

    def alone(self, one: Candidate, size: int) -> Group:
        sized = one.at(size)
        assert sized is not None, "it is one of its sizes"
        return Group((one,), one.bit, size, one.kind, sized.value, sized.home, sized.cost)

    def gain(self, group: Group, one: Group) -> float:
        """What a group gains by one more member, less what its move costs; 0: not enough."""
        members = group.members
        if len(members) >= self.largest:
            return 0.0
        kept = self.kept(group.kinds + one.kinds, members + one.members)
        if not kept:
            return 0.0
        value = one.value * kept[one.kinds] - group.value - group.moved
        value += self._valued(members, group.size, kept)
        if one.home is not None and group.home is not None and one.home != group.home:
            value -= min(one.cost, group.cost)
        return value if value >= (self.least - 1.0) * group.value else 0.0

    def joined(self, one: Group, other: Group) -> Group | None:
        """The two groups as one, if they may."""
        members = one.members + other.members
        if len(members) > self.largest:
            return None
        kinds = one.kinds + other.kinds
        kept = self.kept(kinds, members)
        if not kept:
            return None
        value = self._valued(members, one.size, kept)
        moved = one.moved + other.moved
        if one.home is None or one.home == other.home:
            home, cost = other.home, one.cost + other.cost
        elif other.home is None or other.cost <= one.cost:
            home, cost, moved = one.home, one.cost, moved + other.cost
        else:
            home, cost, moved = other.home, other.cost, moved + one.cost
        mask = one.mask | other.mask
        return Group(members, mask, one.size, kinds, value - moved, home, cost, moved)

    def _valued(self, members: Sequence[Candidate], size: int, kept: Kept) -> float:
        value = 0.0
        for one in members:
            sized = one.at(size)
            assert sized is not None, "groups are of sizes that all members have"
            value += sized.value * kept[one.kind]
        return value

    def together(self, members: Sequence[Sized], size: int) -> Group | None:
        """These jobs as one group, where moves cost least; None if they may not, or if they do too
        little more than one of them alone."""
        value = self.value(members)
        if value == -inf:
            return None
        jobs = tuple([one.job for one in members])
        kinds = sum([one.kind for one in members])
        homes = _homes(members)
        home = max(homes, key=lambda one: homes[one]) if homes else None
        mask = sum([job.bit for job in jobs])
        return Group(jobs, mask, size, kinds, value, home, homes.get(home, 0.0))

    def value(self, members: Sequence[Sized]) -> float:
        """What they would be worth as one group, less what moves cost; -inf: they may not."""
        if len(members) == 1:
            return members[0].value
        kinds = homes = 0
        for one in members:
            kinds += one.kind
            homes += one.home is not None
        kept = self._pays.get(kinds)
        if kept is None:
            kept = self.kept(kinds, [one.job for one in members])
            if kept and sum([kept[one.kind] for one in members]) < self.least:
                kept = _NONE
            self._pays[kinds] = kept
        if not kept:
            return -inf
        value = 0.0
        for one in members:
            value += one.value * kept[one.kind]
        if homes > 1:
            costs = _homes(members).values()
            value -= sum(costs) - max(costs)
        return value


def _homes(members: Sequence[Sized]) -> dict[Hashable, float]:
    """What it costs to move the members from each place where some are."""
    homes: dict[Hashable, float] = {}
    for one in members:
        if one.home is not None:
            homes[one.home] = homes.get(one.home, 0.0) + one.cost
    return homes
