"""A better plan by small changes: a job moves or starts, two change places, a group grows, or it
shrinks and a waiting job takes what it frees.

Matching makes pairs, then pairs of pairs, of jobs of one size, and counts all of them alike. Here a
change is valued by what all jobs then get done, restarts included. In each round the best change of
every job is made, if one gains; after a few rounds there is hardly one left that does.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple, Protocol

from treadle.policies.weave.company import Company, Group, Member

_ROUNDS = 3
_LEAST = 1e-4  # of the value of the group that is left
_LOOKED_AT = 4  # waiting jobs for which devices might be freed
_VALUES_MAX = 2000  # groups that are valued in one search, about 15 ms

Members = tuple[int, ...]  # positions, ascending
Values = dict[tuple[int, Members], float]  # of groups, by size and members


class Jobs(Protocol):
    """What is asked about jobs, by position."""

    def sizes(self, job: int) -> Sequence[int]:
        """The sizes at which it can run, ascending."""
        ...

    def member(self, job: int, size: int) -> Member | None:
        """The job at this size; None if it cannot run so."""
        ...

    def stop_cost(self, job: int) -> float:
        """What it costs to stop it."""
        ...


class _Change(NamedTuple):
    """Where a job goes."""

    gain: float = 0.0
    to: int = -1  # a group; -1: one of its own
    instead_of: int = -1  # the job that goes the other way; -1: none
    size: int = 0  # of a group of its own
    shrunk: int = 0  # the size to which that other group shrinks for it; 0: it does not


class _Uses(NamedTuple):
    """What free devices are good for: at best, and if the group that makes the best of them is
    the one that leaves."""

    best: float = 0.0
    place: int = -1  # of that group; -1: a waiting job
    next: float = 0.0

    def beside(self, value: float, place: int) -> "_Uses":
        if value > self.best:
            return _Uses(value, place, self.best)
        return self if value <= self.next else self._replace(next=value)


class Search:
    """Groups with their sizes, jobs without any, and free devices."""

    def __init__(
        self,
        company: Company,
        jobs: Jobs,
        groups: Sequence[tuple[int, Group]],
        waiting: Sequence[int],
        free: int,
        known: Values | None = None,
    ) -> None:
        """known: values that another search about the same jobs has found."""
        self._company = company
        self._jobs = jobs
        self._sizes: dict[int, Sequence[int]] = {}
        self._at: dict[int, dict[int, Member | None]] = {}  # jobs, by size
        self._rows = [(size, tuple(sorted(group.members))) for size, group in groups]
        self._known: Values = dict(known or {})
        self._values_max = len(self._known) + _VALUES_MAX
        self._claimed = set[tuple[int, Members]]()  # values that are not the company's
        self._uses: dict[int, _Uses] = {}  # of so many free devices, while no group changes
        for (size, members), (_, group) in zip(self._rows, groups, strict=True):
            if self._value(size, members) == -inf:  # Matching asks a little less of company.
                self._known[size, members] = group.value
                self._claimed.add((size, members))
        self._given = {tuple(sorted(group.members)): group for _, group in groups}
        self._waiting = list(waiting)
        self._free = free
        self._changed: set[int] = set()  # groups, in this round

    def run(self, *, afresh: bool = True) -> bool:
        """Whether something better was found; afresh: every group is looked at, not only what
        waiting jobs and free devices change."""
        first = best = self._total()
        rows = self._rows.copy()
        # Groups that were changed in the last round.
        fresh = set(range(len(self._rows))) if afresh else set[int]()
        for _ in range(_ROUNDS):
            self._changed = set()
            self._grow()
            for place in range(len(self._rows)):
                for job in self._rows[place][1]:
                    if job in self._rows[place][1]:
                        self._improve(job, place, fresh)
            for job in list(self._waiting):
                self._improve(job, -1, fresh)
            if not self._changed:
                break
            fresh = self._changed
            # What is hoped of devices that a job leaves may be lost to another change.
            if self._total() > best:
                best, rows = self._total(), self._rows.copy()
        self._grow()
        if self._total() > best:
            best, rows = self._total(), self._rows
        self._rows = rows
        return best > first

    def groups(self) -> Iterator[tuple[int, Group]]:
        for size, members in self._rows:
            if members:
                yield (
                    size,
                    self._company.together(members, self._members(size, members))
                    or (self._given[members]),
                )

    def values(self) -> Values:
        """What it has found groups to be worth; the search is over."""
        for key in self._claimed:
            del self._known[key]
        return self._known

    # -- values ---------------------------------------------------------------------------------

    def _sizes_of(self, job: int) -> Sequence[int]:
        known = self._sizes.get(job)
        if known is None:
            known = self._sizes[job] = self._jobs.sizes(job)
        return known

    def _members(self, size: int, members: Members) -> dict[int, Member | None]:
        """The jobs at this size, with these among them."""
        at = self._at.setdefault(size, {})
        for i in members:
            if i not in at:
                at[i] = self._jobs.member(i, size)
        return at

    def _value(self, size: int, members: Members) -> float:
        """What a group gets done; -inf if these jobs cannot share so many devices."""
        if not members:
            return 0.0
        known = self._known.get((size, members))
        if known is None:
            at = self._members(size, members)
            known = self._company.value([at[i] for i in members])
            self._known[size, members] = known
        return known

    def _total(self) -> float:
        return sum([self._value(size, members) for size, members in self._rows])

    # -- changes --------------------------------------------------------------------------------

    def _improve(self, job: int, place: int, fresh: set[int]) -> None:
        """Make the best change for one job; place: of its group, -1 if it waits. Only groups that
        were changed lately are looked at, unless it waits or its own is one of them."""
        if len(self._known) > self._values_max:
            return
        size, mine = self._rows[place] if place >= 0 else (0, ())
        near = fresh | self._changed
        places: Iterable[int] = sorted(near)
        if place < 0 or place in near:
            places = range(len(self._rows))
        elif not near and len(mine) == 1:
            return  # There is nowhere to go.
        best = self._best_change(job, place, places)
        # The value of a group whose moves cost more than it gets done is below 0.
        if best.gain > _LEAST * max(self._value(size, mine), 0.0):
            self._make(job, place, best)

    def _best_change(self, job: int, place: int, places: Iterable[int]) -> _Change:
        size, mine = self._rows[place] if place >= 0 else (0, ())
        have, best = self._value(size, mine), _NONE
        if len(mine) == 1:
            leaves = self._spare(size, place) - have
        else:
            leaves = self._value(size, _without(mine, job)) - have
            best = self._apart(job, leaves)
        for other in places:
            if other == place or not self._rows[other][1]:
                continue
            if self._members(self._rows[other][0], (job,))[job] is not None:
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
            gain = self._value(own, (job,)) + leaves
            if gain > best.gain:
                best = _Change(gain, size=own)
        return best

    def _beside(self, job: int, place: int, other: int, leaves: float, best: _Change) -> _Change:
        """The job joins another group, or changes places with one of its members."""
        size, mine = self._rows[place] if place >= 0 else (0, ())
        their_size, theirs = self._rows[other]
        value = self._value
        had = value(their_size, theirs)
        if len(theirs) < self._company.largest:
            gain = value(their_size, _with(theirs, job)) - had + leaves
            if gain > best.gain:
                best = _Change(gain, other)
        if other < place or (size == their_size and len(mine) == len(theirs) == 1):
            return best  # Two jobs that change places are looked at once; or nothing changes.
        for one in theirs:
            gain = value(their_size, _instead(theirs, one, job)) - had
            if place < 0:
                gain -= self._jobs.stop_cost(one)
            else:
                gain += value(size, _instead(mine, job, one)) - value(size, mine)
            if gain > best.gain:
                best = _Change(gain, other, one)
        return best

    def _admitted(self, job: int, other: int, best: _Change) -> _Change:
        """A group shrinks by as little as lets the waiting job in."""
        size, theirs = self._rows[other]
        most = self._free + size - self._sizes_of(job)[0]  # that the group may keep
        smaller = max((one for one in self._sizes_of(theirs[0]) if one <= most), default=size)
        if smaller >= size:
            return best
        loss = self._value(size, theirs) - self._value(smaller, theirs)
        for own in self._sizes_of(job):
            if own > self._free + size - smaller:
                break
            gain = self._value(own, (job,)) - loss
            if gain > best.gain:
                best = _Change(gain, other, size=own, shrunk=smaller)
        return best

    def _spare(self, devices: int, leaving: int) -> float:
        """What others would make of so many devices more; leaving: the group that held them."""
        more = self._use(self._free + devices, leaving)
        return more - self._use(self._free, leaving) if self._free else more

    def _use(self, free: int, leaving: int) -> float:
        """What a group or a waiting job would make of so many free devices at best."""
        uses = self._uses.get(free)
        if uses is None:
            uses = self._uses[free] = self._uses_of(free)
        return uses.next if uses.place == leaving else uses.best

    def _uses_of(self, free: int) -> _Uses:
        found = _Uses()
        for job in self._waiting[:_LOOKED_AT]:
            smallest = self._sizes_of(job)[0]
            if smallest <= free:
                found = found.beside(self._value(smallest, (job,)), -1)
        for place, (size, members) in enumerate(self._rows):
            sizes = self._sizes_of(members[0]) if members else ()
            if not sizes or sizes[-1] <= size:
                continue
            most = 0.0
            for larger in sizes:
                if larger - size > free:
                    break
                if larger > size:
                    most = max(most, self._value(larger, members) - self._value(size, members))
            found = found.beside(most, place)
        return found

    def _grow(self) -> None:
        """Free devices go to the groups that gain most by them for each device."""
        while self._free:
            best, most = None, 0.0
            for place, (size, members) in enumerate(self._rows):
                sizes = self._sizes_of(members[0]) if members else ()
                if not sizes or sizes[-1] <= size:
                    continue
                for larger in sizes:
                    if larger - size > self._free:
                        break
                    if larger > size:
                        gain = self._value(larger, members) - self._value(size, members)
                        if gain / (larger - size) > most:
                            best, most = (place, larger), gain / (larger - size)
            if best is None:
                break
            place, larger = best
            size, members = self._rows[place]
            self._free -= larger - size
            self._rows[place] = (larger, members)
            self._changed.add(place)
            self._uses.clear()

    def _make(self, job: int, place: int, change: _Change) -> None:
        self._uses.clear()
        if place < 0:
            self._waiting.remove(job)
        else:
            size, mine = self._rows[place]
            rest = _without(mine, job)
            if change.instead_of >= 0:
                rest = _with(rest, change.instead_of)
            self._rows[place] = (size, rest)
            self._changed.add(place)
            if not rest:
                self._free += size
        if change.shrunk:
            size, theirs = self._rows[change.to]
            self._rows[change.to] = (change.shrunk, theirs)
            self._free += size - change.shrunk
            self._changed.add(change.to)
        if change.size:
            self._changed.add(len(self._rows))
            self._rows.append((change.size, (job,)))
            self._free -= change.size
            return
        size, theirs = self._rows[change.to]
        if change.instead_of >= 0:
            theirs = _without(theirs, change.instead_of)
            if place < 0:
                self._waiting.append(change.instead_of)
        self._rows[change.to] = (size, _with(theirs, job))
        self._changed.add(change.to)


def _with(members: Members, job: int) -> Members:
    return tuple(sorted((*members, job)))


def _without(members: Members, job: int) -> Members:
    return tuple([i for i in members if i != job])


def _instead(members: Members, one: int, job: int) -> Members:
    return tuple(sorted([job if i == one else i for i in members]))


_NONE = _Change()
