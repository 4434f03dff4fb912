"""Jobs of a trace that queue on a cluster that is simulated: a part of calibration.py.

They queue under a live policy on as many devices as they would hold at `DEMAND` of their
submissions if none waited. Their lengths are hidden: the learner says what to expect, and the ends
teach it. Of each job that does not start at once it is recorded when simulations put its start: the
simulations of the queue that `submit` and `why` make (control/api/start_draws.py,
sim/start_estimate.py). Beside them stands one that knows all lengths: what is left is not theirs to
say. Policies do not know them, so jobs start when they do in any case. The ranges that follow are
made in start_ranges.py.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

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
from treadle.core.actions import Action, Start
from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobFinished, JobSubmitted
from treadle.core.job import Job, JobId, JobSpec, Profile
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.scheduler import Scheduler
from treadle.models.learning.kinds import Likeness
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.live.naming import wrapped
from treadle.policies.registry import parts, policy
from treadle.sim.engine import SimulatedEngine
from treadle.sim.hidden_lengths import LearningEngine, LengthLearner
from treadle.sim.run import Simulation
from treadle.sim.start_estimate import Begin, Effort, NotYet, World, starts_in

DEMAND = 0.7
NODE = 8  # devices
PART = 250  # jobs
LEFT_OUT = ("share", "host")  # Jobs of a trace cannot share, and say nothing of cores.


def live_policy(name: str, model: InterleavingModel) -> Policy:
    """The policy of this name as it is live; raises InvalidInputError for unknown ones."""
    worn = [part for part in parts(wrapped(name)) if part.partition("?")[0] not in LEFT_OUT]
    return policy("+".join(worn), placement("count"), model)


class QueuedJob(NamedTuple):
    """A job of a trace, as far as a queue is concerned."""

    submit_at: float
    size: int
    ran_s: float
    likeness: Likeness
    tenant: str


class Wait(NamedTuple):
    """A job that did not start at once, and when simulations put its start."""

    job: JobId
    since_at: float
    ended: int  # jobs of its tenant, by then
    answers: Sequence[float | NotYet] = ()  # none: nothing is known of a length
    known: float | NotYet | None = None  # with all lengths; None: another part has simulated it


class Started(NamedTuple):
    """The end of a wait."""

    job: JobId
    at: float


class Record(NamedTuple):
    """What happened on a cluster."""

    jobs: Mapping[JobId, QueuedJob]
    devices: int
    moments: Sequence[Wait | Started]  # in the order in which they happened

    def with_answers(self, other: "Record") -> "Record":
        """With what was simulated in another part of the record."""
        both = zip(self.moments, other.moments, strict=True)
        moments = [theirs if _is_simulated(theirs) else own for own, theirs in both]
        return self._replace(moments=moments)


def _is_simulated(moment: Wait | Started) -> bool:
    return isinstance(moment, Wait) and moment.known is not None


def parts_of(jobs: Sequence[QueuedJob]) -> int:
    """In how many parts a record is made where there are processors enough."""
    return ceil(len(jobs) / PART)


def recorded(jobs: Sequence[QueuedJob], policy: str, part: int = 0, parts: int = 1) -> Record:
    """The waits of these jobs. To replay them is quick, to simulate takes long: of each part, all
    are replayed, and every `parts`-th wait is simulated."""
    replay = _QueueReplay(jobs, policy, part, parts)
    replay.run()
    return Record(replay.jobs, replay.cluster.device_count, replay.moments)


class _QueueReplay:
    """One trace on one cluster."""

    def __init__(self, jobs: Sequence[QueuedJob], policy: str, part: int, parts: int) -> None:
        self.jobs = {str(number): job for number, job in enumerate(jobs)}
        self.cluster = _cluster(jobs)
        self.moments: list[Wait | Started] = []
        self._part, self._parts = part, parts
        self._model = ScalingModel()
        self._policy = live_policy(policy, self._model)
        self._learner = LengthLearner(self._model, reporting=False, kinds=self._kinds)
        self._ended: Counter[str] = Counter()
        self._waits = 0
        self._waiting: set[JobId] = set()

    def run(self) -> None:
        specs = [self._spec(name, job) for name, job in self.jobs.items()]
        engine = SimulatedEngine(specs, self._model, announced=self._learner.announced)
        hidden = LearningEngine(engine, self._learner)
        scheduler = Scheduler(self._policy, self.cluster)
        Simulation(scheduler, hidden, observers=(self._watch,)).run()

    def _watch(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        for event in events:
            if isinstance(event, JobFinished):
                self._ended[self.jobs[event.job].tenant] += 1
        for action in actions:
            if isinstance(action, Start) and action.job in self._waiting:
                self._waiting.remove(action.job)
                self.moments.append(Started(action.job, now))
        for event in events:
            if isinstance(event, JobSubmitted) and scheduler.jobs[event.spec.id].allocation is None:
                self._queue(event.spec.id, now, scheduler)

    def _queue(self, name: JobId, now: float, scheduler: Scheduler) -> None:
        wait = Wait(name, now, self._ended[self.jobs[name].tenant])
        if self._waits % self._parts == self._part:
            wait = wait._replace(
                answers=self._answers(name, now, scheduler),
                known=self._if_known(name, now, scheduler),
            )
        self._waits += 1
        self._waiting.add(name)
        self.moments.append(wait)

    def _answers(self, name: JobId, now: float, scheduler: Scheduler) -> Sequence[float | NotYet]:
        """The starts of all simulations."""
        lengths = self._lengths(name, now, scheduler.jobs.values())
        if lengths is None:
            return ()
        ahead = Ahead(lengths, {}, (), ())

        def ask(run: int, effort: Effort) -> float | NotYet:
            world = World(drawn(ahead, run))
            return _in_s(
                starts_in(scheduler, self._model, name, now=now, effort=effort, world=world)
            )

        return simulated(steps_of(len(scheduler.ranking.queue)), ask)

    def _if_known(self, name: JobId, now: float, scheduler: Scheduler) -> float | NotYet:
        """The start of one simulation with the true lengths of all jobs at hand."""
        left_s = {
            row.id: self.jobs[row.id].ran_s - row.iterations_at(now)
            for row in scheduler.jobs.values()
        }
        steps = steps_of(len(scheduler.ranking.queue))
        effort = Effort(HORIZON_S, steps, worked_for(SPEND_S))
        world = World(left_s)
        return _in_s(starts_in(scheduler, self._model, name, now=now, effort=effort, world=world))

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

    def _kinds(self, spec: JobSpec) -> Likeness:
        return self.jobs[spec.id].likeness

    def _spec(self, name: str, job: QueuedJob) -> JobSpec:
        return JobSpec(
            id=name,
            submit_at=job.submit_at - self.jobs["0"].submit_at,
            iterations=job.ran_s,  # Jobs of one size do one iteration a second.
            asked=job.size,
            sizes=(job.size,),
            resumable=False,
            exclusive=True,  # Nothing is known of what goes on in it, so it has no company live.
            profile=Profile(size=job.size),
        )


def _in_s(found: Begin | NotYet) -> float | NotYet:
    return found.in_s if isinstance(found, Begin) else found


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
