"""The books of a scheduler: every job that has not ended, what it holds, and how facts change that.

Facts and orders are the only ways in. Whether a fact may have changed a policy's answer is noted;
asking the policy is the scheduler's business.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from treadle.core import events as facts
from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import Event, Report
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import TRANSITIONS, Phase
from treadle.core.ports import Policy
from treadle.core.ranking import Ranking
from treadle.core.retry import Failure, RetryRule, fixed
from treadle.core.tenancy import Tenancy


class Leaving(NamedTuple):
    """Devices that were taken from a job which has not yet reported letting go."""

    allocations: tuple[Allocation, ...]
    action: int  # the order that took the newest of them
    decisions: int  # how many decisions there had been then


class Kept(NamedTuple):
    """What the books say of one job: enough to write them again."""

    job: Job
    leaving: Leaving | None = None
    held: tuple[str, ...] = ()


class Counters(NamedTuple):
    order: int  # the id of the next order
    arrival: int  # the place of the next job in the order of arrival


class Books:
    """State, changed by facts and orders alone."""

    def __init__(self, policy: Policy, cluster: Cluster, *, retry: RetryRule = fixed) -> None:
        self.policy = policy
        self.cluster = cluster
        self.retry = retry
        self.tenancy = Tenancy(cluster)
        self.ranking = Ranking(policy.rank)
        self.decisions = 0
        self.wake_at = inf  # ask the policy again then, even if nothing happens
        self._jobs: dict[JobId, Job] = {}
        self.jobs: Mapping[JobId, Job] = MappingProxyType(self._jobs)
        # Jobs the policy could not place on the empty cluster, with its sentence; they wait for
        # a node to join and are no part of the queue.
        self.unfit: dict[JobId, str] = {}
        self.held: dict[JobId, tuple[str, ...]] = {}  # why they may not start; as above
        self.closed: dict[Device, str] = {}  # devices that take no new work, and why
        self._leaving: dict[JobId, Leaving] = {}
        self._sequence = 0
        self._next_action = 0
        self._stale = False  # a fact came in that the policy has not seen
        self._lost: list[JobId] = []  # jobs to stop, whatever the policy thinks

    def take(self, events: Iterable[Event], now: float) -> list[Action]:
        """Apply facts. The orders are those that need no policy: let go of what is lost."""
        for event in events:
            self._APPLY[type(event)](self, event, now)
        return self._stop_lost(now) if self._lost else []

    # -- keeping --------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """What comes next."""
        return Counters(self._next_action, self._sequence)

    def kept(self, identity: JobId) -> Kept:
        """What must be written down of a job for `restore`."""
        held = self.held.get(identity, ())
        return Kept(self._jobs[identity], self._leaving.get(identity), held)

    def restore(
        self, kept: Iterable[Kept], closed: Mapping[Device, str], counters: Counters, now: float
    ) -> None:
        """Write empty books again after a crash; the next occasion is a decision."""
        assert not self._jobs, "only empty books can be written again"
        self.closed = dict(closed)
        self._next_action, self._sequence = counters
        for job, leaving, held in kept:
            self._jobs[job.id] = job
            if leaving is not None:
                self._leaving[job.id] = leaving._replace(decisions=-1)
            if held:
                self.held[job.id] = held
            if job.allocation is not None:
                self.tenancy.claim(job.id, job.allocation)
                if job.phase is not Phase.CANCELLING:
                    self.ranking.put(job, now)
            elif job.phase is Phase.WAITING:
                self._queue(job, now)
            if job.allocation is not None and (held or job.phase is Phase.CANCELLING):
                self._lost.append(job.id)  # The order to stop may not have been written.
        self._stale = True

    # -- orders ---------------------------------------------------------------------------------

    def _order(self, actions: Iterable[Action], now: float) -> None:
        """Write down what was ordered. Claims move first out, then in, so order is no matter."""
        actions = list(actions)
        for action in actions:
            job = self._jobs[action.job]
            self._next_action = max(self._next_action, action.id + 1)
            if job.allocation is not None:
                self.tenancy.release(job.allocation)
                before = self._leaving.get(job.id)
                earlier = () if before is None else before.allocations
                self._leaving[job.id] = Leaving(
                    (*earlier, job.allocation), action.id, self.decisions
                )
            self._ordered(job, action, now)
        for action in actions:
            if not isinstance(action, Stop):
                self.tenancy.claim(action.job, action.allocation)

    def _ordered(self, job: Job, action: Action, now: float) -> None:
        phase = TRANSITIONS[job.phase, type(action).__name__]
        if isinstance(action, Start):
            job = job.given(phase, action.allocation, action.id, now)
        else:
            job = job._replace(
                phase=phase,
                since_at=now,
                observed_at=now,
                iterations_done=job.iterations_at(now),
                iterations_per_s=0.0,
                held_s=job.held_at(now),
                service_s=job.service_at(now),
                allocation=None if isinstance(action, Stop) else action.allocation,
                action=action.id,
            )
        self._jobs[action.job] = job
        if job.allocation is None:
            self.ranking.drop(action.job)
        else:
            self.ranking.put(job, now)

    def _stop_lost(self, now: float) -> list[Action]:
        """Orders for jobs that must let go whatever the policy thinks."""
        stops: list[Action] = []
        for identity in dict.fromkeys(self._lost):
            if self._holds(identity):
                stops.append(Stop(self._next_action + len(stops), identity))
        self._lost = []
        self._order(stops, now)
        return stops

    # -- facts: what users want ------------------------------------------------------------------

    def _submitted(self, event: facts.JobSubmitted, now: float) -> None:
        spec = event.spec
        if spec.id in self._jobs:
            raise InvalidInputError(f"job {spec.id} was submitted twice; ids must differ")
        job = Job(spec, self._sequence, Phase.WAITING, now, now, observed_at=now)
        self._sequence += 1
        self._jobs[spec.id] = job
        self._queue(job, now)
        # Where nobody overtakes, whoever joins behind a job that waits changes nothing.
        queue = self.ranking.queue
        if not (self.policy.in_order and queue and queue[0][2] != spec.id):
            self._stale = True

    def _cancelled(self, event: facts.JobCancelled, now: float) -> None:
        job = self._jobs.get(event.job)
        if job is None or job.phase is Phase.CANCELLING:
            return
        phase = TRANSITIONS[job.phase, "JobCancelled"]
        if phase.ended:
            self._end(job)
        else:
            self._jobs[job.id] = job._replace(phase=phase, since_at=now)
            self.ranking.drop(job.id)
            self._lost.append(job.id)
        self._stale = True

    def _hold(self, event: facts.JobHeld, now: float) -> None:
        job = self._jobs.get(event.job)
        reasons = self.held.get(event.job, ())
        if job is None or event.reason in reasons or job.phase is Phase.CANCELLING:
            return
        self.held[job.id] = (*reasons, event.reason)
        if job.phase is Phase.WAITING:
            self._queue(job, now)
        elif job.allocation is not None:
            self._lost.append(job.id)
        self._stale = True

    def _release(self, event: facts.JobReleased, now: float) -> None:
        reasons = self.held.get(event.job, ())
        if event.reason not in reasons:
            return
        self.held[event.job] = tuple(reason for reason in reasons if reason != event.reason)
        if self.held[event.job]:
            return
        del self.held[event.job]
        job = self._jobs[event.job]
        if job.phase is Phase.WAITING:
            self._queue(job, now)
            self._stale = True

    def _updated(self, event: facts.JobUpdated, now: float) -> None:
        job = self._jobs.get(event.spec.id)
        if job is None or job.spec == event.spec:
            return
        # Its work may be counted in other units from now on; the share that is done stays.
        scale = event.spec.iterations / job.spec.iterations
        job = job.settled(now)._replace(spec=event.spec)
        job = job._replace(
            iterations_done=min(job.iterations_done * scale, event.spec.iterations),
            iterations_per_s=job.iterations_per_s * scale,
        )
        self._jobs[job.id] = job
        if job.phase is Phase.WAITING:
            self._queue(job, now)
        elif job.allocation is not None and job.phase is not Phase.CANCELLING:
            self.ranking.put(job, now)
        self._stale = True

    # -- facts: what engines report --------------------------------------------------------------

    def _started(self, event: facts.JobStarted, now: float) -> None:
        job = self._current(event)
        if job is None or event.action != job.action:
            return  # Superseded: a newer order is on its way.
        if (job.phase, "JobStarted") not in TRANSITIONS:
            return  # Late: it has let go since, or is about to.
        self._leaving.pop(event.job, None)
        if job.observed_at != now:
            job = job.settled(now)
        phase = TRANSITIONS[job.phase, "JobStarted"]
        job = job.started(phase, event.iterations_done, event.iterations_per_s, now)
        self._jobs[event.job] = job
        self.ranking.put(job, now)

    def _progressed(self, event: facts.JobProgressed, now: float) -> None:
        job = self._current(event)
        if job is None or job.phase is not Phase.RUNNING or event.action != job.action:
            return
        job = job.progressed(event.iterations_done, event.iterations_per_s, now)
        self._jobs[event.job] = job
        self.ranking.put(job, now)

    def _stopped(self, event: facts.JobStopped, now: float) -> None:
        leaving = self._leaving.get(event.job)
        if leaving is not None and event.action >= leaving.action:
            del self._leaving[event.job]
        job = self._current(event)
        if job is None or (job.phase, "JobStopped") not in TRANSITIONS:
            return
        phase = TRANSITIONS[job.phase, "JobStopped"]
        if phase.ended:
            self._end(job)
            self._stale = True
            return
        ordered = job.phase is Phase.STOPPING
        self._wait(job, event.iterations_done, now)
        if not ordered or leaving is None or leaving.decisions != self.decisions:
            self._stale = True

    def _finished(self, event: facts.JobFinished, now: float) -> None:  # noqa: ARG002
        job = self._current(event)
        if job is not None and (job.phase, "JobFinished") in TRANSITIONS:
            self._end(job)
            self._stale = True

    def _failed(self, event: facts.JobFailed, now: float) -> None:
        job = self._current(event)
        if job is None or (job.phase, "JobFailed") not in TRANSITIONS:
            return
        self._stale = True
        if job.phase is Phase.CANCELLING:
            self._end(job)
            return
        job = job._replace(failures=job.failures + 1)
        answer = self.retry(_failure(job, event.reason, now))
        job = job._replace(ready_at=now + answer.wait_s, avoid=answer.avoid)
        outcome = "JobRetried" if answer.again else "JobFailed"
        if TRANSITIONS[job.phase, outcome].ended:
            self._end(job)
        else:
            self._leaving.pop(job.id, None)
            self._wait(job, event.iterations_done, now)

    def _attempt_ended(self, event: facts.AttemptEnded, now: float) -> None:
        meaning = event.meaning
        if meaning is not None:
            self._APPLY[type(meaning)](self, meaning, now)

    # -- facts: the machine ----------------------------------------------------------------------

    def _joined(self, event: facts.NodeJoined, now: float) -> None:
        self.cluster = self.cluster.without([event.node.name]).with_node(event.node)
        self.tenancy.add(event.node)
        self._judge_anew(now)

    def _node_lost(self, event: facts.NodeLost, now: float) -> None:
        self._retire(event.node, now)
        for job in self._jobs.values():
            if job.allocation is not None and event.node in job.allocation.nodes():
                self._lost.append(job.id)

    def _drained(self, event: facts.NodeDrained, now: float) -> None:
        self._retire(event.node, now)

    def _device_closed(self, event: facts.DeviceClosed, now: float) -> None:  # noqa: ARG002
        self.closed[event.device] = event.reason
        self._stale = True

    def _device_opened(self, event: facts.DeviceOpened, now: float) -> None:  # noqa: ARG002
        if self.closed.pop(event.device, None) is not None:
            self._stale = True

    # -- leaves ---------------------------------------------------------------------------------

    def _holds(self, identity: JobId) -> bool:
        job = self._jobs.get(identity)
        return job is not None and job.allocation is not None

    def _current(self, event: Report) -> Job | None:
        """The job a report is about, unless the report is of an earlier attempt."""
        job = self._jobs.get(event.job)
        return None if job is None or event.action < job.attempt else job

    def _wait(self, job: Job, iterations_done: float, now: float) -> None:
        """Put a job that holds nothing any more back into the queue."""
        if job.allocation is not None:
            self.tenancy.release(job.allocation)
        job = job.settled(now)._replace(
            phase=Phase.WAITING,
            since_at=now,
            allocation=None,
            iterations_done=iterations_done,
            iterations_per_s=0.0,
        )
        self._jobs[job.id] = job
        self._queue(job, now)
        # Its rank may run out, and whoever runs may run out of theirs now that somebody waits.
        self.wake_at = min(self.wake_at, self.ranking.next_expiry_at)

    def _queue(self, job: Job, now: float) -> None:
        """Let a job wait for its turn, or aside if it is held or could not run here at all."""
        if job.id in self.held:
            self.ranking.drop(job.id)
            self.unfit.pop(job.id, None)
            return
        sentence = self.policy.never_fits(job.spec, self.cluster)
        if sentence is None:
            self.unfit.pop(job.id, None)
            self.ranking.put(job, now)
        else:
            self.ranking.drop(job.id)
            self.unfit[job.id] = sentence

    def _end(self, job: Job) -> None:
        if job.allocation is not None:
            self.tenancy.release(job.allocation)
        identity = job.spec.id
        del self._jobs[identity]
        self.ranking.drop(identity)
        self.unfit.pop(identity, None)
        self.held.pop(identity, None)
        self._leaving.pop(identity, None)

    def _retire(self, name: str, now: float) -> None:
        """Use a node no more."""
        self.cluster = self.cluster.without([name])
        self.tenancy.free.remove(name)
        self._judge_anew(now)

    def _judge_anew(self, now: float) -> None:
        """The cluster is another: set aside what cannot run on it, and bring back what now can.

        More nodes may be worse: six devices are three whole nodes of two, but not two of three
        where there is only one of three.
        """
        queue = [identity for _, _, identity in self.ranking.queue]
        unfit, self.unfit = self.unfit, {}
        for identity in (*queue, *unfit):
            self._queue(self._jobs[identity], now)
        self._stale = True

    _APPLY: Mapping[type, Callable[..., None]] = {
        facts.JobSubmitted: _submitted,
        facts.JobCancelled: _cancelled,
        facts.JobHeld: _hold,
        facts.JobReleased: _release,
        facts.JobUpdated: _updated,
        facts.JobStarted: _started,
        facts.JobProgressed: _progressed,
        facts.JobStopped: _stopped,
        facts.JobFinished: _finished,
        facts.JobFailed: _failed,
        facts.AttemptEnded: _attempt_ended,
        facts.NodeJoined: _joined,
        facts.NodeLost: _node_lost,
        facts.NodeDrained: _drained,
        facts.DeviceClosed: _device_closed,
        facts.DeviceOpened: _device_opened,
    }


def _failure(job: Job, reason: str, now: float) -> Failure:
    if job.allocation is None:
        return Failure(job.spec, job.failures, reason, (), now)
    devices = tuple(map(str, job.allocation.devices))
    return Failure(job.spec, job.failures, reason, job.allocation.nodes(), now, devices)
