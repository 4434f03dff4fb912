"""A run in which jobs only arrive, hold devices of their own and end: no facts, no reports.

Where nothing disturbs a run and its policy only orders jobs, all that facts and orders would say
between the scheduler and the engine is known beforehand: an order is carried out as it is given,
at the speed of a job alone. So this loop changes the scheduler's state and the books itself, with
the outcome of `Simulation` to the last digit (tests/simulation/test_straight.py). `applies` says
when.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import TypeGuard

from treadle.core.actions import Start, Stop
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule
from treadle.policies.base.ordered import Ordered
from treadle.reports.bookkeeping import Bookkeeping, standing
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Look


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
        scheduler: Scheduler,
        jobs: Sequence[JobSpec],
        truth: PerformanceModel,
        books: Bookkeeping,
        look: Look,
        *,
        preemptive: bool,
    ) -> None:
        self._scheduler = scheduler
        self._jobs = jobs  # in order of submission
        self._truth = truth
        self._books = books
        self._look = look
        self._preemptive = preemptive
        self._ends: list[tuple[float, int, JobId]] = []  # a heap: moment, number, job
        self._due: dict[JobId, int] = {}  # the number of a running job's end; others are stale
        self._number = 0

    def run(self, ended: Callable[[int], None] | None) -> float:
        """Run until no event is left; says when that was. `ended`: told how many jobs end."""
        scheduler, books, jobs, look = self._scheduler, self._books, self._jobs, self._look
        arrived, now = 0, 0.0
        while True:
            arrives_at = jobs[arrived].submit_at if arrived < len(jobs) else inf
            at = look(min(self._next_end_at(), arrives_at, scheduler.wake_at))
            if at == inf:
                return now
            now = at
            books.pass_time(now)
            if self._ends and self._ends[0][0] <= now:
                self._end_jobs(now)
                if ended is not None:
                    ended(len(scheduler.ended))
            while arrived < len(jobs) and jobs[arrived].submit_at <= now:
                spec = jobs[arrived]
                arrived += 1
                scheduler.submit(spec, now)
                books.wait(books.arrive(spec), spec.submit_at)
            if scheduler.stale or now >= scheduler.wake_at:
                self._decide(now)
            free, room, head, unfit = standing(scheduler)
            books.note(now, free=free, room=room, head=head, unfit=unfit)

    def _next_end_at(self) -> float:
        ends, due = self._ends, self._due
        while ends and due.get(ends[0][2]) != ends[0][1]:
            heappop(ends)
        return ends[0][0] if ends else inf

    def _end_jobs(self, now: float) -> None:
        """End the jobs that are due."""
        scheduler, books = self._scheduler, self._books
        ends, due = self._ends, self._due
        scheduler.ended.clear()
        while ends and ends[0][0] <= now:
            _, number, identity = heappop(ends)
            if due.get(identity) == number:
                del due[identity]
                scheduler.end(scheduler.rows[identity], Phase.FINISHED)
                books.end(books.histories[identity], "finished", now)
        scheduler.stale = True

    def _decide(self, now: float) -> None:
        scheduler = self._scheduler
        schedule = scheduler.ask(now)
        changes = schedule.changes
        if not changes:
            scheduler.keep(schedule)
        elif any(map(scheduler.holds, changes)):
            self._change(schedule, now)
        else:
            self._start(schedule, now)

    def _start(self, schedule: Schedule, now: float) -> None:
        """Start jobs on free devices, as most decisions are."""
        scheduler, books = self._scheduler, self._books
        rows, histories = scheduler.rows, books.histories
        changes = schedule.changes
        for identity, allocation in changes.items():
            assert allocation is not None, "it holds nothing"
            number = scheduler.next_action
            scheduler.next_action = number + 1
            scheduler.tenancy.claim(identity, allocation)
            books.start(histories[identity], allocation, number, now)
            self._go_on(rows[identity].given(Phase.RUNNING, allocation, number, now), now)
        scheduler.keep(schedule)
        if not (scheduler.policy.in_order and scheduler.ranking.queue):
            books.overtake(changes)

    def _change(self, schedule: Schedule, now: float) -> None:
        """Carry out orders that also stop or move jobs: who stops is back in the queue at once."""
        scheduler, books = self._scheduler, self._books
        histories, rows = books.histories, scheduler.rows
        actions = scheduler.orders(schedule.changes, now)
        scheduler.keep(schedule)
        for action in actions:
            history = histories[action.job]
            if isinstance(action, Start):
                books.start(history, action.allocation, action.id, now)
            elif isinstance(action, Stop):
                del self._due[action.job]
                history.preemptions += 1
                books.leave(history, now)
                books.wait(history, now)
            else:
                books.change(history, action.allocation, now)
        books.overtake([action.job for action in actions if isinstance(action, Start)])
        scheduler.leaving.clear()
        for action in actions:
            if isinstance(action, Stop) and not scheduler.holds(action.job):
                job = rows[action.job]
                scheduler.requeue(job, job.iterations_done, now)
        for action in actions:
            if not isinstance(action, Stop):
                self._go_on(rows[action.job], now)

    def _go_on(self, job: Job, now: float) -> None:
        """The job, as it was ordered to start or to move, makes progress from now on."""
        spec, allocation, done = job.spec, job.allocation, job.iterations_done
        assert allocation is not None, "it was given one"
        identity = spec.id
        speed = self._truth.iterations_per_s(spec, allocation, ())
        self._number = self._due[identity] = number = self._number + 1
        heappush(self._ends, (now + (spec.iterations - done) / speed, number, identity))
        job = self._scheduler.rows[identity] = job.started(Phase.RUNNING, done, speed, now)
        if self._preemptive:
            self._scheduler.ranking.put(job, now)
        else:  # A job that runs does so to its end.
            self._scheduler.ranking.drop(identity)
        self._books.run(self._books.histories[identity], done, speed, now)
