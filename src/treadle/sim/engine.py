"""An engine made of arithmetic: it carries orders out at once and knows when each job will end.

Time is exact. A job's end is computed when it starts and again when its speed changes, never
stepped towards; events wait in a heap by time and then by sequence number, so that a run is the
same every time. A restart that costs time shows as it would live: the job is STARTING until
JobStarted arrives.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from typing import Literal, Self

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import (
    Event,
    JobFailed,
    JobFinished,
    JobPaused,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeLost,
)
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.models.change_costs import go_on_s, pause_s
from treadle.sim.costs import Constant, RestartCost
from treadle.sim.faults import NO_FAULTS, Faults

LOST_IN_A_ROW_MAX = 1000  # times

_Due = Literal["begin", "finish", "fail", "pause"]
Ring = Sequence[tuple[JobSpec, Allocation]]


@dataclass(slots=True)
class Running:
    """One job that holds devices."""

    spec: JobSpec
    allocation: Allocation
    action: int
    starts: int  # of the job so far, from 1
    done: float  # iterations, as of from_at
    speed: float  # iterations a second; 0 while it restarts
    from_at: float
    began_with: float  # iterations that were safe when it started
    due: int = -1  # sequence number of the heap entry that counts; others are stale
    fails_at: float = inf  # moment at which a fault strikes, if it still runs then
    reason: str = ""
    ring: Ring | None = None  # who shares devices with it; None: to be gathered


class SimulatedEngine:
    """Submits the jobs of a workload and carries orders out."""

    _as_good_as_now = 1.0  # what is due by this many times now is taken to happen now

    def __init__(
        self,
        jobs: Sequence[JobSpec],
        truth: PerformanceModel,
        *,
        cost: RestartCost | None = None,
        first_start_free: bool = True,
        faults: Faults = NO_FAULTS,
        announced: Callable[[JobSpec], JobSpec] | None = None,
    ) -> None:
        """`announced`: a job as policies see it, where that differs from the truth."""
        self._truth = truth
        self._announced = announced
        self._first_start_free = first_start_free
        self._cost: RestartCost = Constant() if cost is None else cost
        self._faults = faults
        self._jobs = jobs  # in order of submission
        self._arrived = 0
        self._specs: dict[JobId, JobSpec] = {}  # of the jobs that have arrived
        self._runs: dict[JobId, Running] = {}
        self._stopped: dict[JobId, tuple[float, int]] = {}  # iterations done and starts so far
        self._leaves_at: dict[JobId, float] = {}  # when those that pause have left their devices
        self._failures: dict[JobId, int] = {}
        # Seconds to a fault and its reason, of jobs that were stopped before it struck: what
        # fails after an hour of running fails after an hour however often it is stopped.
        self._threatened: dict[JobId, tuple[float, str]] = {}
        # The jobs on each device; None until a second turn is given out, because before that no
        # device is shared.
        self._sharers: dict[Device, list[JobId]] | None = None
        self._heap: list[tuple[float, int, JobId, _Due]] = []
        self._sequence = 0
        self._reports: list[Event] = []
        self._lost_in_a_row: dict[JobId, int] = {}
        self._begun: list[tuple[Running, float]] = []  # by the orders of this moment, with costs
        self._disturbed: dict[JobId, None] = {}  # jobs whose sharers changed
        self._now = 0.0

    def fork(self) -> Self:
        """An independent twin at this moment."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._runs = {identity: replace(run) for identity, run in self._runs.items()}
        twin._specs = self._specs.copy()
        twin._stopped = self._stopped.copy()
        twin._leaves_at = self._leaves_at.copy()
        twin._failures = self._failures.copy()
        twin._threatened = self._threatened.copy()
        if self._sharers is not None:
            twin._sharers = {device: jobs.copy() for device, jobs in self._sharers.items()}
        twin._heap = self._heap.copy()
        twin._reports = self._reports.copy()
        twin._lost_in_a_row = self._lost_in_a_row.copy()
        twin._begun, twin._disturbed = [], self._disturbed.copy()
        twin._faults = self._faults.fork()
        return twin

    @property
    def undisturbed(self) -> bool:
        """Whether nothing happens to jobs but what they are ordered, and that at once: no faults,
        no restarts that take time, and policies see jobs as they are.
        """
        plain = type(self) is SimulatedEngine and self._announced is None
        return plain and self._cost == Constant() and self._faults.none

    # -- the loop's side ------------------------------------------------------------------------

    @property
    def next_at(self) -> float:
        """When something happens next, if there are no orders."""
        if self._reports:
            return self._now
        heap, runs = self._heap, self._runs
        soonest = inf
        while heap:
            at, sequence, identity, _ = heap[0]
            run = runs.get(identity)
            if run is not None and run.due == sequence:
                soonest = at
                break
            heappop(heap)
        if self._arrived < len(self._jobs):
            soonest = min(soonest, self._jobs[self._arrived].submit_at)
        # With nothing running or to come, only a node that returns can change anything.
        if soonest == inf:
            return self._faults.next_return_at
        return min(soonest, self._faults.next_at)

    def due(self, now: float) -> list[Event]:
        """Everything that has happened up to now: ends first, then nodes, then arrivals."""
        self._now = now
        events, self._reports = self._reports, []
        heap, limit = self._heap, now * self._as_good_as_now
        while heap and heap[0][0] <= limit:
            _, sequence, identity, what = heappop(heap)
            run = self._runs.get(identity)
            if run is not None and run.due == sequence:
                events.append(self._happened(run, what, now))
        if self._disturbed:
            self._respeed(now)
            events += self._reports
            self._reports = []
        if self._faults.next_at <= now:
            events += self._node_events(now)
        while self._arrived < len(self._jobs) and self._jobs[self._arrived].submit_at <= now:
            spec = self._jobs[self._arrived]
            self._arrived += 1
            self._specs[spec.id] = spec
            events.append(JobSubmitted(spec if self._announced is None else self._announced(spec)))
        return events

    def carry_out(self, actions: Sequence[Action], now: float) -> None:
        if not actions:
            return
        for action in actions:
            match action:
                case Start():
                    self._start(action, now)
                case Stop():
                    self._stop(action, now)
                case Change():
                    self._change(action, now)
        # Speeds only now: in between, jobs that come and go may crowd a device.
        self._forget_rings()
        begun, self._begun = self._begun, []
        for run, cost_s in begun:
            if self._runs.get(run.spec.id) is run:  # It may have been stopped by a later order.
                self._begin(run, now, cost_s)
        if self._disturbed:
            self._respeed(now)

    def running(self) -> dict[JobId, tuple[int, Allocation]]:
        """The jobs that hold devices: the newest order about each, and what it holds."""
        return {job: (run.action, run.allocation) for job, run in self._runs.items()}

    # -- orders ---------------------------------------------------------------------------------

    def _start(self, action: Start, now: float) -> None:
        done, starts = self._stopped.pop(action.job, (0.0, 0))
        spec = self._specs[action.job]
        run = Running(spec, action.allocation, action.id, starts + 1, done, 0.0, now, done)
        self._runs[action.job] = run
        self._occupy(action.job, run)
        self._begun.append((run, self._behind_s(action, now) + self._restart_s(run, starts)))

    def _change(self, action: Change, now: float) -> None:
        run = self._runs.get(action.job)
        if run is None:
            return  # As in _stop.
        self._settle(run, now)
        self._vacate(action.job, run)
        before, after = run.allocation, action.allocation
        run.allocation, run.action, run.speed = after, action.id, 0.0
        if after.paused:
            self._pause(run, after.paused, now)
            return
        self._occupy(action.job, run)
        goes_on = before.paused and before.as_paused(None) == after
        cost_s = go_on_s(run.spec, before.paused) if before.paused and goes_on else None
        cost_s = self._restart_s(run, run.starts) if cost_s is None else cost_s
        self._begun.append((run, self._behind_s(action, now) + cost_s))

    def _pause(self, run: Running, how: Pause, now: float) -> None:
        """It leaves its devices once its memory has. A fault strikes after time that it runs."""
        identity = run.spec.id
        if run.fails_at < inf:
            self._threatened[identity] = (run.fails_at - now, run.reason)
            run.fails_at = inf
        self._leaves_at[identity] = at = now + pause_s(run.spec, how)
        self._expect(run, at, "pause")

    def _behind_s(self, action: Start | Change, now: float) -> float:
        """Until those before it have left its devices."""
        if not self._leaves_at:
            return 0.0
        left = (self._leaves_at.get(job, now) - now for job in action.after)
        return max(0.0, *left, 0.0)

    def _stop(self, action: Stop, now: float) -> None:
        run = self._runs.get(action.job)
        if run is None:
            return  # It ended on its own in this very moment, and has said so.
        self._settle(run, now)
        self._leave(action.job)
        self._stopped[action.job] = (run.done, run.starts)
        if run.fails_at < inf:
            self._threatened[action.job] = (run.fails_at - now, run.reason)
        self._reports.append(JobStopped(action.job, action.id, run.done))

    # -- what happens ---------------------------------------------------------------------------

    def _begin(self, run: Running, now: float, cost_s: float) -> None:
        if cost_s > 0:
            self._expect(run, now + cost_s, "begin")
        else:
            self._reports.append(self._running(run, now))

    def _running(self, run: Running, now: float) -> JobStarted:
        """Let the job make progress from now on."""
        run.from_at = now
        run.speed = self._speed(run)
        if run.fails_at == inf:
            run.fails_at, run.reason = self._fault(run.spec, now)
        self._expect_end(run, now)
        return JobStarted(run.spec.id, run.action, run.done, run.speed, pauses=run.spec.pauses)

    def _happened(self, run: Running, what: _Due, now: float) -> Event:
        identity = run.spec.id
        if what == "begin":
            self._settle(run, now)
            return self._running(run, now)
        if what == "pause":
            how = run.allocation.paused
            assert how is not None, "it was ordered"
            del self._leaves_at[identity]
            return JobPaused(identity, run.action, how)
        if what == "finish":
            self._leave(identity)
            return JobFinished(identity, run.action)
        self._settle(run, now)
        self._leave(identity)
        kept = self._kept(run)
        self._count_lost(run, kept)
        self._stopped[identity] = (kept, run.starts)
        self._failures[identity] = self._failures.get(identity, 0) + 1
        return JobFailed(identity, run.action, kept, run.reason)

    def _fault(self, spec: JobSpec, now: float) -> tuple[float, str]:
        """When this attempt fails and of what; stops do not begin another attempt."""
        if spec.id in self._threatened:
            left_s, reason = self._threatened.pop(spec.id)
            return now + left_s, reason
        return self._faults.strikes(spec, self._failures.get(spec.id, 0) + 1, now)

    def _node_events(self, now: float) -> list[Event]:
        """Nodes that were lost or came back; jobs on a lost node fall back to a checkpoint."""
        happened = list(self._faults.due(now))
        lost = {event.node for event in happened if isinstance(event, NodeLost)}
        if lost:
            for run in self._runs.values():
                if not lost.isdisjoint(run.allocation.nodes()):
                    self._settle(run, now)
                    kept = self._kept(run)
                    self._count_lost(run, kept)
                    run.done, run.speed, run.due = kept, 0.0, -1
        return happened

    # -- leaves ---------------------------------------------------------------------------------

    def _expect(self, run: Running, at: float, what: _Due) -> None:
        run.due = self._sequence
        heappush(self._heap, (at, self._sequence, run.spec.id, what))
        self._sequence += 1

    def _expect_end(self, run: Running, now: float) -> None:
        ends_at = now + (run.spec.iterations - run.done) / run.speed
        if run.fails_at < ends_at:
            self._expect(run, max(run.fails_at, now), "fail")
        else:
            self._expect(run, ends_at, "finish")

    def _restart_s(self, run: Running, starts: int) -> float:
        """What it costs to begin, after so many starts."""
        free = self._first_start_free and not starts
        return 0.0 if free else self._cost.seconds(run.spec, run.allocation.size)

    def _count_lost(self, run: Running, kept: float) -> None:
        """Give up on a run in which a job starts again and again and never keeps anything."""
        identity = run.spec.id
        if kept > run.began_with:
            self._lost_in_a_row[identity] = 0
            return
        self._lost_in_a_row[identity] = lost = self._lost_in_a_row.get(identity, 0) + 1
        if lost > LOST_IN_A_ROW_MAX:
            raise InvalidInputError(
                f"job {identity} lost all its work {lost} times in a row and may never end; "
                "let faults be rarer, or checkpoints more frequent"
            )

    def _kept(self, run: Running) -> float:
        """What a job that was cut off can resume from: its last checkpoint, or where it began."""
        return max(run.began_with, self._faults.kept(run.spec, run.done))

    def _settle(self, run: Running, now: float) -> None:
        """Bring the count of iterations up to now."""
        if run.speed:
            done = run.done + run.speed * (now - run.from_at)
            run.done = min(done, run.spec.iterations)
        run.from_at = now

    def _leave(self, identity: JobId) -> None:
        self._leaves_at.pop(identity, None)
        self._vacate(identity, self._runs.pop(identity))

    def _speed(self, run: Running) -> float:
        return self._truth.iterations_per_s(run.spec, run.allocation, self._ring(run))

    def _ring(self, run: Running) -> Ring:
        if self._sharers is None:
            return ()
        if run.ring is None:
            others: dict[JobId, None] = {}
            for sharers in self._sharers_of(run):
                others.update(dict.fromkeys(sharers))
            members = [self._runs[other] for other in others]
            for member in members:
                # Jobs on the very same devices share them with the same jobs.
                if member is run or member.allocation.devices is run.allocation.devices:
                    member.ring = [
                        (other.spec, other.allocation) for other in members if other is not member
                    ]
        assert run.ring is not None, "it is on its own devices"
        return run.ring

    def _sharers_of(self, run: Running) -> Iterator[list[JobId]]:
        """Who is on its devices, without saying the same twice in a row: most rings share all."""
        assert self._sharers is not None, "asked only once jobs share devices"
        said: list[JobId] = []
        for device in run.allocation.devices:
            sharers = self._sharers.setdefault(device, [])
            if sharers != said:
                said = sharers
                yield sharers

    def _occupy(self, identity: JobId, run: Running) -> None:
        if run.allocation.paused:
            return
        if self._sharers is None:
            if not run.allocation.turn:
                return
            self._sharers = {}
            for other, earlier in self._runs.items():
                if other != identity:
                    self._occupy(other, earlier)
        for sharers in self._sharers_of(run):
            self._disturbed.update(dict.fromkeys(sharers))
        for device in run.allocation.devices:
            self._sharers.setdefault(device, []).append(identity)
        run.ring = None

    def _vacate(self, identity: JobId, run: Running) -> None:
        if self._sharers is None or run.allocation.paused:
            return
        for device in run.allocation.devices:
            self._sharers[device].remove(identity)
        for sharers in self._sharers_of(run):
            self._disturbed.update(dict.fromkeys(sharers))

    def _forget_rings(self) -> None:
        for identity in self._disturbed:
            if identity in self._runs:
                self._runs[identity].ring = None

    def _respeed(self, now: float) -> None:
        """Rings changed: their members run at another speed from now on."""
        self._forget_rings()
        disturbed, self._disturbed = self._disturbed, {}
        for identity in disturbed:
            run = self._runs.get(identity)
            if run is not None and run.speed and run.from_at < now:
                self._settle(run, now)
            if run is not None and run.speed and (speed := self._speed(run)) != run.speed:
                run.speed = speed
                self._expect_end(run, now)
                self._reports.append(JobProgressed(identity, run.action, run.done, speed))
