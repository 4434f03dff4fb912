"""Jobs in a policy's order, without sorting them at every decision.

A policy ranks a job by a straight line: a value now and a slope that says how the value moves while
time passes (lower goes first). Remaining time falls while a job runs, attained service grows, and
both stand still while it waits. Two facts make the order cheap:

1. A waiting job's value does not move, so the queue is a sorted list.
2. Running jobs with the same slope never overtake one another, so they form one sorted list for
   each slope, and there are few slopes (one, or one for each size).

The last of all running jobs is then the last of a handful of lists, and a decision costs what it
changes and not what runs. On the 66,280 jobs of the Philly log this is the difference between
re-ranking two thousand running jobs a hundred thousand times and not at all.

Ties. Equal values are ordered as they were a moment ago: a job whose value falls has just come
from behind, one whose value grows from in front. That is what a stable sort repeated at every
event gives, and what published simulators do; it decides which job is preempted when integers
collide. A rank may also hold only until a moment (a queue limit that will be crossed): the
scheduler then asks again.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Any, NamedTuple, Self

from treadle.core.errors import PolicyError
from treadle.core.job import Job, JobId
from treadle.core.waiting_by_kind import Classify, Line, Waiting, WaitingByKind


class Rank(NamedTuple):
    """Where a job stands in a policy's order: lower first."""

    value: float  # now
    slope: float = 0.0  # change of the value each second; 0 while the job waits
    until: float = inf  # the line holds until then; ask again


# A place is a moment's number, then a bit for arrivals and a count within the moment.
_WITHIN = 33
_ARRIVES = 1 << (_WITHIN - 1)
_COUNT = (1 << _WITHIN) - 1

Ranker = Callable[[Job, float], Rank]


def check_rank(rank: Rank, job: Job) -> Rank:
    """Refuse a rank that the queue could not follow: it is sorted once, when a job joins it."""
    if rank.slope and job.allocation is None:
        raise PolicyError(
            f"job {job.id} waits and was ranked with slope {rank.slope:g}; the value of a waiting "
            "job must not move: use slope 0, and `until` for the moment to rank it again"
        )
    return rank


class InOrder(Iterator[tuple[Waiting, int]]):
    """Waiting jobs in order, each with the size it asked for, but for sizes that were given up.

    Most of a long queue asks for more than is left; those jobs are not even looked at.
    """

    def __init__(self, by_size: Mapping[int, Sequence[Waiting]]) -> None:
        self._by_size = by_size
        self._heads = [(queue[0], size, 0) for size, queue in by_size.items() if queue]
        self.limit = inf  # no job of this size or above is looked at
        heapify(self._heads)

    def give_up(self, size: int) -> None:
        """Look at no more jobs of that size or a larger one."""
        self.limit = min(self.limit, size)

    def __next__(self) -> tuple[Waiting, int]:
        heads = self._heads
        while heads:
            entry, size, index = heads[0]
            if size >= self.limit:
                heappop(heads)
                continue
            queue = self._by_size[size]
            if index + 1 < len(queue):
                heapreplace(heads, (queue[index + 1], size, index + 1))
            else:
                heappop(heads)
            return entry, size
        raise StopIteration


