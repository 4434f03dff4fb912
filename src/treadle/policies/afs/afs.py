"""AFS (Hwang et al., NSDI'21): each device to the job that gains most, without bets on the future.

Take two jobs, a the one that would end earlier at its present share and b the other, and one more
device. Given to a, it comes free when a ends and b has it from then on; given to b, b has it all
along. Subtracting the two sums of completion times, everything but the speeds cancels: b should
have it exactly when b's gain relative to its new speed is at least a's relative to its old one,

    (p'_b − p_b) / p'_b  ≥  (p'_a − p_a) / p_a.

AFS hands devices out one at a time, each to the winner of a scan: the champion so far against the
next job. It is apathetic to the future: that a's whole share might fall to b later counts for
nothing, because with jobs arriving it would not.

The relation is not transitive, so the scan's order is part of the policy. Ours is by length at the
present share, then arrival: the champion is then always the shorter one of a pair, and a scan is
"find the next job whose gain beats mine" until there is none.

Jobs climb a ladder of sizes they offer. A step may take several devices, so gains are counted for
each; a job that holds nothing gains everything by its first step and is always the longer one.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop
from operator import attrgetter

import numpy as np

from treadle.core.job import Job
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Rank
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.models.sizes.ladders import Ladder, Ladders
from treadle.policies.base.packing import pack
from treadle.policies.base.placement import Placement
from treadle.policies.base.shares import Sharing


def shares(ladders: Sequence[Ladder], work: Sequence[float], devices: int) -> list[int]:
    """How many devices each job gets. Jobs are given in order of arrival."""
    largest = [ladder.sizes[-1] if ladder.sizes else 0 for ladder in ladders]
    if sum(largest) <= devices:
        return largest  # What the scan would end with, in a hundredth of its time.
    return _Scan(ladders, work, devices).run()


_NEVER = -1.0  # a gain that beats no other


class _Scan:
    """Candidates in order of length, as arrays: only the winner of a device moves."""

    def __init__(self, ladders: Sequence[Ladder], work: Sequence[float], devices: int) -> None:
        self._ladders = ladders
        self._work = work
        self._left = devices
        self._rung = [-1] * len(ladders)  # index of the size held; -1 holds nothing
        # Idle jobs by the service of their first step, a heap: most of a long queue stays idle.
        self._idle = [
            (work[job] / ladder.speeds[0] * ladder.sizes[0], job)
            for job, ladder in enumerate(ladders)
            if ladder.sizes
        ]
        heapify(self._idle)
        # Jobs that hold devices and could use more, by length; parallel arrays of which the entries
        # from `_begin` to `_count` are in use. One that has all it can get stays, as never longer:
        # to move those behind it up would cost more than to pass it.
        self._begin = self._count = 0
        self._length = np.empty(len(ladders))
        self._shorter = np.empty(len(ladders))
        self._longer = np.empty(len(ladders))
        self._job = np.empty(len(ladders), dtype=np.int64)

    def run(self) -> list[int]:
        self._admit_all_for_certain()
        while self._left and (self._idle or self._begin < self._count):
            place = self._champion()
            if self._idle and self._idle_wins(place):
                self._admit(heappop(self._idle)[1])
            else:
                assert place is not None, "without an idle job there is one that holds devices"
                self._climb(place)
        return [
            0 if rung < 0 else ladder.sizes[rung]
            for ladder, rung in zip(self._ladders, self._rung, strict=True)
        ]

    def _admit_all_for_certain(self) -> None:
        """Serve idle jobs for as long as no champion could be served instead.

        That is the first device for every job unless one scales better than linearly. Their
        rows are sorted once instead of being moved along one by one.
        """
        ladders, gain_max = self._ladders, 0.0
        rows: list[tuple[float, int]] = []
        idle = self._idle
        while self._left and idle and gain_max <= 1.0 / ladders[idle[0][1]].sizes[0]:
            _, job = heappop(idle)
            ladder = ladders[job]
            if ladder.sizes[0] > self._left:
                continue
            self._left -= ladder.sizes[0]
            self._rung[job] = 0
            if len(ladder.sizes) > 1:
                rows.append((self._work[job] / ladder.speeds[0], job))
                gain_max = max(gain_max, ladder.gain_if_shorter[0])
        rows.sort()
        self._count = count = len(rows)
        self._length[:count] = [length for length, _ in rows]
        self._shorter[:count] = [ladders[job].gain_if_shorter[0] for _, job in rows]
        self._longer[:count] = [ladders[job].gain_if_longer[0] for _, job in rows]
        self._job[:count] = [job for _, job in rows]

    def _champion(self) -> int | None:
        """The place of the winner among jobs that hold devices."""
        place = self._begin
        if place == self._count:
            return None
        longer = self._longer[: self._count]
        while place + 1 < self._count:
            beats = longer[place + 1 :] >= self._shorter[place]
            ahead = int(beats.argmax())
            if not beats[ahead]:
                break
            place += 1 + ahead
        return place

    def _idle_wins(self, place: int | None) -> bool:
        """The first idle job, as the longer one, against the champion; it gains everything."""
        if place is None:
            return True
        first_step = self._ladders[self._idle[0][1]].sizes[0]
        return bool(self._shorter[place] <= 1.0 / first_step)

    def _admit(self, job: int) -> None:
        ladder = self._ladders[job]
        if ladder.sizes[0] > self._left:
            return  # Set aside for this round; smaller ones may still fit.
        self._left -= ladder.sizes[0]
        self._rung[job] = 0
        if len(ladder.sizes) > 1:
            self._count += 1
            self._place(job, self._count - 1)

    def _climb(self, place: int) -> None:
        job = int(self._job[place])
        ladder, rung = self._ladders[job], self._rung[job]
        step = ladder.sizes[rung + 1] - ladder.sizes[rung]
        if step <= self._left:
            self._left -= step
            self._rung[job] = rung + 1
            if rung + 2 < len(ladder.sizes):
                self._place(job, place)
                return
        self._remove(place)

    def _place(self, job: int, free: int) -> None:
        """Write a job's row where its length belongs, moving the rows up to a free one along."""
        ladder, rung = self._ladders[job], self._rung[job]
        length = self._work[job] / ladder.speeds[rung]
        begin = self._begin
        place = begin + int(self._length[begin:free].searchsorted(length, side="left"))
        while place < free and self._length[place] == length and self._job[place] < job:
            place += 1
        values = (length, ladder.gain_if_shorter[rung], ladder.gain_if_longer[rung], job)
        rows = (self._length, self._shorter, self._longer, self._job)
        for row, value in zip(rows, values, strict=True):
            row[place + 1 : free + 1] = row[place:free]
            row[place] = value

    def _remove(self, place: int) -> None:
        self._longer[place] = _NEVER
        while self._begin < self._count and self._longer[self._begin] == _NEVER:
            self._begin += 1


