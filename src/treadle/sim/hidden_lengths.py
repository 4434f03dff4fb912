"""An engine whose policies do not know jobs: the learner says what to expect of them.

Jobs are announced with the work that `treadle.models.learning.knowledge` expects of jobs like them,
and every end teaches it. While a job runs, its work becomes known as it would live: jobs that
report say their steps once they run (`steps`); of silent ones (`survival`) only the age is known,
and the longer they run, the longer they are expected to run. Where speeds are learned as well, so
are the memory that jobs need and what a restart takes: both are 0 until a job like it was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from typing import Self

from treadle.core.actions import Action
from treadle.core.events import (
    Event,
    JobFinished,
    JobPaused,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobUpdated,
)
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.sighting import Sighting
from treadle.models.forecasts import Forecast
from treadle.models.learning.belief import Learned
from treadle.models.learning.kinds import Kinds, Likeness, by_spec
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.lengths.distribution import Lengths
from treadle.models.lengths.gittins import equivalent_s, gittins
from treadle.models.lengths.indexing import KnownLengths
from treadle.sim.engine import SimulatedEngine

REVIEW_SHARE = 0.7  # a silent job is looked at again when it has done so much of what was expected
REVIEW_MIN_S = 60.0
WORK_MIN = 1e-6
FRESH_SHARE = 0.02  # what is expected is asked again when so many more jobs have ended


@dataclass(slots=True)
class _Watched:
    """A job that has arrived, as far as its reports tell."""

    spec: JobSpec  # as it truly is; only its end and its reports may be used
    expected: float  # the work that policies were last told: the mean
    order: float = 0.0  # the work by which they order it until it runs; 0: the same
    action: int = -1
    done: float = 0.0
    speed: float = 0.0
    at: float = 0.0
    size: int = 0
    known: bool = False  # it has said how many steps it has

    def done_at(self, now: float) -> float:
        return self.done + self.speed * (now - self.at)


class LengthLearner:
    """What is announced of jobs, and what their reports and ends change about it."""

    def __init__(
        self, belief: PerformanceModel, *, reporting: bool, kinds: Kinds = by_spec
    ) -> None:
        # Where speeds are learned, by the same learner: its kinds also say what jobs need.
        self._speeds = belief if isinstance(belief, Learned) else None
        self.knowledge = Knowledge() if self._speeds is None else self._speeds.knowledge
        self._belief = belief
        self._reporting = reporting
        self._kinds = kinds
        self._jobs: dict[JobId, _Watched] = {}
        self._reviews: list[tuple[float, JobId, int]] = []
        self._ends, self._fresh_until = 0, 0
        # What is expected of jobs by their kinds and size, and the two numbers for policies.
        self._expected: dict[tuple[Likeness, int], Lengths] = {}
        self._numbers_s: dict[tuple[Likeness, int], tuple[float, float]] = {}

    @property
    def next_at(self) -> float:
        return self._reviews[0][0] if self._reviews else inf

    def announced(self, spec: JobSpec) -> JobSpec:
        """A job as policies see it when it is submitted."""
        self._jobs[spec.id] = _Watched(spec, self._work(spec, 0.0), self._order(spec))
        return self._as_expected(self._jobs[spec.id])

    def index(self, job: Job, now: float) -> float:
        """The Gittins index of a job: by its own steps if it said them, else by jobs like it."""
        watched = self._jobs.get(job.id)
        per_s = self._belief.alone(job.spec, job.spec.asked)
        if watched is None or watched.known or not per_s > 0:
            return KnownLengths(self._belief).index(job, now)
        return gittins(self._lengths(watched.spec), job.iterations_at(now) / per_s)

    def forecast(self, job: Job, now: float) -> Forecast:
        """What is left of a job; to be relied on once the job itself has said its steps."""
        watched = self._jobs.get(job.id)
        return Forecast(job.order_at(now), predictable=watched is None or watched.known)

    def trusting(self, job: Job, now: float) -> float:
        return job.order_at(now)

    def hear(self, events: Sequence[Event], now: float) -> list[Event]:
        """The same events, with what follows from them for the lengths of jobs."""
        heard: list[Event] = []
        ended = False
        for event in events:
            heard.append(event)
            match event:
                case JobStarted() | JobProgressed():
                    heard += self._runs(event, now)
                case JobPaused(job):
                    watched = self._jobs[job]
                    watched.done, watched.speed, watched.at = watched.done_at(now), 0.0, now
                case JobStopped(job, _, done):
                    watched = self._jobs[job]
                    watched.done, watched.speed, watched.at = done, 0.0, now
                case JobFinished(job):
                    self._ended(job)
                    ended = True
        while self._reviews and self._reviews[0][0] <= now:
            _, job, action = heappop(self._reviews)
            if job in self._jobs and self._jobs[job].action == action:
                heard += self._review(job, now)
        if ended:
            heard += self._again()
        return heard

    def _runs(self, event: JobStarted | JobProgressed, now: float) -> list[Event]:
        watched = self._jobs[event.job]
        self._sight(watched, event)
        watched.action, watched.at = event.action, now
        watched.done, watched.speed = event.iterations_done, event.iterations_per_s
        if self._reporting:
            if watched.known:
                return []
            watched.known, watched.expected = True, watched.spec.iterations
            return self._told(watched, now)
        return self._review(event.job, now)

    def _sight(self, watched: _Watched, event: JobStarted | JobProgressed) -> None:
        """What is measured of a job that begins to run: its memory, and how long that took."""
        if self._speeds is None or event.action == watched.action:
            return
        profile = watched.spec.profile
        seen = Sighting(
            device_memory_peak_gib=profile.memory_gib or None,
            restart_s=profile.restart_s if watched.action >= 0 else None,
        )
        size = watched.spec.asked
        self.knowledge.observe(self._speeds.kinds(watched.spec), Outcome(size, 0.0, seen=seen))

    def _review(self, job: JobId, now: float) -> list[Event]:
        """Expect the work of a silent job anew, by what it has done."""
        watched = self._jobs[job]
        if not watched.speed:
            return []
        done = watched.done_at(now)
        watched.expected = max(done + WORK_MIN, self._work(watched.spec, done))
        left_s = (REVIEW_SHARE * (watched.expected - done)) / watched.speed
        heappush(self._reviews, (now + max(REVIEW_MIN_S, left_s), job, watched.action))
        return self._told(watched, now)

    def _again(self) -> list[Event]:
        """Jobs that never ran, announced anew by what was learned."""
        changed: list[Event] = []
        for watched in self._jobs.values():
            if watched.action < 0:
                work, order = self._work(watched.spec, 0.0), self._order(watched.spec)
                drift = max(abs(work / watched.expected - 1.0), abs(order / watched.order - 1.0))
                if drift > 0.05:
                    watched.expected, watched.order = work, order
                    changed.append(JobUpdated(self._as_expected(watched)))
        return changed

    def _told(self, watched: _Watched, now: float) -> list[Event]:
        """The job's new length. Its work is counted as before, so the count is repeated."""
        spec = self._as_expected(watched)
        done = min(watched.done_at(now), spec.iterations)
        progressed = JobProgressed(spec.id, watched.action, done, watched.speed)
        return [JobUpdated(spec), progressed]

    def _as_expected(self, watched: _Watched) -> JobSpec:
        spec = watched.spec
        profile = spec.profile
        if self._speeds is not None and (profile.memory_gib or profile.restart_s):
            needs, likeness = self.knowledge.needs, self._speeds.kinds(spec)
            memory_gib, restart_s = needs.use(likeness).memory_gib, needs.costs(likeness).restart_s
            profile = replace(profile, memory_gib=memory_gib or 0.0, restart_s=restart_s or 0.0)
        return replace(
            spec,
            iterations=max(WORK_MIN, watched.expected),
            order_work=watched.order,
            profile=profile,
            estimate_s=0.0,
        )

    def _work(self, spec: JobSpec, done: float) -> float:
        """Iterations of the whole job, given what it has done."""
        per_s = self._belief.alone(spec, spec.asked)
        if not per_s > 0:
            return max(done, 1.0)
        if done > 0:
            return done + per_s * self._lengths(spec).given(done / per_s).mean()
        return max(WORK_MIN, per_s * self._numbers(spec)[0])

    def _order(self, spec: JobSpec) -> float:
        """The iterations of a job of known length that has the same Gittins index."""
        per_s = self._belief.alone(spec, spec.asked)
        if not per_s > 0:
            return 1.0
        return max(WORK_MIN, per_s * self._numbers(spec)[1])

    def _numbers(self, spec: JobSpec) -> tuple[float, float]:
        """The mean length of jobs like it, and the length of equal Gittins index."""
        key = (self._kinds(spec), spec.asked)
        found = self._numbers_s.get(key)
        if found is None:
            lengths = self._lengths(spec)
            found = self._numbers_s[key] = (lengths.mean(), equivalent_s(lengths))
        return found

    def _lengths(self, spec: JobSpec) -> Lengths:
        """What is expected of jobs like it, the same until some more jobs have ended."""
        key = (self._kinds(spec), spec.asked)
        found = self._expected.get(key)
        if found is None:
            found = self._expected[key] = self.knowledge.expect(*key).length
        return found

    def _ended(self, job: JobId) -> None:
        spec = self._jobs.pop(job).spec
        per_s = self._belief.alone(spec, spec.asked)
        if per_s > 0:
            outcome = Outcome(spec.asked, spec.iterations / per_s, whole=True)
            self.knowledge.observe(self._kinds(spec), outcome)
            self._ends += 1
            if self._ends >= self._fresh_until:
                self._fresh_until = self._ends + max(1, round(FRESH_SHARE * self._ends))
                self._expected.clear()
                self._numbers_s.clear()


class LearningEngine:
    """A simulated engine whose events tell policies what the learner makes of them."""

    def __init__(self, engine: SimulatedEngine, learner: LengthLearner) -> None:
        self._engine = engine
        self._learner = learner

    @property
    def next_at(self) -> float:
        soonest = self._engine.next_at
        return soonest if soonest == inf else min(soonest, self._learner.next_at)

    def due(self, now: float) -> list[Event]:
        return self._learner.hear(self._engine.due(now), now)

    def carry_out(self, actions: Sequence[Action], now: float) -> None:
        self._engine.carry_out(actions, now)

    def fork(self) -> Self:
        return type(self)(self._engine.fork(), self._learner)