class Ranking:
    """Every job that waits, in order; every job that holds devices, by slope."""

    __slots__ = (
        "_by_kind",
        "_by_size",
        "_entries",
        "_expiries",
        "_lines",
        "_place",
        "_placed_at",
        "_rank",
        "_unsorted",
        "priorities",
        "queue",
    )

    def __init__(self, rank: Ranker) -> None:
        self._rank = rank
        self._place = 0  # the order in which jobs came to where they are
        self._placed_at = -inf
        self.queue: list[Waiting] = []  # ascending
        self.priorities: dict[int, int] = {}  # how many jobs of each are in the queue
        # The same by the size that was asked for, from the first walk that wants it.
        self._by_size: dict[int, list[Waiting]] | None = None
        # The same by kinds, from the first decision that wants them.
        self._by_kind: WaitingByKind | None = None
        # Jobs that hold devices, to be sorted in on demand; policies that never preempt
        # never do.
        self._unsorted: dict[JobId, tuple[float, Waiting]] = {}
        # slope -> (value at time 0, place or -place, job), ascending
        self._lines: dict[float, list[tuple[float, int, JobId]]] = {}
        # job -> (slope or None while it waits, its entry, the size it asked for, its priority)
        self._entries: dict[JobId, tuple[float | None, Waiting, int, int]] = {}
        self._expiries: list[tuple[float, int, JobId]] = []  # (until, place, job), a heap

    def __contains__(self, identity: JobId) -> bool:
        return identity in self._entries

    def copy(self) -> Self:
        twin = type(self)(self._rank)
        twin._place = self._place
        twin._placed_at = self._placed_at
        twin.queue = self.queue.copy()
        twin.priorities = self.priorities.copy()
        twin._unsorted = self._unsorted.copy()
        twin._lines = {slope: line.copy() for slope, line in self._lines.items()}
        twin._entries = self._entries.copy()
        twin._expiries = self._expiries.copy()
        return twin

    def waiting_only(self) -> Self:
        """A copy without the jobs that hold devices."""
        twin = type(self)(self._rank)
        twin._place = self._place
        twin._placed_at = self._placed_at
        twin.queue = self.queue.copy()
        twin.priorities = self.priorities.copy()
        twin._entries = {entry[2]: self._entries[entry[2]] for entry in self.queue}
        twin._expiries = self._expiries.copy()
        return twin

    def only(self, jobs: Container[JobId]) -> Self:
        """A copy with these jobs alone."""
        twin = type(self)(self._rank)
        twin._place = self._place
        twin._placed_at = self._placed_at
        twin.queue = [entry for entry in self.queue if entry[2] in jobs]
        twin._entries = {name: known for name, known in self._entries.items() if name in jobs}
        for entry in twin.queue:
            priority = twin._entries[entry[2]][3]
            twin.priorities[priority] = twin.priorities.get(priority, 0) + 1
        twin._unsorted = {name: known for name, known in self._unsorted.items() if name in jobs}
        for slope, line in self._lines.items():
            if kept := [entry for entry in line if entry[2] in jobs]:
                twin._lines[slope] = kept
        twin._expiries = self._expiries.copy()
        return twin

    @property
    def next_expiry_at(self) -> float:
        """When the next rank runs out. Ranks that were replaced since do not count."""
        while self._expiries and not self._counts(self._expiries[0]):
            heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else inf

    def put(self, job: Job, now: float) -> None:
        """Rank a job again, whether it is known or not."""
        identity = job.spec.id
        rank = self._rank(job, now)
        value, slope, until = rank
        if slope and job.allocation is None:
            check_rank(rank, job)
        known = self._entries.get(identity)
        if known is not None:
            holds = job.allocation is not None
            if holds and known[0] == slope and known[1][0] == value - slope * now and until == inf:
                return  # The same line as before.
            self.drop(identity)
        if now != self._placed_at:
            self._placed_at = now
            self._place = (self._place | _COUNT) + 1
        self._place = place = self._place + 1
        if job.allocation is None:
            # Arrivals are put before those that return at the same moment, as a job is preempted
            # only once the arrivals are known; but they come after them.
            if job.submitted_at == now and not job.starts:
                place |= _ARRIVES
            entry = (value, place, identity)
            insort(self.queue, entry)
            size, priority = job.spec.asked, job.spec.priority
            self.priorities[priority] = self.priorities.get(priority, 0) + 1
            if self._by_size is not None:
                insort(self._by_size.setdefault(size, []), entry)
            if self._by_kind is not None:
                self._by_kind.add(entry)
            self._entries[identity] = (None, entry, size, priority)
        else:
            # A later job was ahead of equals that fall, and behind any others.
            place = -(place ^ _COUNT) if slope < 0 else place
            entry = (value - slope * now, place, identity)
            self._unsorted[identity] = (slope, entry)
            self._entries[identity] = (slope, entry, job.spec.asked, job.spec.priority)
        if until < inf:
            heappush(self._expiries, (until, place, identity))

    def drop(self, identity: JobId) -> None:
        known = self._entries.pop(identity, None)
        if known is None:
            return
        slope, entry, size, priority = known
        if slope is None:
            del self.queue[bisect_left(self.queue, entry)]
            self.priorities[priority] -= 1
            if not self.priorities[priority]:
                del self.priorities[priority]
            if self._by_size is not None:
                queue = self._by_size[size]
                del queue[bisect_left(queue, entry)]
            if self._by_kind is not None:
                self._by_kind.drop(identity)
            return
        if self._unsorted.pop(identity, None) is None:
            line = self._lines[slope]
            del line[bisect_left(line, entry)]
            if not line:
                del self._lines[slope]

    def ahead_of(self, identity: JobId) -> int:
        """How many jobs are before this one in the queue."""
        return bisect_left(self.queue, self._entries[identity][1])

    def waiting(self) -> "InOrder":
        """The queue, for a walk that gives up on sizes as it goes."""
        if self._by_size is None:
            self._by_size = {}
            for entry in self.queue:
                self._by_size.setdefault(self._entries[entry[2]][2], []).append(entry)
        return InOrder(self._by_size)

    def by_kind(self, classify: Classify, basis: object) -> Mapping[Any, Line]:
        """Waiting jobs by kind. Each is classified once, for as long as the basis is the same
        object; put a job again if what its kind depends on has changed.
        """
        if self._by_kind is None or self._by_kind.basis is not basis:
            self._by_kind = WaitingByKind(basis, self.queue)
        return self._by_kind.lines(classify)

    def expired(self, now: float) -> list[JobId]:
        """Jobs whose rank has run out, each once; the caller puts them again."""
        due: dict[JobId, None] = {}
        while self._expiries and self._expiries[0][0] <= now:
            expiry = heappop(self._expiries)
            if self._counts(expiry):
                due[expiry[2]] = None
        if len(self._expiries) > 2 * len(self._entries) + 64:
            self._forget_replaced()
        return list(due)

    def from_the_back(self, now: float) -> Iterator[tuple[float, float, JobId]]:
        """Running jobs as (value, slope, job), the last in order first."""
        lines = self._lines
        for slope, entry in self._unsorted.values():
            insort(lines.setdefault(slope, []), entry)
        self._unsorted.clear()
        if len(lines) == 1:
            ((slope, line),) = lines.items()
            for at_zero, _, identity in reversed(line):
                yield at_zero + slope * now, slope, identity
            return
        heads = []
        for slope, line in lines.items():
            at_zero, place, identity = line[-1]
            # Of equal values the one that falls fastest is last, as it came from behind.
            heads.append((-(at_zero + slope * now), slope, -place, len(line) - 1, identity))
        heapify(heads)
        while heads:
            value, slope, _, index, identity = heappop(heads)
            yield -value, slope, identity
            if index:
                at_zero, place, identity = lines[slope][index - 1]
                heappush(heads, (-(at_zero + slope * now), slope, -place, index - 1, identity))

    def _forget_replaced(self) -> None:
        """Drop expiries of ranks that were replaced, which would pile up otherwise."""
        self._expiries = [expiry for expiry in self._expiries if self._counts(expiry)]
        heapify(self._expiries)

    def _counts(self, expiry: tuple[float, int, JobId]) -> bool:
        """Whether the rank that runs out then is still the job's."""
        _, place, identity = expiry
        known = self._entries.get(identity)
        return known is not None and known[1][1] == place
