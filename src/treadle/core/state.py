"""The state of a scheduler: every job that has not ended, what it holds, and what comes next.

Facts (apply.py) and orders are the only things that change it. It can be written down one job at a
time (`kept`), restored after a crash, and copied.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import NamedTuple, Self

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import TRANSITIONS, Phase
from treadle.core.ports import Policy
from treadle.core.ranking import Ranking
from treadle.core.retry import RetryRule, fixed
from treadle.core.snapshot import Schedule
from treadle.core.tenancy import Tenancy


class Leaving(NamedTuple):
    """Devices that were taken from a job which has not yet reported that it released them."""

    allocations: tuple[Allocation, ...]
    action: int  # the order that took the newest of them
    decisions: int  # how many decisions there had been then


class Kept(NamedTuple):
    """All that must be stored of one job to restore it."""

    job: Job
    leaving: Leaving | None = None
    blocked: tuple[str, ...] = ()


class Counters(NamedTuple):
    order: int  # the id of the next order
    arrival: int  # the position of the next job in the order of arrival


class SchedulerState:
    """What a scheduler knows. Its methods are the changes that several facts and orders share."""

    def __init__(self, policy: Policy, cluster: Cluster, *, retry: RetryRule = fixed) -> None:
        self.policy = policy  # One with the same ranks may take its place; else `set_policy`.
        self.cluster = cluster
        self.retry = retry
        self.tenancy = Tenancy(cluster)
        self.ranking = Ranking(policy.rank)
        self.rows: dict[JobId, Job] = {}
        self.jobs: Mapping[JobId, Job] = MappingProxyType(self.rows)  # the same, to be read only
        # Jobs the policy could not place on the empty cluster, with its sentence. They wait for a
        # node to join and are not in the queue.
        self.unfit: dict[JobId, str] = {}
        self.blocked: dict[JobId, tuple[str, ...]] = {}  # why they may not start; not queued either
        self.closed: dict[Device, str] = {}  # devices that take no new work, and why
        self.drained: dict[str, Node] = {}  # nodes that take no new work and may come back
        self.leaving: dict[JobId, Leaving] = {}
        self.ended: dict[JobId, Phase] = {}  # by the facts applied last, with their final phase
        self.must_stop: list[JobId] = []  # jobs to stop whatever the policy decides
        self.must_pause: dict[JobId, Pause] = {}  # the same, to be paused
        # Jobs that go on without the nodes that were lost, if they can.
        self.must_shrink: list[JobId] = []
        self.paused: dict[JobId, None] = {}  # jobs whose allocation is paused
        # Jobs that could not be paused: they have their devices still, which are booked once the
        # jobs that were to have them are stopped.
        self.unbooked: dict[JobId, None] = {}
        self.next_arrival = 0
        self.next_action = 0
        self.decisions = 0  # how often the policy was asked
        self.stale = False  # a fact came in that the policy has not seen
        self.wake_at = inf  # ask the policy again then, even if nothing happens
        self.once_running: frozenset[JobId] = frozenset()  # and when one of these runs
        self.memory: object = None  # what the policy wants handed back at its next decision

    @property
    def counters(self) -> Counters:
        return Counters(self.next_action, self.next_arrival)

    # -- keeping --------------------------------------------------------------------------------

    def kept(self, identity: JobId) -> Kept:
        """What must be stored of a job for `restore`."""
        blocked = self.blocked.get(identity, ())
        return Kept(self.rows[identity], self.leaving.get(identity), blocked)

    def restore(
        self,
        kept: Iterable[Kept],
        closed: Mapping[Device, str],
        counters: Counters,
        now: float,
        drained: Iterable[Node] = (),
    ) -> None:
        """Fill an empty state after a crash; the policy is asked at the next occasion.

        drained: nodes that are not in the cluster, on which jobs may still be.
        """
        assert not self.rows, "only an empty state can be restored"
        self.closed = dict(closed)
        for node in drained:
            self.drained[node.name] = node
            self.tenancy.free.add(node)
            self.tenancy.free.remove(node.name)
        self.next_action, self.next_arrival = counters
        for job, leaving, blocked in kept:
            self.rows[job.id] = job
            if leaving is not None:
                # No decision of this process took the devices, so their return is always news.
                self.leaving[job.id] = leaving._replace(decisions=-1)
            if blocked:
                self.blocked[job.id] = blocked
            if job.allocation is not None:
                self.tenancy.claim(job.id, job.allocation)
                if job.allocation.paused:
                    self.paused[job.id] = None
            self.rank(job, now)
            ends = blocked and job.id not in self.paused and job.pause_as is None
            held = self.holds(job.id) and ends
            if held or (job.allocation is not None and job.phase is Phase.CANCELLING):
                self.must_stop.append(job.id)  # The order to stop may not have been stored.
        self.stale = True

    def fork(self) -> Self:
        """An independent copy in the same state; it shares the policy, which is pure."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.rows = self.rows.copy()
        twin.jobs = MappingProxyType(twin.rows)
        twin.tenancy = self.tenancy.copy()
        twin.ranking = self.ranking.copy()
        twin.unfit = self.unfit.copy()
        twin.blocked = self.blocked.copy()
        twin.closed = self.closed.copy()
        twin.drained = self.drained.copy()
        twin.leaving = self.leaving.copy()
        twin.must_stop = self.must_stop.copy()
        twin.must_pause, twin.paused = self.must_pause.copy(), self.paused.copy()
        twin.must_shrink = self.must_shrink.copy()
        twin.unbooked = self.unbooked.copy()
        twin.ended = self.ended.copy()
        twin.retry = deepcopy(self.retry)  # A retry rule may remember earlier failures.
        return twin

    # -- orders ---------------------------------------------------------------------------------

    def order(self, actions: Iterable[Action], now: float) -> None:
        """Note what was ordered. All old claims go before any new one is made, so that the order
        of the actions does not matter.
        """
        actions = list(actions)
        for action in actions:
            job = self.rows[action.job]
            self.next_action = max(self.next_action, action.id + 1)
            held = job.allocation
            if held is not None:
                self._release(job.id, held)
                if not (held.paused and _goes_on(held, action)):
                    before = self.leaving.get(job.id)
                    earlier = () if before is None else before.allocations
                    self.leaving[job.id] = Leaving((*earlier, held), action.id, self.decisions)
            self._ordered(job, action, now)
        if self.unbooked:
            self._book_again(actions)
        for action in actions:
            if not isinstance(action, Stop):
                self.tenancy.claim(action.job, action.allocation)

    def _release(self, identity: JobId, held: Allocation) -> None:
        if not (self.unbooked and identity in self.unbooked):
            self.tenancy.release(held)

    def _book_again(self, actions: Iterable[Action]) -> None:
        """Book the devices of jobs that could not be paused; those given others need no more."""
        others = {action.job for action in actions}
        back, self.unbooked = self.unbooked, {}
        for identity in back:
            job = self.rows.get(identity)
            if identity not in others and job is not None and job.phase is Phase.RUNNING:
                assert job.allocation is not None, "it runs"
                self.tenancy.claim(identity, job.allocation)

    def forced(self, now: float) -> list[Action]:
        """Orders for the jobs that stop, shrink or are paused, whatever the policy decides."""
        orders: list[Action] = []
        for identity in dict.fromkeys(self.must_shrink):
            ends = identity in self.must_stop or identity in self.must_pause
            rest = None if ends else self._rest(identity)
            if rest is None:
                self.must_stop.append(identity)
            else:
                orders.append(Change(self.next_action + len(orders), identity, rest))
        for identity in dict.fromkeys(self.must_stop):
            if self.holds(identity):
                orders.append(Stop(self.next_action + len(orders), identity))
        for identity, how in self.must_pause.items():
            job = self.rows.get(identity)
            if job is not None and job.phase is Phase.RUNNING and identity not in self.must_stop:
                assert job.allocation is not None, "it runs"
                paused = job.allocation.as_paused(how)
                orders.append(Change(self.next_action + len(orders), identity, paused))
        self.must_stop, self.must_shrink, self.must_pause = [], [], {}
        self.order(orders, now)
        return orders

    def _rest(self, identity: JobId) -> Allocation | None:
        """What a job has on nodes that are there, as far as it can train on that."""
        job = self.rows[identity]
        held, there = job.allocation, self.cluster.names | self.drained.keys()
        assert held is not None, "it runs"
        left = [device for device in held.devices if device.node in there]
        size = max((size for size in job.spec.sizes if size <= len(left)), default=0)
        if not (size and held.plan.replicated and held.plan.fits(size)):
            return None
        return replace(held, devices=tuple(left[:size]))

    def _ordered(self, job: Job, action: Action, now: float) -> None:
        phase = TRANSITIONS[job.phase, type(action).__name__]
        if isinstance(action, Start):
            job = job.given(phase, action.allocation, action.id, now)
        else:
            if job.phase is Phase.PAUSED:
                self.unfit.pop(job.id, None)
                waited_s = now - job.since_at
                job = job._replace(waited_s=job.waited_s + waited_s, last_wait_s=waited_s)
            after = None if isinstance(action, Stop) else action.allocation
            job = job.moved(phase, after, action.id, now)
        self.rows[action.job] = job
        held = job.allocation
        if held is not None and held.paused:
            self.paused[job.id] = None
        elif self.paused:
            self.paused.pop(job.id, None)
        if held is None or held.paused:
            self.ranking.drop(action.job)
        else:
            self.ranking.put(job, now)

    # -- changes that several facts share --------------------------------------------------------

    def submit(self, spec: JobSpec, now: float) -> None:
        """A new job joins the queue."""
        if spec.id in self.rows:
            raise InvalidInputError(f"job {spec.id} was submitted twice; ids must differ")
        job = Job(
            spec, self.next_arrival, Phase.WAITING, now, now, observed_at=now, only_on=spec.nodes
        )
        self.next_arrival += 1
        self.rows[spec.id] = job
        self.enqueue(job, now)
        # If jobs never overtake, a job that joins behind another waiting job changes nothing.
        queue = self.ranking.queue
        if not (self.policy.in_order and queue and queue[0][2] != spec.id):
            self.stale = True

    def holds(self, identity: JobId) -> bool:
        """Whether the job has devices."""
        job = self.rows.get(identity)
        return job is not None and job.allocation is not None

    def rank(self, job: Job, now: float) -> None:
        """Rank a job anew: in the queue if it waits, among the holders if it has devices."""
        if job.phase is Phase.WAITING or job.phase is Phase.PAUSED:
            self.enqueue(job, now)
        elif self._computes(job) and job.phase is not Phase.CANCELLING:
            self.ranking.put(job, now)

    def _computes(self, job: Job) -> bool:
        return job.allocation is not None and job.id not in self.paused

    def enqueue(self, job: Job, now: float) -> None:
        """Queue a waiting job, or set it aside if it is blocked or could not run here at all."""
        if job.id in self.blocked:
            self.ranking.drop(job.id)
            self.unfit.pop(job.id, None)
            return
        if job.allocation is not None:
            job = job.waiting_on(job.allocation)
        sentence = self.policy.never_fits(job.spec, self.cluster)
        if sentence is None:
            self.unfit.pop(job.id, None)
            self.ranking.put(job, now)
        else:
            self.ranking.drop(job.id)
            self.unfit[job.id] = sentence

    def keep(self, schedule: Schedule) -> None:
        """This is carried out: keep its memory, and until when it holds."""
        self.memory, self.once_running = schedule.memory, schedule.once_running
        self.wake_at = schedule.valid_until
        if self.ranking.queue:  # If no job waits, a rank that expires changes nothing.
            self.wake_at = min(self.wake_at, self.ranking.next_expiry_at)

    def requeue(self, job: Job, iterations_done: float, now: float) -> None:
        """Put a job that lost its devices back into the queue."""
        if job.allocation is not None:
            self._release(job.id, job.allocation)
        job = job.settled(now)._replace(
            phase=Phase.WAITING,
            since_at=now,
            allocation=None,
            iterations_done=iterations_done,
            iterations_per_s=0.0,
            over_at=None,
        )
        self.rows[job.id] = job
        self.paused.pop(job.id, None)
        self.enqueue(job, now)
        # Its rank may expire, and a running job's rank matters again now that a job waits.
        self.wake_at = min(self.wake_at, self.ranking.next_expiry_at)

    def end(self, job: Job, phase: Phase) -> None:
        """Forget a job that ended, and free its devices."""
        self.ended[job.spec.id] = phase
        if job.allocation is not None:
            self._release(job.spec.id, job.allocation)
        identity = job.spec.id
        del self.rows[identity]
        self.paused.pop(identity, None)
        self.ranking.drop(identity)
        self.unfit.pop(identity, None)
        self.blocked.pop(identity, None)
        self.leaving.pop(identity, None)


def _goes_on(held: Allocation, action: Action) -> bool:
    """Whether a paused job stays where it is."""
    return not isinstance(action, Stop) and held.as_paused(action.allocation.paused) == (
        action.allocation
    )
