"""Facts in, orders out: `step(events, now) -> actions`.

The scheduler applies facts to its state (apply.py, state.py), asks its policy for a target when a
fact may have changed the answer, and turns the target into orders. It never waits, reads no clock
and writes no log; the two loops that do (sim/run.py and control/loop/controller.py) are a few lines
each.

Reports of progress never cause a decision. A stop that was ordered and then reported does not
either, unless a decision was taken in between that could not see the job.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation, Pause
from treadle.core.apply import apply
from treadle.core.cluster import Device
from treadle.core.company import impossible
from treadle.core.device_types import may_use
from treadle.core.difference import difference
from treadle.core.errors import PolicyError
from treadle.core.events import Event
from treadle.core.job import Job, JobId
from treadle.core.ports import Policy
from treadle.core.ranking import Ranking
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.core.state import SchedulerState

_NO_JOBS: Mapping[JobId, JobId] = {}
_Leavers = dict[Device, list[tuple[JobId, Allocation]]]  # that are still on a device


class Scheduler(SchedulerState):
    """Turns facts into orders by asking a policy."""

    # -- the loop's side ------------------------------------------------------------------------

    def step(self, events: Iterable[Event], now: float) -> list[Action]:
        """Take facts in and give orders out."""
        actions = self.take(events, now)
        if self.is_due(now):
            actions += self.decide(now)
        return actions

    def take(self, events: Iterable[Event], now: float) -> list[Action]:
        """Apply facts. The orders are those that need no policy: stop what must stop."""
        apply(self, events, now)
        due = self.must_stop or self.must_shrink or self.must_pause
        return self.forced(now) if due else []

    def is_due(self, now: float) -> bool:
        """Whether the policy has not seen everything, or wanted to be asked again by now."""
        return self.stale or now >= self.wake_at

    def decide(self, now: float) -> list[Action]:
        """Ask the policy. If it fails, nothing changes and the next fact is the next occasion."""
        self.refresh(now)
        schedule = self.ask(now)
        actions: list[Action] = []
        if schedule.changes:
            actions = self.orders(schedule.changes, now, schedule.for_whom)
        self.keep(schedule)
        return actions

    def refresh(self, now: float) -> None:
        """Begin a decision: rank again the jobs whose rank has expired."""
        if self.ranking.next_expiry_at <= now:
            for identity in self.ranking.expired(now):
                self.rank(self.rows[identity], now)
        self.decisions += 1
        self.wake_at = inf
        self.stale = False

    def ask(self, now: float) -> Schedule:
        """What the policy wants; it is still to be carried out, and then kept."""
        schedule = self.policy.decide(self.snapshot(now))
        if not schedule.valid_until > now:
            raise PolicyError(
                f"the schedule made at {now:g} s is valid until {schedule.valid_until:g} s; "
                "it must hold for some time"
            )
        return schedule

    def orders(
        self,
        changes: Mapping[JobId, Allocation | None],
        now: float,
        for_whom: Mapping[JobId, JobId] = _NO_JOBS,
    ) -> list[Action]:
        """Turn what a policy wants into orders, and note them."""
        self._check_not_held(changes)
        actions = difference(self.rows, self.tenancy.tenants, changes, self.next_action)
        self._check_devices(actions)
        self._check_company(actions)
        # In the order of the actions: the order of a set differs from process to process.
        stopped = dict.fromkeys(action.job for action in actions if isinstance(action, Stop))
        if self.leaving or stopped:
            leavers = self._leavers_by_device(stopped)
            actions = [self._behind(action, leavers) for action in actions]
        if for_whom:
            actions = [_for_whom(action, for_whom) for action in actions]
        self.order(actions, now)
        return actions

    def snapshot(self, now: float) -> Snapshot:
        """What the policy may know now."""
        free, tenants = self.tenancy.free, self.tenancy.tenants
        if self.leaving:
            free = free.leaving(self._being_left())
        jobs: Mapping[JobId, Job] = self.jobs
        paused: Mapping[JobId, Job] = {}
        if self.blocked:  # A policy is not to name one, so it sees none.
            blocked = self.blocked
            jobs = {name: job for name, job in self.rows.items() if _in_sight(job, blocked)}
        if self.paused:  # To a policy, one that is paused waits.
            paused = {name: self.rows[name] for name in self.paused}
            jobs = {**jobs, **_waiting(paused.values(), jobs)}
        seen = Snapshot(now, self.cluster, jobs, free, tenants, self.ranking, self.memory, paused)
        return self._without_closed(seen) if self.closed else seen

    def why(self, identity: JobId, now: float) -> Reason:
        """Why a job waits or holds what it holds."""
        if identity in self.unfit:
            return Reason("never-fits", {"because": self.unfit[identity]})
        if identity in self.blocked:
            return Reason("held", {"reasons": self.blocked[identity]})
        return self.policy.reason(self.snapshot(now), identity)

    def in_the_way(self, identity: JobId) -> list[JobId]:
        """Jobs that were ordered off devices this job has been given, and are still on them."""
        allocation = self.rows[identity].allocation
        if allocation is None or allocation.paused:
            return []
        return self._in_the_way(identity, allocation, self._leavers_by_device(()))

    def set_policy(self, policy: Policy, now: float) -> None:
        """Decide by another policy from now on. Running jobs keep running until it stops them."""
        self.policy = policy
        self.memory = policy.take_over(self.memory)
        self.ranking = Ranking(policy.rank)
        self.unfit.clear()
        for job in self.rows.values():
            self.rank(job, now)
        self.stale = True
        self.wake_at = now

    # -- after a crash --------------------------------------------------------------------------

    def remember(self, memory: object) -> None:
        """Hand the policy what another remembered, or what was found out of it."""
        self.memory = self.policy.take_over(memory)

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
        apply(self, events, now)
        # First the orders that needed no policy, as it was then: the number of decisions before a
        # job was ordered to stop says whether its report is news. Stops that a crash kept out of
        # the record are still owed.
        shrink, must_pause = set(self.must_shrink), self.must_pause
        must_stop = {*self.must_stop, *shrink}
        changed = {*must_pause, *shrink}
        actions = list(actions)
        forced = [a for a in actions if a.job in (must_stop if isinstance(a, Stop) else changed)]
        self.order(forced, now)
        given = {action.job for action in forced}
        self.must_shrink = [identity for identity in self.must_shrink if identity not in given]
        self.must_stop = [identity for identity in self.must_stop if self.holds(identity)]
        self.must_pause = {n: how for n, how in must_pause.items() if n not in self.paused}
        if wake_at is not None:
            self.refresh(now)
            self.wake_at = wake_at
        self.order([a for a in actions if a not in forced], now)

    # -- decisions ------------------------------------------------------------------------------

    def _without_closed(self, seen: Snapshot) -> Snapshot:
        """What a policy may give away: no closed device, and no job that runs on one."""
        closed = [device for device in self.closed if self.tenancy.free.knows((device,))]
        on_them = {job for device in closed for job in seen.tenants.get(device, {}).values()}
        kept = seen.keeping([self.rows[identity] for identity in sorted(on_them)])
        return kept.withholding([device for device in closed if device not in seen.tenants])

    def _check_not_held(self, changes: Mapping[JobId, Allocation | None]) -> None:
        for identity in self.blocked.keys() & changes.keys() if self.blocked else ():
            if changes[identity] is not None and not self._computes(self.rows[identity]):
                raise PolicyError(f"job {identity} is on hold and cannot be scheduled")

    def _check_devices(self, actions: Iterable[Action]) -> None:
        knows, closed = self.tenancy.free.knows, self.closed
        for action in actions:
            if isinstance(action, Stop) or action.allocation.paused:
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
            self._check_suitable(self.jobs[action.job], action.allocation)

    def _check_suitable(self, job: Job, given: Allocation) -> None:
        if not (job.spec.device_types or job.only_on or job.spec.device_memory_gib):
            return
        there = {node.name: node for node in self.cluster.nodes}
        for name in given.nodes():
            if not may_use(job, there[name]):
                raise PolicyError(
                    f"job {job.id} was given devices of node {name} "
                    f"({there[name].device_type}), which it may not use"
                )

    def _check_company(self, actions: Sequence[Action]) -> None:
        """No exclusive job gets company, and known device memories fit where jobs share.

        So do those of jobs that are frozen there.
        """
        given = [action for action in actions if not isinstance(action, Stop)]
        shares = self.tenancy.sharing or self.paused
        if not (shares or any(a.allocation.turn or a.allocation.paused for a in given)):
            return  # Jobs share a device by different turns, or one of them is frozen there.
        newcomers_on: dict[Device, list[JobId]] = {}
        for action in given:
            for device in () if action.allocation.paused else action.allocation.devices:
                newcomers_on.setdefault(device, []).append(action.job)
        frozen = self._frozen_after(actions)
        rows, moved = self.rows, {action.job for action in actions}
        nodes = {node.name: node.device_memory_gib for node in self.cluster.nodes}
        tenants = self.tenancy.tenants
        for device, newcomers in newcomers_on.items():
            stay = [job for job in tenants.get(device, {}).values() if job not in moved]
            kept = frozen.get(device, ())
            if len(stay) + len(newcomers) + len(kept) < 2:
                continue
            names = (*stay, *newcomers, *kept)
            specs = [rows[name].spec for name in names]
            wrong = impossible(specs, nodes.get(device.node, 0.0), frozen=len(kept))
            if wrong is not None:
                raise PolicyError(
                    f"jobs {', '.join(names)} were given device {device} together: {wrong}"
                )

    def _frozen_after(self, actions: Iterable[Action]) -> dict[Device, list[JobId]]:
        """The jobs that are frozen on each device once these orders are given."""
        found: dict[Device, list[JobId]] = {}
        after = {name: self.rows[name].allocation for name in self.paused}
        for action in actions:
            paused = not isinstance(action, Stop) and action.allocation.paused
            if paused or action.job in after:
                after[action.job] = None if isinstance(action, Stop) else action.allocation
        for name, held in after.items():
            if held is not None and held.paused is Pause.FROZEN:
                for device in held.devices:
                    found.setdefault(device, []).append(name)
        return found

    def _being_left(self) -> list[Device]:
        """Devices that a job was ordered off and has not reported to have left."""
        return [
            device
            for leaving in self.leaving.values()
            for allocation in leaving.allocations
            for device in allocation.devices
        ]

    def _leavers_by_device(self, stopped: Collection[JobId]) -> _Leavers:
        """Where jobs still are that were ordered off, or are now (`stopped`)."""
        found: _Leavers = {}
        old = [(name, each) for name, left in self.leaving.items() for each in left.allocations]
        now = [(name, self.rows[name].allocation) for name in stopped]
        for name, allocation in (*old, *now):
            for device in () if allocation is None else allocation.devices:
                assert allocation is not None, "it has devices"
                found.setdefault(device, []).append((name, allocation))
        return found

    def _behind(self, action: Action, leavers: _Leavers) -> Action:
        """Add to `after` the jobs that must have left its devices before it begins."""
        if isinstance(action, Stop) or action.allocation.paused:
            return action
        leaving = self._in_the_way(action.job, action.allocation, leavers)
        late = [identity for identity in leaving if identity not in action.after]
        if not late:
            return action
        return type(action)(action.id, action.job, action.allocation, (*action.after, *late))

    def _in_the_way(self, job: JobId, allocation: Allocation, leavers: _Leavers) -> list[JobId]:
        found: dict[JobId, None] = {}
        for device in allocation.devices:
            for other, old in leavers.get(device, ()):
                if other != job and (
                    old.turn == allocation.turn or self._apart(job, other, old, device.node)
                ):
                    found[other] = None
        spec = self.rows[job].spec
        if spec.host_memory_gib or spec.host_cores:
            found |= dict.fromkeys(self._on_hosts(job, allocation, leavers))
        return list(found)

    def _on_hosts(self, job: JobId, allocation: Allocation, leavers: _Leavers) -> list[JobId]:
        """Jobs that are leaving a node of which this one asks memory or cores, as they do."""
        nodes, rows = set(allocation.nodes()), self.rows
        return [
            other
            for device, leaving in leavers.items()
            if device.node in nodes
            for other, old in leaving
            if other != job
            and other in rows
            and (rows[other].spec.host_memory_gib or rows[other].spec.host_cores)
            and rows[other].allocation in (None, old)
        ]

    def _apart(self, job: JobId, leaver: JobId, old: Allocation, node: str) -> bool:
        """Whether a job may not begin in another turn either while a leaver is still there.

        What the leaver needs of a device's memory is taken until it is gone, and is counted no
        more; and an exclusive job has no company, not even for a moment.
        """
        rows = self.rows
        now = rows[leaver].allocation if self.holds(leaver) else None
        if now is not None and now != old and not now.paused:
            return False  # It moves, perhaps behind this one: they would wait for each other.
        specs = [rows[name].spec for name in (job, leaver) if name in rows]
        limited = any(n.name == node and n.device_memory_gib for n in self.cluster.nodes)
        return limited or any(spec.exclusive for spec in specs)


def _waiting(paused: Iterable[Job], seen: Mapping[JobId, Job]) -> dict[JobId, Job]:
    """Paused jobs as policies see them; those that are blocked they do not see."""
    return {
        job.id: job.waiting_on(job.allocation)
        for job in paused
        if job.allocation is not None and job.id in seen
    }


def _in_sight(job: Job, blocked: Mapping[JobId, tuple[str, ...]]) -> bool:
    held = job.allocation
    return job.spec.id not in blocked or (held is not None and not held.paused)


def _for_whom(action: Action, for_whom: Mapping[JobId, JobId]) -> Action:
    """The order with the job for which it is given."""
    if isinstance(action, Start) or action.job not in for_whom:
        return action
    return replace(action, for_job=for_whom[action.job])


# Called after every step of a loop: the moment, the facts, the orders, and the scheduler as it then
# stands.
Observer = Callable[[float, Sequence[Event], Sequence[Action], Scheduler], None]
