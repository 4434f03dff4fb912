"""A better layout by small changes: a job moves or starts, two change places, a group grows, or it
shrinks and a waiting job takes what it frees.

Matching makes pairs, then pairs of pairs, of jobs of one size, and counts all of them alike. Here a
change is valued by what all jobs then do, restarts included. In each round the best change of every
job is made, if one gains; after a few rounds there is hardly one left that does.

Only what is fresh is looked at: a job that came or a group that changed is weighed against all
others; of two that are as they were, nothing new can be found.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import NamedTuple

from treadle.policies.weave.candidate import Candidate
from treadle.policies.weave.sharing import Group, Kinds, Mask, SharedSpeeds
from treadle.policies.weave.values import Values

_ROUNDS = 3
_LEAST = 1e-4  # of the value of the group that is left
_VALUES_MAX = 2000  # groups that are valued in one search, about 15 ms
_ALIKE_MAX = 4  # groups of equal size and kinds that are looked at


class _Row(NamedTuple):
    """A group; when its last member leaves, it stays as an empty one."""

    size: int
    members: tuple[Candidate, ...]
    mask: Mask
    value: float


class _Change(NamedTuple):
    """Where a job goes."""

    gain: float = 0.0
    to: int = -1  # the row of a group; -1: one of its own
    instead_of: Candidate | None = None  # the job that goes the other way
    size: int = 0  # of a group of its own
    shrunk: int = 0  # the size to which that other group shrinks for it; 0: it does not


class Search:
    """Groups, jobs without devices, and how many devices are free."""

    def __init__(
        self,
        shared: SharedSpeeds,
        values: Values,
        groups: Sequence[Group],
        waiting: Iterable[Candidate],
        free: int,
    ) -> None:
        """values: of groups of these jobs, some of which another search has found."""
        self._largest = shared.largest
        self._values = values
        self._values_max = values.count + _VALUES_MAX
        self._given = groups
        self._claimed: list[Group] = []  # with a value that is not that of sharing
        self._rows: list[_Row] = []
        for group in groups:
            value = values.of(group.size, group.mask)
            if value == -inf:  # Matching asks a little less of sharing.
                value = group.value
                values.put(group)
                self._claimed.append(group)
            self._rows.append(_Row(group.size, group.members, group.mask, value))
        self._waiting = list(waiting)
        self._free = free
        self._near: set[int] = set()  # rows that every job looks at
        self._soft: set[int] = set()  # rows that waiting jobs look at
        self._changed: set[int] = set()  # rows, in this round
        self._seeking: set[Candidate] = set()  # waiting jobs that look at all rows
        self._displaced: set[Candidate] = set()  # that gave their place to others in this round
        self._some = self._unlike()  # rows that are looked at where all are

    def run(
        self, fresh: Collection[Group], softer: Collection[Group], new: Iterable[Candidate]
    ) -> bool:
        """Whether something better was found.

        fresh: groups that all jobs look at, and whose jobs look at all others. softer: groups that
        waiting jobs look at. new: waiting jobs that look at all groups.
        """
        self._everything = len(fresh) == len(self._rows)
        first = self._total()
        self._near, self._soft = self._places(fresh), self._places(softer)
        self._seeking = set(new)
        for _ in range(_ROUNDS):
            self._changed = set()
            self.grow()
            for place in self._visited():
                for job in self._rows[place].members:
                    if job in self._rows[place].members:
                        self._improve(job, place)
            for job in list(self._waiting):
                self._improve(job, -1)
            if not self._changed:
                break
            self._near, self._soft = self._changed, set()
            self._seeking, self._displaced = self._displaced, set()
        self.grow()
        for group in self._claimed:
            self._values.at(group.size)[group.mask] = -inf
        return self._total() > first

    def _visited(self) -> Iterable[int]:
        """Rows whose jobs look for something better."""
        near = self._near | self._changed
        return sorted(near | self._some) if near or self._free else ()

    def _places(self, groups: Collection[Group]) -> set[int]:
        marks = {group.mask for group in groups}
        return {place for place, row in enumerate(self._rows) if row.mask in marks}

    def groups(self) -> list[Group]:
        given = {(group.size, group.mask): group for group in self._given}
        found = []
        for row in self._rows:
            if not row.members:
                continue
            group = given.get((row.size, row.mask))
            if group is None or group.value < row.value:  # Another home costs less.
                group = self._values.group(row.size, row.mask) or group
            assert group is not None, "it was given, or it is one"
            found.append(group)
        return found

    # -- values ---------------------------------------------------------------------------------

    def _row(self, size: int, mask: Mask) -> _Row:
        return _Row(size, self._values.members(mask), mask, self._values.of(size, mask))

    def _total(self) -> float:
        return sum([row.value for row in self._rows])

    def _unlike(self) -> set[int]:
        """Of many rows that are alike, the least and the most valuable."""
        rows, few = self._rows, _ALIKE_MAX // 2
        if len(rows) <= _ALIKE_MAX:
            return set(range(len(rows)))
        alike: dict[tuple[int, Kinds], list[int]] = {}
        for place, row in enumerate(rows):
            kinds = sum([job.kind for job in row.members])
            alike.setdefault((row.size, kinds), []).append(place)
        found: set[int] = set()
        for places in alike.values():
            if len(places) > _ALIKE_MAX:
                places.sort(key=lambda place: rows[place].value)
                places[few:-few] = ()
            found.update(places)
        return found

    # -- changes --------------------------------------------------------------------------------

    def _improve(self, job: Candidate, place: int) -> None:
        """Make the best change for one job; place: of its row, -1 if it waits."""
        if self._values.count > self._values_max:
            return
        mine = self._rows[place] if place >= 0 else _NOWHERE
        near = self._near | self._changed if self._changed else self._near
        if place < 0 and self._soft:
            near = near | self._soft
        if place in near or job in self._seeking:
            places = sorted(self._some | near)
        elif near or (self._free and len(mine.members) != 1):
            places = sorted(near)
        else:
            return  # There is nothing new for it.
        best = self._best_change(job, place, places)
        # The value of a group whose moves cost more than it does is below 0.
        if best.gain > _LEAST * max(mine.value, 0.0):
            self._make(job, place, best)

    def _best_change(self, job: Candidate, place: int, places: Iterable[int]) -> _Change:
        size, members, mask, have = self._rows[place] if place >= 0 else _NOWHERE
        leaves = self._values.of(size, mask & ~job.bit) - have
        best = _NONE if len(members) == 1 else self._apart(job, leaves)
        rows, sizes = self._rows, job.sizes
        for other in places:
            if other == place or not rows[other].members:
                continue
            if rows[other].size in sizes:
                best = self._beside(job, place, other, leaves, best)
            if place < 0:
                best = self._admitted(job, other, best)
        return best

    def _apart(self, job: Candidate, leaves: float) -> _Change:
        """The job takes free devices; leaves: what its group gains by that."""
        best = _NONE
        for own in job.sizes:
            if own > self._free:
                break
            gain = self._values.of(own, job.bit) + leaves
            if gain > best.gain:
                best = _Change(gain, size=own)
        return best

    def _beside(
        self, job: Candidate, place: int, other: int, leaves: float, best: _Change
    ) -> _Change:
        """The job joins another group, or changes places with one of its members."""
        size, members, _, _ = self._rows[place] if place >= 0 else _NOWHERE
        their_size, theirs, mask, had = self._rows[other]
        if len(theirs) < self._largest:
            gain = self._values.of(their_size, mask | job.bit) - had + leaves
            if gain > best.gain:
                best = _Change(gain, other)
        if place >= 0 and not self._everything:
            return best  # It would take two restarts.
        if size == their_size and len(members) == len(theirs) == 1:
            return best  # Nothing would change.
        return self._exchanged(job, place, other, best)

    def _exchanged(self, job: Candidate, place: int, other: int, best: _Change) -> _Change:
        """The job changes places with a member of another group."""
        size, _, mask, have = self._rows[place] if place >= 0 else _NOWHERE
        their_size, theirs, their_mask, had = self._rows[other]
        known, bit = self._values.at(their_size), job.bit
        without, here = mask & ~bit, self._values.at(size)
        for one in theirs:
            swapped = their_mask ^ one.bit | bit
            value = known.get(swapped)
            if value is None:
                value = self._values.of(their_size, swapped)
            if value == -inf:
                continue
            gain = value - had
            if place < 0:
                gain -= one.costs_to_stop()
            else:
                value = here.get(without | one.bit)
                if value is None:
                    value = self._values.of(size, without | one.bit)
                gain += value - have
            if gain > best.gain:
                best = _Change(gain, other, one)
        return best

    def _admitted(self, job: Candidate, other: int, best: _Change) -> _Change:
        """A group shrinks by as little as lets the waiting job in."""
        size, theirs, mask, had = self._rows[other]
        sizes = theirs[0].sizes
        if sizes[0] >= size:
            return best
        most = self._free + size - job.sizes[0]  # that the group may keep
        smaller = max((one for one in sizes if one <= most), default=size)
        if smaller >= size:
            return best
        loss = had - self._values.of(smaller, mask)
        for own in job.sizes:
            if own > self._free + size - smaller:
                break
            gain = self._values.of(own, job.bit) - loss
            if gain > best.gain:
                best = _Change(gain, other, size=own, shrunk=smaller)
        return best

    def grow(self) -> None:
        """Free devices go to the groups that gain most by them for each device."""
        places = range(len(self._rows)) if self._free > 0 else ()
        offers = [one for place in places if (one := self._growth(place))]
        heapify(offers)
        while offers and self._free > 0:
            _, place, larger = offers[0]
            row = self._rows[place]
            if larger - row.size <= self._free:  # or others took what it wanted
                self._free -= larger - row.size
                self._put(place, larger, row.mask)
            offer = self._growth(place)
            if offer is None:
                heappop(offers)
            else:
                heapreplace(offers, offer)

    def _growth(self, place: int) -> tuple[float, int, int] | None:
        """The size to which a group grows best with what is free, as (- gain for each device, its
        row, the size); it gains no more when less is free."""
        size, members, mask, have = self._rows[place]
        sizes = members[0].sizes if members else ()
        if not sizes or sizes[-1] <= size:
            return None
        best, most = 0, 0.0
        for larger in sizes:
            if larger - size > self._free:
                break
            if larger > size:
                gain = (self._values.of(larger, mask) - have) / (larger - size)
                if gain > most:
                    best, most = larger, gain
        return (-most, place, best) if best else None

    def _make(self, job: Candidate, place: int, change: _Change) -> None:
        other = change.instead_of
        theirs = 0 if other is None else other.bit
        if place < 0:
            self._waiting.remove(job)
            if other is not None:
                self._waiting.append(other)
                self._displaced.add(other)
        else:
            size, _, mask, _ = self._rows[place]
            self._put(place, size, mask ^ job.bit | theirs)
            if mask == job.bit and other is None:
                self._free += size
        if change.size:
            if change.shrunk:
                size, _, mask, _ = self._rows[change.to]
                self._put(change.to, change.shrunk, mask)
                self._free += size - change.shrunk
            self._rows.append(_NOWHERE)
            self._put(len(self._rows) - 1, change.size, job.bit)
            self._free -= change.size
            return
        size, _, mask, _ = self._rows[change.to]
        self._put(change.to, size, mask & ~theirs | job.bit)

    def _put(self, place: int, size: int, mask: Mask) -> None:
        self._rows[place] = self._row(size, mask)
        self._changed.add(place)


_NOWHERE = _Row(0, (), 0, 0.0)  # where a job is that waits
_NONE = _Change()