class Climbing(Sharing):
    """What policies have in common under which jobs climb ladders."""

    def __init__(self, placement: Placement, belief: PerformanceModel) -> None:
        super().__init__(placement)
        self._ladders = Ladders(belief)

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        """Jobs that hold less than they can use come last, so that a look at the last finds any."""
        return Rank(float(job.size not in (0, self._ladders.of(job).sizes[-1])))

    def offers(self, job: Job) -> Sequence[int]:
        return self._ladders.of(job).sizes

    def stop_order(self, holders: Iterable[Job]) -> Iterable[Job]:
        """As they began, the latest first, and not as they rank."""
        return sorted(holders, key=lambda job: -job.attempt)

    def with_room_for_all(self, snapshot: Snapshot) -> list[Job] | None:
        """Jobs that hold less than they can use, or nothing, if there is room for all of it.

        Every job then gets its largest size in any order, and those that have it are not looked at:
        the Philly log (66,280 jobs, a third of the devices busy) takes 10 s of CPU time, not 214.
        """
        if self._ladders.may_change:
            return None  # Ranks were given by ladders that may not be those of today.
        jobs, room = [], snapshot.free.total
        for wants_more, _, identity in snapshot.ranking.from_the_back(snapshot.now):
            if not wants_more:
                break
            jobs.append(snapshot.jobs[identity])
            room += jobs[-1].size
        for job in jobs:
            room -= self._ladders.of(job).sizes[-1]
        for job in snapshot.waiting():
            if room <= 0:
                return None  # A long queue is not looked at to its end.
            room -= self._ladders.of(job).sizes[-1]
            jobs.append(job)
        return jobs if room >= 0 else None

    def largest_each(
        self, snapshot: Snapshot, jobs: Sequence[Job], order: Callable[[Job], tuple[float, ...]]
    ) -> Schedule:
        """Their largest size for these jobs, in that order; all others keep what they hold."""
        in_order = sorted(jobs, key=order)
        sizes = {job.id: self._ladders.of(job).sizes[-1] for job in in_order}
        return self.schedule(snapshot, sizes, among=[job for job in jobs if job.size])


class Afs(Climbing):
    """Elastic: each device to the job that gains most, apathetic to the future (AFS-L).

    packed: only counts that tile nodes, placed so that no node carries two jobs that cross nodes.
    """

    def __init__(
        self, placement: Placement, belief: PerformanceModel, *, packed: bool = False
    ) -> None:
        super().__init__(placement, belief)
        self._packed = packed

    def decide(self, snapshot: Snapshot) -> Schedule:
        in_want = None if self._packed else self.with_room_for_all(snapshot)
        if in_want is not None:
            return self.largest_each(snapshot, in_want, lambda job: (job.sequence,))
        if self.nothing_to_do(snapshot):
            return KEEP
        active = [*snapshot.waiting(), *snapshot.holding()]
        active.sort(key=attrgetter("sequence"))
        work = [job.order_at(snapshot.now) for job in active]
        node = snapshot.cluster.largest_node if self._packed else 1
        ladders = [self._ladders.of(job, node) for job in active]
        given = shares(ladders, work, snapshot.supply)
        sizes = {job.id: size for job, size in zip(active, given, strict=True) if size}
        if self._packed:
            return Schedule.whole(snapshot, pack(snapshot, sizes))
        return self.schedule(snapshot, sizes)
