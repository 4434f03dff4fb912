"""Facts in, orders out: `step(events, now) -> actions`.

The scheduler applies facts to its books (books.py), asks its policy for a target when a fact may
have changed the answer, and turns the target into orders. It never waits, reads no clock and writes
no log; the two loops that do (sim/run.py and control/loop/controller.py) are a few lines each.

Reports of progress never cause a decision. A stop that was ordered and then reported does not
either, unless a decision was taken in between that could not see the job.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from math import inf
from types import MappingProxyType
from typing import Self

from treadle.core.actions import Action, Stop
from treadle.core.allocation import Allocation
from treadle.core.books import Books
from treadle.core.cluster import Cluster
from treadle.core.difference import difference
from treadle.core.errors import PolicyError
from treadle.core.events import Event
from treadle.core.job import JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import Policy
from treadle.core.ranking import Ranking
from treadle.core.retry import RetryRule, fixed
from treadle.core.snapshot import Reason, Snapshot


class Scheduler(Books):
    """All jobs that have not ended, what they hold, and the policy that decides."""

    def __init__(self, policy: Policy, cluster: Cluster, *, retry: RetryRule = fixed) -> None:
        super().__init__(policy, cluster, retry=retry)
        self._memory: object = None  # what the policy asked to be handed back

    # -- the loop's side ------------------------------------------------------------------------

    def step(self, events: Iterable[Event], now: float) -> list[Action]:
        """Take facts in and give orders out."""
        actions = self.take(events, now)
        if self.is_due(now):
            actions += self.decide(now)
        return actions

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
        free, tenants = tenancy.free, tenancy.tenants
        seen = Snapshot(now, self.cluster, self.jobs, free, tenants, self.ranking, self._memory)
        return self._without_closed(seen) if self.closed else seen

    def why(self, identity: JobId, now: float) -> Reason:
        """Why a job waits or holds what it holds, in words."""
        if identity in self.unfit:
            return Reason("never fits", f"it can never run here: {self.unfit[identity]}")
        if identity in self.held:
            return Reason("held", f"it is held: {', '.join(self.held[identity])}")
        return self.policy.why(self.snapshot(now), identity)

    def in_the_way(self, identity: JobId) -> list[JobId]:
        """Who was told to let go of devices that this job has been given, and has not yet."""
        allocation = self._jobs[identity].allocation
        if allocation is None:
            return []
        return self._leavers(identity, allocation)

    def fork(self) -> Self:
        """An independent twin that goes on from here."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._jobs = self._jobs.copy()
        twin.jobs = MappingProxyType(twin._jobs)
        twin.tenancy = self.tenancy.copy()
        twin.unfit = self.unfit.copy()
        twin.held = self.held.copy()
        twin.closed = self.closed.copy()
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

    def _without_closed(self, seen: Snapshot) -> Snapshot:
        """What a policy may dispose of: closed devices are nobody's, and who is there stays."""
        closed = [device for device in self.closed if self.tenancy.free.knows((device,))]
        held = {job for device in closed for job in seen.tenants.get(device, {}).values()}
        kept = seen.keeping([self._jobs[identity] for identity in sorted(held)])
        return kept.withholding([device for device in closed if device not in seen.tenants])

    def _check_devices(self, actions: Iterable[Action]) -> None:
        knows, closed = self.tenancy.free.knows, self.closed
        for action in actions:
            if isinstance(action, Stop):
                continue
            devices = action.allocation.devices
            if not knows(devices):
                device = next(d for d in devices if not knows((d,)))
                raise PolicyError(
                    f"job {action.job} was given device {device}, which is not in the cluster"
                )
            if closed and any(device in closed for device in devices):
                device = next(d for d in devices if d in closed)
                raise PolicyError(f"job {action.job} was given device {device}, which is closed")

    def _behind_leavers(self, action: Action) -> Action:
        """Add to `after` those who were told to let go earlier and have not reported yet."""
        if isinstance(action, Stop):
            return action
        leavers = self._leavers(action.job, action.allocation)
        late = [identity for identity in leavers if identity not in action.after]
        if not late:
            return action
        return type(action)(action.id, action.job, action.allocation, (*action.after, *late))

    def _leavers(self, job: JobId, allocation: Allocation) -> list[JobId]:
        """Others who hold on to a place of this allocation."""
        wanted, turn = set(allocation.devices), allocation.turn
        return [
            identity
            for identity, leaving in self._leaving.items()
            if identity != job
            and any(
                old.turn == turn and not wanted.isdisjoint(old.devices)
                for old in leaving.allocations
            )
        ]


# Told of every step of a loop after it was carried out: the moment, the facts, the orders, and the
# scheduler as it then stands.
Observer = Callable[[float, Sequence[Event], Sequence[Action], Scheduler], None]
