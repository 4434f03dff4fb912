"""A run in which jobs only arrive, hold devices of their own and end: no facts, no reports.

Where nothing disturbs a run and its policy only orders jobs, all that facts and orders would say
between the scheduler and the engine is known beforehand: an order is carried out as it is given,
at the speed of a job alone. So this loop keeps what the policy reads (rows, ranking, free devices)
and the books itself, with the outcome of `Simulation` to the last digit
(tests/properties/test_straight.py). `applies` says when.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import TypeGuard

from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.difference import difference
from treadle.core.job import JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import KEEP, Schedule
from treadle.policies.base.ordered import Filled, Ordered
from treadle.reports.bookkeeping import Bookkeeping, standing
from treadle.reports.run_history import JobHistory
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Look
from treadle.sim.spent import Spent


def applies(policy: Policy, engine: SimulatedEngine, jobs: Sequence[JobSpec]) -> TypeGuard[Ordered]:
    """Whether such a run would go the same way straight."""
    return (
        type(policy) is Ordered  # A subclass may decide anything.
        and engine.undisturbed
        and all(
            DATA_PARALLEL in job.plans
            and not (job.device_types or job.nodes or job.device_memory_gib)
            for job in jobs
        )
    )


class StraightRun:
    """The whole run, from the first arrival to the last end."""

    def __init__(
        self,
        policy: Ordered,
        spent: Spent,
        scheduler: Scheduler,
        jobs: Sequence[JobSpec],
        truth: PerformanceModel,
        books: Bookkeeping,
        look: Look,
    ) -> None:
        self._policy = policy
        self._spent = spent
        self._scheduler = scheduler
        self._rows, self._ranking = scheduler.rows, scheduler.ranking
        self._free = scheduler.tenancy.free  # No one asks who holds what is not free.
        self._jobs = jobs  # in order of submission
        self._truth = truth
        self._books = books
        self._look = look
        self._ends: list[tuple[float, int, JobHistory]] = []  # a heap: moment, number, job
        self._due: dict[JobId, int] = {}  # the number of a running job's end; others are stale
        self._number = 0

    def run(self, ended: Callable[[int], None] | None) -> float:
        """Run until no event is left; says when that was. `ended`: told how many jobs end."""
        scheduler, books, jobs, look = self._scheduler, self._books, self._jobs, self._look
        only_fills, fills_one = self._policy.only_fills, self._policy.fills_one
        ends, due, queue = self._ends, self._due, self._ranking.queue
        arrived, now = 0, 0.0
        while True:
            while ends and due.get(ends[0][2].spec.id) != ends[0][1]:
                heappop(ends)
            ends_at = ends[0][0] if ends else inf
            arrives_at = jobs[arrived].submit_at if arrived < len(jobs) else inf
            at = look(min(ends_at, arrives_at, scheduler.wake_at))
            if at == inf:
                return now
            now = at
            books.pass_time(now)
            if ends_at <= now:
                count = self._end_jobs(now)
                if ended is not None:
                    ended(count)
            while arrived < len(jobs) and jobs[arrived].submit_at <= now:
                spec = jobs[arrived]
                arrived += 1
                scheduler.submit(spec, now)
                books.wait(books.arrive(spec), spec.submit_at)
            if scheduler.is_due(now):
                scheduler.refresh(now)
                simple = only_fills or (fills_one and len(queue) == 1)
                if not queue:
                    scheduler.keep(KEEP)
                elif not (simple and self._fill(now)):
                    self._ask(now)
            free, room, head, unfit = standing(scheduler)
            books.note(now, free=free, room=room, head=head, unfit=unfit)

    def _end_jobs(self, now: float) -> int:
        """End the jobs that are due; says how many."""
        ends, due, rows, ranking = self._ends, self._due, self._rows, self._ranking
        give, end, count = self._free.give, self._books.end, 0
        while ends and ends[0][0] <= now:
            _, number, history = heappop(ends)
            identity = history.spec.id
            if due.get(identity) == number:
                del due[identity], rows[identity]
                assert history.allocation is not None, "it runs"
                give(history.allocation.devices)
                ranking.drop(identity)
                end(history, "finished", now)
                count += 1
        self._scheduler.stale = True
        return count

    def _fill(self, now: float) -> bool:
        """Decide at once where jobs start and no more; whether that was so."""
        policy, spent = self._policy, self._spent
        begun_s = spent.stopwatch()
        started: Filled = {}
        if self._free.total:
            started = policy.fill(self._ranking, self._rows, self._take)
        spent.spent_s += spent.stopwatch() - begun_s
        if not (started or policy.only_fills):
            return False
        self._start(started, now)
        self._scheduler.keep(KEEP)
        self._overtake(started)
        return True

    def _take(self, size: int) -> tuple[Device, ...] | None:
        """Devices for a job, if there is room."""
        devices = self._policy.place(self._free, size)
        if devices is not None:
            self._free.take(devices)
        return devices

    def _ask(self, now: float) -> None:
        """Decide for any other: orders are carried out as they are given."""
        rows, scheduler = self._rows, self._scheduler
        schedule = scheduler.ask(now)
        changes = schedule.changes
        held = [identity for identity in changes if rows[identity].allocation is not None]
        if any(changes[identity] is not None for identity in held):
            self._change(schedule, now)
            return
        for identity in held:
            self._stop(identity, now)
        started: Filled = {}
        for identity, allocation in changes.items():
            if allocation is not None:
                self._free.take(allocation.devices)
                started[identity] = allocation
        self._start(started, now)
        scheduler.keep(schedule)
        self._overtake(started)
        self._requeue(held, now)

    def _stop(self, identity: JobId, now: float) -> None:
        scheduler, job = self._scheduler, self._rows[identity]
        assert job.allocation is not None, "it runs"
        self._free.give(job.allocation.devices)
        self._ranking.drop(identity)
        self._rows[identity] = job.moved(Phase.WAITING, None, scheduler.next_action, now)
        scheduler.next_action += 1
        self._record_stop(identity, now)

    def _record_stop(self, identity: JobId, now: float) -> None:
        books = self._books
        history = books.histories[identity]
        del self._due[identity]
        history.preemptions += 1
        books.leave(history, now)
        books.wait(history, now)

    def _requeue(self, stopped: Iterable[JobId], now: float) -> None:
        """Jobs that stop are back in the queue at once."""
        scheduler = self._scheduler
        for identity in stopped:
            scheduler.enqueue(self._rows[identity], now)
            scheduler.wake_at = min(scheduler.wake_at, self._ranking.next_expiry_at)

    def _start(self, started: Filled, now: float) -> None:
        """Jobs that waited hold devices and run."""
        scheduler, books, rows, ranking = self._scheduler, self._books, self._rows, self._ranking
        forgotten = self._policy.only_fills
        for identity, allocation in started.items():
            history, number = books.histories[identity], scheduler.next_action
            scheduler.next_action = number + 1
            books.start(history, allocation, number, now)
            speed = self._go_on(history, now)
            if forgotten:  # It runs to its end.
                ranking.drop(identity)
                continue
            job = rows[identity].given(Phase.RUNNING, allocation, number, now, speed)
            rows[identity] = job
            ranking.put(job, now)

    def _change(self, schedule: Schedule, now: float) -> None:
        """Carry out orders that also move jobs, in a safe sequence."""
        scheduler, rows, histories = self._scheduler, self._rows, self._books.histories
        actions = self._orders(schedule.changes, now)
        scheduler.keep(schedule)
        self._record(actions, now)
        stopped = [action.job for action in actions if isinstance(action, Stop)]
        self._requeue([one for one in stopped if rows[one].allocation is None], now)
        for action in actions:
            if not isinstance(action, Stop):
                job, history = rows[action.job], histories[action.job]
                speed = self._go_on(history, now)
                rows[action.job] = job = job.started(Phase.RUNNING, history.done, speed, now)
                self._ranking.put(job, now)

    def _orders(self, changes: Mapping[JobId, Allocation | None], now: float) -> Sequence[Action]:
        """The changes in a safe sequence, noted in rows and ranking."""
        scheduler, rows, free, ranking = self._scheduler, self._rows, self._free, self._ranking
        tenants = {
            device: {0: identity}
            for identity in changes
            if (held := rows[identity].allocation) is not None
            for device in held.devices
        }
        actions = difference(rows, tenants, changes, scheduler.next_action)
        scheduler.next_action += len(actions)
        for action in actions:
            identity, job = action.job, rows[action.job]
            if isinstance(action, Start):
                job = job.given(Phase.RUNNING, action.allocation, action.id, now)
            else:
                assert job.allocation is not None, "it runs"
                free.give(job.allocation.devices)
                after = None if isinstance(action, Stop) else action.allocation
                phase = Phase.WAITING if after is None else Phase.RUNNING
                job = job.moved(phase, after, action.id, now)
            rows[identity] = job
            if job.allocation is None:
                ranking.drop(identity)
            else:
                ranking.put(job, now)
        for action in actions:
            if not isinstance(action, Stop):
                free.take(action.allocation.devices)
        return actions

    def _record(self, actions: Sequence[Action], now: float) -> None:
        books = self._books
        for action in actions:
            history = books.histories[action.job]
            if isinstance(action, Start):
                books.start(history, action.allocation, action.id, now)
            elif isinstance(action, Stop):
                self._record_stop(action.job, now)
            else:
                books.change(history, action.allocation, now)
        self._overtake([action.job for action in actions if isinstance(action, Start)])

    def _go_on(self, history: JobHistory, now: float) -> float:
        """The job, as it was ordered to start or to move, makes progress from now on."""
        spec, allocation, done = history.spec, history.allocation, history.done
        assert allocation is not None, "it was given one"
        speed = self._truth.iterations_per_s(spec, allocation, ())
        self._number = self._due[spec.id] = number = self._number + 1
        heappush(self._ends, (now + (spec.iterations - done) / speed, number, history))
        self._books.run(history, done, speed, now)
        return speed

    def _overtake(self, started: Iterable[JobId]) -> None:
        if not (self._policy.in_order and self._ranking.queue):
            self._books.overtake(started)
