"""Groups of equal size put together until all fit, where the least is lost for each device.

Two groups that are put together free as many devices as either holds, and lose what their members
then do less: worth x rate x (1 - the speed that is kept). Which groups would be put together is a
matching of greatest total throughput (Muri's, matching.py); of its pairs those are taken that lose
least for each device, until the devices suffice. Jobs that share already go first: joining is
preferred to moving.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from treadle.models.company.pairing import Pairs, Solved, pair_counts, weights_of
from treadle.policies.weave.sharing import Group, Kinds, Mask, SharedSpeeds

_SCALE = 10**6  # the matching takes whole numbers
_KINDS_MAX = 48  # every pair of kinds is weighed
_REMEMBERED_MAX = 1_000  # matchings, of up to a few kilobytes each
_TABLES_MAX = 10  # tables of weights under which smaller matchings are remembered


class Folded(NamedTuple):
    """Groups by size, after as many devices were saved as could be."""

    groups: Mapping[int, Sequence[Group]]
    excess: int  # devices that are still missing
    marginal: float  # what the last device saved has cost, in work a second


class _Pair(NamedTuple):
    """Two groups, and both as one."""

    loss: float  # of value, for each device that is saved
    one: Group
    other: Group
    both: Group


class Folding:
    """Folds groups; remembers matchings from decision to decision."""

    def __init__(self, shared: SharedSpeeds) -> None:
        self._shared = shared
        self._matched: dict[tuple[tuple[Kinds, int], ...], Pairs] = {}
        self._solved: dict[tuple[tuple[int, ...], ...], Solved] = {}  # by weights
        self._weights: dict[tuple[Kinds, Kinds], int] = {}

    def begin(self, *, forget: bool) -> None:
        """Before a decision. forget: kinds have other numbers, or share otherwise."""
        self._weights.clear()
        if forget:
            self._matched.clear()

    def fold(self, groups: Mapping[int, Sequence[Group]], excess: int) -> Folded:
        """Put groups together until so many devices are saved."""
        found = {size: list(own) for size, own in groups.items()}
        last: _Pair | None = None
        for _ in range(2):  # pairs, then pairs of pairs
            if excess <= 0:
                break
            pairs = [pair for own in found.values() for pair in self._matching(own)]
            pairs.sort(key=itemgetter(0))
            gone: dict[int, set[Mask]] = {}  # groups, by size
            for pair in pairs:
                if excess <= 0:
                    break
                last, size = pair, pair.both.size
                gone.setdefault(size, set()).update((pair.one.mask, pair.other.mask))
                found[size].append(pair.both)
                excess -= size
            for size, marks in gone.items():
                own = found[size]
                found[size] = [group for group in own if group.mask not in marks]
        return Folded(found, excess, self._marginal(last))

    def _marginal(self, last: _Pair | None) -> float:
        """What a pair loses for each device that it saves, without regard to its worth."""
        if last is None:
            return 1.0
        share = last.loss * last.both.size / (last.one.value + last.other.value)
        return share * (self._shared.throughput(last.one) + self._shared.throughput(last.other))

    def _matching(self, groups: Sequence[Group]) -> list[_Pair]:
        """Pairs of greatest total throughput that lose less than one of the two is worth.

        Of groups that are alike, those that share go first and the more valuable are put together.
        """
        alike: dict[Kinds, list[Group]] = {}
        for group in groups:
            if len(group.members) < self._shared.largest:
                alike.setdefault(group.kinds, []).append(group)
        if len(alike) > _KINDS_MAX:
            most = sorted(alike, key=lambda kinds: -len(alike[kinds]))[:_KINDS_MAX]
            alike = {kinds: alike[kinds] for kinds in most}
        kinds = list(alike)  # As they appear, so that the answer is a matter of these jobs only.
        wanted = self._counts(kinds, alike)
        for row in alike.values():
            row.sort(key=attrgetter("value"))
        found = []
        taken: set[Mask] = set()
        for (a, b), count in sorted(wanted.items()):
            left, right = alike[kinds[a]], alike[kinds[b]]
            homes = {group.home: group for group in right}
            for _ in range(count):
                one = _next(left, taken)
                other = homes.get(one.home) if one.home is not None else None
                if other is None or other.mask in taken:
                    other = _next(right, taken)
                else:
                    taken.add(other.mask)
                both = self._shared.joined(one, other)
                if both is not None and both.value > max(one.value, other.value):
                    loss = (one.value + other.value - both.value) / both.size
                    found.append(_Pair(loss, one, other, both))
        return found

    def _counts(self, kinds: Sequence[Kinds], alike: Mapping[Kinds, Sequence[Group]]) -> Pairs:
        """How many pairs there are to be of each two kinds, by their places."""
        key = tuple((one, len(alike[one])) for one in kinds)
        known = self._matched.get(key)
        if known is None:
            self._keep_few()
            table = weights_of(kinds, lambda a, b: self._weight(alike[a][0], alike[b][0]))
            solved = self._solved.setdefault(tuple(map(tuple, table)), {})
            known = pair_counts([count for _, count in key], table, solved)
            self._matched[key] = known
        return known

    def _keep_few(self) -> None:
        if len(self._matched) > _REMEMBERED_MAX:
            self._matched.clear()
        if (
            len(self._solved) > _TABLES_MAX
            or sum(map(len, self._solved.values())) > _REMEMBERED_MAX
        ):
            self._solved.clear()

    def _weight(self, one: Group, other: Group) -> int:
        """The speeds that two groups keep together, relative to alone; 0 if it is not enough."""
        shared, pair = self._shared, (one.kinds, other.kinds)
        members = one.members + other.members
        if len(members) > shared.largest:
            return 0
        if pair not in self._weights:
            kept = shared.kept(one.kinds + other.kinds, members)
            total = sum([kept[job.kind] for job in members]) if kept else 0.0
            apart = max(shared.throughput(one), shared.throughput(other))
            self._weights[pair] = round(_SCALE * total) if total >= shared.least * apart else 0
        return self._weights[pair]


def _next(groups: list[Group], taken: set[Mask]) -> Group:
    """The last of the groups that is not taken yet; it is then."""
    while True:
        group = groups.pop()
        if group.mask not in taken:
            taken.add(group.mask)
            return group
