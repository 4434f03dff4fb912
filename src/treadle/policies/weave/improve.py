"""A better plan by small changes: a job moves or starts, two change places, a group grows, or it
shrinks and a waiting job takes what it frees.

Matching makes pairs, then pairs of pairs, of jobs of one size, and counts all of them alike. Here a
change is valued by what all jobs then get done, restarts included. In each round the best change of
every job is made, if one gains; after a few rounds there is hardly one left that does.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import NamedTuple

from treadle.policies.weave.company import Company, Group
from treadle.policies.weave.values import Jobs, Mask, Values, mask_of, members_of

_ROUNDS = 3
_LEAST = 1e-4  # of the value of the group that is left
_VALUES_MAX = 2000  # groups that are valued in one search, about 15 ms


class _Row(NamedTuple):
    """A group; when its last member leaves, it stays as an empty one."""

    size: int
    members: tuple[int, ...]  # positions, ascending
    mask: Mask
    value: float


class _Change(NamedTuple):
    """Where a job goes."""

    gain: float = 0.0
    to: int = -1  # a group; -1: one of its own
    instead_of: int = -1  # the job that goes the other way; -1: none
    size: int = 0  # of a group of its own
    shrunk: int = 0  # the size to which that other group shrinks for it; 0: it does not


class Search:
    """Groups with their sizes, jobs without any, and free devices."""

    def __init__(
        self,
        company: Company,
        jobs: Jobs,
        groups: Sequence[tuple[int, Group]],
        waiting: Sequence[int],
        free: int,
        values: Values | None = None,
    ) -> None:
        """values: of groups of these jobs, some of which another search has found."""
        self._largest = company.largest
        self._jobs = jobs
        self._values = values or Values(company, jobs)
        self._values_max = self._values.count + _VALUES_MAX
        self._sizes_of = jobs.sizes
        self._given = {mask_of(group.members): group for _, group in groups}
        self._claimed: list[tuple[int, Mask]] = []  # values that are not the company's
        for size, group in groups:
            mask = mask_of(group.members)
            if self._values.of(size, mask) == -inf:  # Matching asks a little less of company.
                self._values.at(size)[mask] = group.value
                self._claimed.append((size, mask))
        self._rows = [self._row(size, mask_of(group.members)) for size, group in groups]
        self._waiting = list(waiting)
        self._free = free
        self._changed: set[int] = set()  # groups, in this round

    def run(self, *, afresh: bool = True) -> bool:
        """Whether something better was found; afresh: every group is looked at, not only what
        waiting jobs and free devices change."""
        first = self._total()
        # Groups that were changed in the last round.
        fresh = set(range(len(self._rows))) if afresh else set[int]()
        for _ in range(_ROUNDS):
            self._changed = set()
            self.grow()
            for place in range(len(self._rows)):
                for job in self._rows[place].members:
                    if job in self._rows[place].members:
                        self._improve(job, place, fresh)
            for job in list(self._waiting):
                self._improve(job, -1, fresh)
            if not self._changed:
                break
            fresh = self._changed
        self.grow()
        for size, mask in self._claimed:
            self._values.at(size)[mask] = -inf
        return self._total() > first

    def groups(self) -> list[tuple[int, Group]]:
        return [
            (row.size, self._values.group(row.size, row.mask) or self._given[row.mask])
            for row in self._rows
            if row.members
        ]

    # -- values ---------------------------------------------------------------------------------

    def _row(self, size: int, mask: Mask) -> _Row:
        return _Row(size, members_of(mask), mask, self._values.of(size, mask))

    def _total(self) -> float:
        return sum([row.value for row in self._rows])

    # -- changes --------------------------------------------------------------------------------

    def _improve(self, job: int, place: int, fresh: set[int]) -> None:
        """Make the best change for one job; place: of its group, -1 if it waits. Only groups that
        were changed lately are looked at, unless it waits or its own is one of them."""
        if self._values.count > self._values_max:
            return
        mine = self._rows[place] if place >= 0 else _NOWHERE
        near = fresh | self._changed
        places: Iterable[int] = sorted(near)
        if place < 0 or place in near:
            places = range(len(self._rows))
        elif not near and len(mine.members) == 1:
            return  # There is nowhere to go.
        best = self._best_change(job, place, places)
        # The value of a group whose moves cost more than it gets done is below 0.
        if best.gain > _LEAST * max(mine.value, 0.0):
            self._make(job, place, best)

    def _best_change(self, job: int, place: int, places: Iterable[int]) -> _Change:
        size, members, mask, have = self._rows[place] if place >= 0 else _NOWHERE
        leaves = self._values.of(size, mask & ~(1 << job)) - have
        best = _NONE if len(members) == 1 else self._apart(job, leaves)
        rows, sizes = self._rows, self._sizes_of(job)
        for other in places:
            if other == place or not rows[other].members:
                continue
            if rows[other].size in sizes:
                best = self._beside(job, place, other, leaves, best)
            if place < 0:
                best = self._admitted(job, other, best)
        return best

    def _apart(self, job: int, leaves: float) -> _Change:
        """The job takes free devices; leaves: what its group gains by that."""
        best = _NONE
        for own in self._sizes_of(job):
            if own > self._free:
                break
            gain = self._values.of(own, 1 << job) + leaves
            if gain > best.gain:
                best = _Change(gain, size=own)
        return best

    def _beside(self, job: int, place: int, other: int, leaves: float, best: _Change) -> _Change:
        """The job joins another group, or changes places with one of its members."""
        size, members, _, _ = self._rows[place] if place >= 0 else _NOWHERE
        their_size, theirs, mask, had = self._rows[other]
        if len(theirs) < self._largest:
            gain = self._values.of(their_size, mask | 1 << job) - had + leaves
            if gain > best.gain:
                best = _Change(gain, other)
        if other < place or (size == their_size and len(members) == len(theirs) == 1):
            return best  # Two jobs that change places are looked at once; or nothing changes.
        return self._exchanged(job, place, other, best)

    def _exchanged(self, job: int, place: int, other: int, best: _Change) -> _Change:
        """The job changes places with a member of another group."""
        size, _, mask, have = self._rows[place] if place >= 0 else _NOWHERE
        their_size, theirs, their_mask, had = self._rows[other]
        known, bit = self._values.at(their_size), 1 << job
        without, here = mask & ~bit, self._values.at(size)
        for one in theirs:
            swapped = their_mask ^ (1 << one) | bit
            value = known.get(swapped)
            if value is None:
                value = self._values.of(their_size, swapped)
            if value == -inf:
                continue
            gain = value - had
            if place < 0:
                gain -= self._jobs.stop_cost(one)
            else:
                value = here.get(without | 1 << one)
                if value is None:
                    value = self._values.of(size, without | 1 << one)
                gain += value - have
            if gain > best.gain:
                best = _Change(gain, other, one)
        return best

    def _admitted(self, job: int, other: int, best: _Change) -> _Change:
        """A group shrinks by as little as lets the waiting job in."""
        size, theirs, mask, had = self._rows[other]
        sizes = self._sizes_of(theirs[0])
        if sizes[0] >= size:
            return best
        most = self._free + size - self._sizes_of(job)[0]  # that the group may keep
        smaller = max((one for one in sizes if one <= most), default=size)
        if smaller >= size:
            return best
        loss = had - self._values.of(smaller, mask)
        for own in self._sizes_of(job):
            if own > self._free + size - smaller:
                break
            gain = self._values.of(own, 1 << job) - loss
            if gain > best.gain:
                best = _Change(gain, other, size=own, shrunk=smaller)
        return best

    def grow(self) -> bool:
        """Free devices go to the groups that gain most by them for each device; whether one took
        any in this round."""
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
        return bool(self._changed)

    def _growth(self, place: int) -> tuple[float, int, int] | None:
        """The size to which a group grows best with what is free, as (- gain for each device, the
        group, the size); it gains no more when less is free."""
        size, members, mask, have = self._rows[place]
        sizes = self._sizes_of(members[0]) if members else ()
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

    def _make(self, job: int, place: int, change: _Change) -> None:
        bit = 1 << job
        other = 1 << change.instead_of if change.instead_of >= 0 else 0
        if place < 0:
            self._waiting.remove(job)
            if other:
                self._waiting.append(change.instead_of)
        else:
            size, _, mask, _ = self._rows[place]
            self._put(place, size, mask ^ bit | other)
            if mask == bit and not other:
                self._free += size
        if change.size:
            if change.shrunk:
                size, _, mask, _ = self._rows[change.to]
                self._put(change.to, change.shrunk, mask)
                self._free += size - change.shrunk
            self._rows.append(_NOWHERE)
            self._put(len(self._rows) - 1, change.size, bit)
            self._free -= change.size
            return
        size, _, mask, _ = self._rows[change.to]
        self._put(change.to, size, mask & ~other | bit)

    def _put(self, place: int, size: int, mask: Mask) -> None:
        self._rows[place] = self._row(size, mask)
        self._changed.add(place)


_NOWHERE = _Row(0, (), 0, 0.0)  # where a job is that waits
_NONE = _Change()
