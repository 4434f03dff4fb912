"""Ranges of jobs that run: each is compared with what happens, once.

A range that was made for a job is kept until the job ends, or outlives it. To wait for the end
would be to hear of the short jobs first, and to make ranges too narrow until the long ones end. So
the caller says when jobs begin, pause and end, and how late it is: at a job's start and at some
ages a range is made, and a job that is beyond one of them has missed it now.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from treadle.models.learning.expectation import Expectation
from treadle.models.learning.experts import Expert
from treadle.models.learning.kinds import Likeness
from treadle.models.lengths.coverage import AGES_S, stage
from treadle.models.lengths.distribution import Span

SPARE_MOMENTS = 256  # of jobs that have ended, before they are removed
WATCHED_MAX = 20_000  # jobs; of more, ranges are made when they end


@dataclass(slots=True)
class Watched:
    """A job that runs, or is paused."""

    likeness: Likeness
    expect: Callable[[], Expectation]  # as of now
    experts: tuple[Expert, ...]  # the forecasts when it began
    origin_at: float = 0.0  # when it would have begun if it had never paused
    turns: int = 0  # how often it began or paused: moments of earlier turns do not count
    ranges: dict[int, Span] = field(default_factory=dict)  # of its whole length, by stage
    made: set[int] = field(default_factory=set)  # stages that have had their range


class _Moment(NamedTuple):
    at: float
    name: str
    turn: int
    stage: int
    look: bool  # make a range, rather than count the one that was made


class Missed(NamedTuple):
    """A job outlived a range."""

    likeness: Likeness
    stage: int


class OpenRanges:
    """Jobs that run, and the moments at which to look at them again."""

    def __init__(self) -> None:
        self._jobs: dict[str, Watched] = {}
        self._moments: list[_Moment] = []

    def __contains__(self, name: str) -> bool:
        return name in self._jobs

    def add(self, name: str, watched: Watched) -> None:
        if len(self._jobs) < WATCHED_MAX:
            self._jobs[name] = watched

    def begin(self, name: str, *, now: float, age_s: float = 0.0) -> None:
        """The job runs from now on, and had run for so long before."""
        known = self._jobs.get(name)
        if known is None:
            return
        known.origin_at = now - age_s
        known.turns += 1
        for at, span in known.ranges.items():
            self._plan(name, known, at, span.high_s, look=False)
        self._look(name, known, age_s)
        for number, age in enumerate(AGES_S):
            if age > age_s:
                self._plan(name, known, number + 1, age, look=True)

    def pause(self, name: str) -> None:
        """The job does not run until it begins again."""
        if name in self._jobs:
            self._jobs[name].turns += 1

    def end(self, name: str) -> Watched | None:
        """The job is over: its ranges that are still open; None if it was not watched."""
        return self._jobs.pop(name, None)

    def next_missed(self, now: float) -> Missed | None:
        """The next range that was outlived by now, in the order of time; ranges are made on the
        way. None: there is no more."""
        while self._moments and self._moments[0].at <= now:
            moment = heappop(self._moments)
            job = self._jobs.get(moment.name)
            if job is None or job.turns != moment.turn:
                continue
            if moment.look:
                self._look(moment.name, job, AGES_S[moment.stage - 1])
            elif job.ranges.pop(moment.stage, None) is not None:
                return Missed(job.likeness, moment.stage)
        return None

    def _look(self, name: str, job: Watched, age_s: float) -> None:
        """Make the range of this stage, once."""
        if stage(age_s) in job.made:
            return
        expected = job.expect()
        if expected.known:
            low_s, high_s, coverage = expected.left(age_s)
            span = Span(age_s + low_s, age_s + high_s, coverage)
            job.ranges[stage(age_s)] = span
            job.made.add(stage(age_s))
            self._plan(name, job, stage(age_s), span.high_s, look=False)

    def _plan(self, name: str, job: Watched, number: int, age_s: float, *, look: bool) -> None:
        # A moment later, so that a job that ends at the end of its range has held it.
        at = job.origin_at + age_s * (1.0 + 1e-9)
        heappush(self._moments, _Moment(at, name, job.turns, number, look))
        if len(self._moments) > SPARE_MOMENTS + 4 * len(AGES_S) * len(self._jobs):
            self._moments = [each for each in self._moments if self._counts(each)]
            heapify(self._moments)

    def _counts(self, moment: _Moment) -> bool:
        job = self._jobs.get(moment.name)
        return job is not None and job.turns == moment.turn
