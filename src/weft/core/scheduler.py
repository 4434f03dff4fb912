"""The one place where state changes: `step(events, now) -> actions`.

The scheduler applies facts, asks its policy for a target when a fact may have changed the answer,
and turns the target into orders. It never waits, reads no clock and writes no log; the two loops
that do (sim/run.py and control/controller.py) are a few lines each.

Reports of progress never cause a decision. A stop that was ordered and then reported does not
either, unless a decision was taken in between that could not see the job.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from math import inf
from types import MappingProxyType
from typing import NamedTuple, Self

from weft.core import events as facts
from weft.core.actions import Action, Start, Stop
from weft.core.allocation import Allocation
from weft.core.cluster import Cluster
from weft.core.difference import difference
from weft.core.errors import InvalidInputError, PolicyError
from weft.core.events import Event, Report
from weft.core.job import Job, JobId
from weft.core.lifecycle import TRANSITIONS, Phase
from weft.core.ports import Policy
from weft.core.ranking import Ranking
from weft.core.retry import Failure, RetryRule, fixed
from weft.core.snapshot import Reason, Snapshot
from weft.core.tenancy import Tenancy


class _Leaving(NamedTuple):
    """Devices that were taken from a job which has not yet reported letting go."""

    allocations: tuple[Allocation, ...]
    action: int  # the order that took the newest of them
    decisions: int  # how many decisions there had been then


class Scheduler:
    """All jobs that have not ended, what they hold, and the policy that decides."""

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
        self._leaving: dict[JobId, _Leaving] = {}
        self._sequence = 0
        self._next_action = 0
        self._stale = False  # a fact came in that the policy has not seen
        self._lost: list[JobId] = []  # jobs to stop because a node of theirs is gone
        self._memory: object = None  # what the policy asked to be handed back

    # -- the loop's side ------------------------------------------------------------------------

    def step(self, events: Iterable[Event], now: float) -> list[Action]:
        """Take facts in and give orders out."""
        actions = self.take(events, now)
        if self.is_due(now):
            actions += self.decide(now)
        return actions

    def take(self, events: Iterable[Event], now: float) -> list[Action]:
        """Apply facts. The orders are those that need no policy: let go of what is lost."""
        for event in events:
            self._APPLY[type(event)](self, event, now)
        return self._stop_lost(now) if self._lost else []

    def is_due(self, now: float) -> bool:
        """Whether the policy has not seen everything, or wanted to be asked again by now."""
        return self._stale or now >= self.wake_at

    def decide(self, now: float) -> list[Action]:
        """Ask the policy. If it fails, nothing changes and the next fact is the next occasion."""
        self._refresh(now)
        schedule = self.policy.decide(self.snapshot(now))
        if not schedule.valid_until > now:
            raise PolicyError(
                f"the schedule made at {now:g} s is valid until {schedule.valid_until:g} s; "
                "it must hold for some time"
            )
        actions: list[Action] = []
        if schedule.changes:
            actions = difference(
                self._jobs, self.tenancy.tenants, schedule.changes, self._next_action
            )
            self._check_devices(actions)
            if self._leaving:
                actions = [self._behind_leavers(action) for action in actions]
            self._order(actions, now)
        self._memory = schedule.memory
        self.wake_at = schedule.valid_until
        if self.ranking.queue:  # With nobody waiting, a rank that runs out changes nothing.
            self.wake_at = min(self.wake_at, self.ranking.next_expiry_at)
        return actions

    def snapshot(self, now: float) -> Snapshot:
        tenancy = self.tenancy
        return Snapshot(
            now,
            self.cluster,
            self.jobs,
            tenancy.free,
            tenancy.tenants,
            self.ranking,
            self._memory,
        )

    def why(self, identity: JobId, now: float) -> Reason:
        """Why a job waits or holds what it holds, in words."""
        if identity in self.unfit:
            return Reason("never fits", f"it can never run here: {self.unfit[identity]}")
        return self.policy.why(self.snapshot(now), identity)

    def fork(self) -> Self:
        """An independent twin that goes on from here."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._jobs = self._jobs.copy()
        twin.jobs = MappingProxyType(twin._jobs)
        twin.tenancy = self.tenancy.copy()
        twin.unfit = self.unfit.copy()
        twin._leaving = self._leaving.copy()
        twin._lost = self._lost.copy()
        twin.ranking = self.ranking.copy()
        twin.retry = deepcopy(self.retry)  # It may remember.
        return twin

    def set_policy(self, policy: Policy, now: float) -> None:
        """Decide by another policy from now on; nothing that runs is touched until it says so."""
        self.policy = policy
        self._memory = None
        self.ranking = Ranking(policy.rank)
        self.unfit.clear()
        for job in self._jobs.values():
            if job.phase is Phase.WAITING:
                self._queue(job, now)
            elif job.allocation is not None and job.phase is not Phase.CANCELLING:
                self.ranking.put(job, now)
        self._stale = True
        self.wake_at = now

    def replay(
        self,
        events: Iterable[Event],
        actions: Iterable[Action],
        now: float,
        *,
        wake_at: float | None,
    ) -> None:
        """Apply a recorded step: the facts, and the orders then given.

        `wake_at` is what the policy's answer said, or None where the policy was not asked.
        """
        for event in events:
            self._APPLY[type(event)](self, event, now)
        # First what needed no policy, as it was then: how many decisions there had been when a
        # job was told to let go says whether its report is news. Stops that a crash kept out of
        # the record are still owed.
        lost = set(self._lost)
        actions = list(actions)
        forced = [a for a in actions if isinstance(a, Stop) and a.job in lost]
        self._order(forced, now)
        self._lost = [identity for identity in self._lost if self._holds(identity)]
        if wake_at is not None:
            self._refresh(now)
            self.wake_at = wake_at
        self._order([a for a in actions if a not in forced], now)

    # -- decisions ------------------------------------------------------------------------------

    def _refresh(self, now: float) -> None:
        """Begin a decision: rank anew whatever rank has run out."""
        if self.ranking.next_expiry_at <= now:
            for identity in self.ranking.expired(now):
                self.ranking.put(self._jobs[identity], now)
        self.decisions += 1
        self.wake_at = inf
        self._stale = False

    def _check_devices(self, actions: Iterable[Action]) -> None:
        knows = self.tenancy.free.knows
        for action in actions:
            if not isinstance(action, Stop) and not knows(action.allocation.devices):
                device = next(d for d in action.allocation.devices if not knows((d,)))
                raise PolicyError(
                    f"job {action.job} was given device {device}, which is not in the cluster"
                )

    def _behind_leavers(self, action: Action) -> Action:
        """Add to `after` those who were told to let go earlier and have not reported yet."""
        if isinstance(action, Stop):
            return action
        wanted, turn = set(action.allocation.devices), action.allocation.turn
        late = [
            identity
            for identity, leaving in self._leaving.items()
            if identity not in action.after
            and identity != action.job
            and any(
                allocation.turn == turn and not wanted.isdisjoint(allocation.devices)
                for allocation in leaving.allocations
            )
        ]
        if not late:
            return action
        return type(action)(action.id, action.job, action.allocation, (*action.after, *late))

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
                self._leaving[job.id] = _Leaving(
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

    # -- facts ----------------------------------------------------------------------------------

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
        nodes = () if job.allocation is None else tuple(job.allocation.nodes())
        answer = self.retry(Failure(job.spec, job.failures, event.reason, nodes, now))
        job = job._replace(ready_at=now + answer.wait_s, avoid=answer.avoid)
        outcome = "JobRetried" if answer.again else "JobFailed"
        if TRANSITIONS[job.phase, outcome].ended:
            self._end(job)
        else:
            self._leaving.pop(job.id, None)
            self._wait(job, event.iterations_done, now)

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
        """Let a job wait for its turn, or aside if the cluster could not run it even empty."""
        sentence = self.policy.never_fits(job.spec, self.cluster)
        if sentence is None:
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
        facts.JobStarted: _started,
        facts.JobProgressed: _progressed,
        facts.JobStopped: _stopped,
        facts.JobFinished: _finished,
        facts.JobFailed: _failed,
        facts.NodeJoined: _joined,
        facts.NodeLost: _node_lost,
        facts.NodeDrained: _drained,
    }


# Told of every step of a loop after it was carried out: the moment, the facts, the orders, and the
# scheduler as it then stands.
Observer = Callable[[float, Sequence[Event], Sequence[Action], Scheduler], None]
