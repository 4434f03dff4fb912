"""Printed ranges of starts, tried on a cluster that is simulated: a part of calibration.py.

Jobs of a trace queue under a live policy on as many devices as they would hold at `DEMAND` of
their submissions if none waited. Their lengths are hidden: the learner says what to expect, and
the ends teach it. A job that does not start at once is given the range that `submit` and `why`
print: by the same simulations of the queue (control/api/start_draws.py, sim/start_estimate.py),
corrected by the same errors of earlier starts (models/learning/start_errors.py). Beside it stands
the range as if lengths were known when it is made: what is left is not theirs to say. Policies do
not know them, so jobs start when they do in any case.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import ceil
from statistics import median
from typing import NamedTuple, Protocol

from treadle.control.api.job_progress import Left
from treadle.control.api.start_draws import (
    HORIZON_S,
    SPEND_S,
    Ahead,
    drawn,
    simulated,
    steps_of,
)
from treadle.control.loop import worked_for
from treadle.control.loop.live_policy import wrapped
from treadle.core.actions import Action, Start
from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobFinished, JobSubmitted
from treadle.core.job import Job, JobId, JobSpec, Profile
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.scheduler import Scheduler
from treadle.models.learning.kinds import Kind
from treadle.models.learning.start_errors import Range, StartErrors
from treadle.models.lengths.distribution import SHORT_SHARES
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import parts, policy
from treadle.sim.engine import SimulatedEngine
from treadle.sim.hidden_lengths import LearningEngine, LengthLearner
from treadle.sim.run import Simulation
from treadle.sim.start_estimate import Begin, Effort, World, starts_in

DEMAND = 0.7
NODE = 8  # devices
LEFT_OUT = ("share", "host")  # Jobs of a trace cannot share, and say nothing of cores.


def live_policy(name: str, model: InterleavingModel) -> Policy:
    """The policy of this name as it is live; raises InvalidInputError for unknown ones."""
    worn = [part for part in parts(wrapped(name)) if part.partition("?")[0] not in LEFT_OUT]
    return policy("+".join(worn), placement("count"), model)


class Overall(Protocol):
    """All waits that are over."""

    @property
    def count(self) -> int: ...

    def add(self, seconds: float) -> None: ...

    def width_s(self, age_s: float, below: float) -> float: ...

    def by_share(self) -> Sequence[Range]: ...


class QueuedJob(NamedTuple):
    """A job of a trace, as far as a queue is concerned."""

    submit_at: float
    size: int
    ran_s: float
    kinds: tuple[Kind, ...]
    tenant: str


class Shown(NamedTuple):
    """A range that was printed for a job that waits."""

    tenant: str
    low_s: float
    high_s: float
    waited_s: float  # what became of it
    # The ranges of all waits that were over when it was printed, by the share that they span.
    overall: Sequence[Range]
    narrowest_s: float  # of the same that has 80 %, chosen as printed ranges are
    simulated_s: float  # the middle of its simulations


class _Said(NamedTuple):
    """A range that counts, of a job that still waits."""

    said: Range
    overall: Sequence[Range]
    narrowest_s: float
    simulated_s: float


class Series:
    """Ranges that are made in one way, each corrected by the errors of those before."""

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self.unsure = 0  # jobs that were given no range
        self._errors = StartErrors()
        self._open: dict[JobId, _Said] = {}

    def queue(
        self, name: JobId, moments: Sequence[float] | None, now: float, overall: Overall | None
    ) -> None:
        """A job waits; moments: its starts in all simulations, None if one of them came to none.

        overall: None if its range does not count.
        """
        if moments is None:
            self.unsure += 1
            return
        said = self._errors.range_of(moments, now=now)
        self._errors.promise(name, moments, now=now)
        if overall is not None:
            narrowest_s = min(overall.width_s(0.0, below) for below in SHORT_SHARES)
            self._open[name] = _Said(said, overall.by_share(), narrowest_s, median(moments))

    def begin(self, name: JobId, tenant: str, waited_s: float, now: float) -> None:
        self._errors.started(name, now=now)
        if name in self._open:
            said, overall, narrowest_s, simulated_s = self._open.pop(name)
            shown = Shown(tenant, *said, waited_s, overall, narrowest_s, simulated_s)
            self.shown.append(shown)


class QueueReplay:
    """One trace on one cluster."""

    def __init__(
        self, jobs: Sequence[QueuedJob], overall: Overall, *, ended_min: int, policy_name: str
    ) -> None:
        """overall: takes the waits of jobs that did not start at once. ended_min: jobs of a tenant,
        before its ranges are counted."""
        self._jobs = {str(number): job for number, job in enumerate(jobs)}
        self._cluster = _cluster(jobs)
        self.devices = self._cluster.device_count
        self.waits = 0  # jobs that did not start at once
        self.learned, self.known = Series(), Series()
        self._overall, self._ended_min = overall, ended_min
        self._model = ScalingModel()
        self._policy = live_policy(policy_name, self._model)
        self._learner = LengthLearner(self._model, reporting=False, kinds=self._kinds)
        self._ended: Counter[str] = Counter()
        self._since: dict[JobId, float] = {}  # of jobs that wait

    def run(self) -> "QueueReplay":
        specs = [self._spec(name, job) for name, job in self._jobs.items()]
        engine = SimulatedEngine(specs, self._model, announced=self._learner.announced)
        hidden = LearningEngine(engine, self._learner)
        scheduler = Scheduler(self._policy, self._cluster)
        Simulation(scheduler, hidden, observers=(self._watch,)).run()
        return self

    def _watch(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        for event in events:
            if isinstance(event, JobFinished):
                self._ended[self._jobs[event.job].tenant] += 1
        for action in actions:
            if isinstance(action, Start) and action.job in self._since:
                self._begin(action.job, now)
        for event in events:
            if isinstance(event, JobSubmitted) and scheduler.jobs[event.spec.id].allocation is None:
                self._queue(event.spec.id, now, scheduler)

    def _queue(self, name: JobId, now: float, scheduler: Scheduler) -> None:
        self.waits += 1
        self._since[name] = now
        counts = self._ended[self._jobs[name].tenant] >= self._ended_min and self._overall.count
        overall = self._overall if counts else None
        self.learned.queue(name, self._moments(name, now, scheduler), now, overall)
        self.known.queue(name, self._if_known(name, now, scheduler), now, overall)

    def _begin(self, name: JobId, now: float) -> None:
        waited_s = now - self._since.pop(name)
        self._overall.add(waited_s)
        for series in (self.learned, self.known):
            series.begin(name, self._jobs[name].tenant, waited_s, now)

    def _moments(self, name: JobId, now: float, scheduler: Scheduler) -> Sequence[float] | None:
        """The starts of all simulations; None: no range is printed."""
        lengths = self._lengths(name, now, scheduler.jobs.values())
        if lengths is None:
            return None
        ahead = Ahead(lengths, {}, (), ())

        def ask(run: int, effort: Effort) -> Begin | None:
            world = World(drawn(ahead, run))
            return starts_in(scheduler, self._model, name, now=now, effort=effort, world=world)

        steps = steps_of(len(scheduler.ranking.queue), decision_s=0.0)
        begun = simulated(steps, ask)
        found = tuple(begin.in_s for begin in begun if begin is not None)
        return found if len(found) == len(begun) else None

    def _if_known(self, name: JobId, now: float, scheduler: Scheduler) -> Sequence[float] | None:
        """The start of one simulation with the true lengths of all jobs at hand."""
        left_s = {
            row.id: self._jobs[row.id].ran_s - row.iterations_at(now)
            for row in scheduler.jobs.values()
        }
        steps = steps_of(len(scheduler.ranking.queue), decision_s=0.0)
        effort = Effort(HORIZON_S, steps, worked_for(SPEND_S))
        world = World(left_s)
        begun = starts_in(scheduler, self._model, name, now=now, effort=effort, world=world)
        return None if begun is None else (begun.in_s,)

    def _lengths(self, name: JobId, now: float, rows: Iterable[Job]) -> dict[JobId, Left] | None:
        found: dict[JobId, Left] = {}
        alike: dict[object, Left] = {}
        for row in rows:
            if row.id == name:
                continue
            asked = (self._kinds(row.spec), row.spec.asked)
            kind = row.id if row.allocation is not None else asked
            if kind not in alike:
                expected = self._learner.knowledge.expect(*asked)
                if not expected.known:
                    return None
                age_s = row.iterations_at(now)
                low_s, high_s, _ = expected.left(age_s)
                alike[kind] = Left(expected.after(age_s), low_s, high_s)
            found[row.id] = alike[kind]
        return found

    def _kinds(self, spec: JobSpec) -> tuple[Kind, ...]:
        return self._jobs[spec.id].kinds

    def _spec(self, name: str, job: QueuedJob) -> JobSpec:
        return JobSpec(
            id=name,
            submit_at=job.submit_at - self._jobs["0"].submit_at,
            iterations=job.ran_s,  # Jobs of one size do one iteration a second.
            asked=job.size,
            sizes=(job.size,),
            resumable=False,
            exclusive=True,  # Nothing is known of what goes on in it, so it has no company live.
            profile=Profile(size=job.size),
        )


def _cluster(jobs: Sequence[QueuedJob]) -> Cluster:
    ends: list[tuple[float, int]] = []
    held, demands = 0, []
    for job in jobs:
        while ends and ends[0][0] <= job.submit_at:
            held -= heappop(ends)[1]
        heappush(ends, (job.submit_at + job.ran_s, job.size))
        held += job.size
        demands.append(held)
    largest = max(job.size for job in jobs)
    devices = max(largest, sorted(demands)[int(DEMAND * (len(demands) - 1))])
    return Cluster.grid(1, devices) if devices < NODE else Cluster.grid(ceil(devices / NODE), NODE)
