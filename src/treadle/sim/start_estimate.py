"""Estimate when a waiting job would start: simulate on from a live scheduler's state.

The simulation uses the live policy and a fork of the scheduler, and assumes no new jobs. What is
left of each job is drawn by the caller from a distribution, or is the current estimate.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from treadle.core.actions import Action, Start, Stop
from treadle.core.cluster import Device
from treadle.core.events import Event, JobFinished, JobPaused, JobStarted, JobStopped
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel
from treadle.core.scheduler import Scheduler
from treadle.sim.engine import Running, SimulatedEngine
from treadle.sim.run import Simulation

ENDLESS = 1e9  # factor on the remaining time of a job whose length is not known
LEFT_MIN_S = 0.01
OVERDUE = 0.05  # share of its work assumed to be left if a job runs past its estimate


class World(NamedTuple):
    """What a simulation assumes of the jobs that are there."""

    # Seconds that are left of jobs, with the devices they have or ask for, where that is not what
    # the scheduler believes.
    left_s: Mapping[JobId, float] = MappingProxyType({})
    endless: Collection[JobId] = ()  # jobs of unknown length, which are taken not to end
    # Facts that follow from the end of a job: others are released.
    after: Callable[[JobId], Sequence[Event]] = lambda _: ()


class LiveStateEngine(SimulatedEngine):
    """A simulated engine that starts with the jobs of a scheduler's state."""

    def __init__(
        self,
        scheduler: Scheduler,
        truth: PerformanceModel,
        *,
        now: float,
        world: World,
    ) -> None:
        super().__init__((), truth)
        self._after = world.after
        self._now = self._from_at = now
        self._found = dict(scheduler.jobs)  # as they were then
        self._left_s, self._endless = world.left_s, frozenset(world.endless)
        # A job that waits is taken over when it starts: most of ten thousand do not in the time
        # that is simulated.
        for job in self._found.values():
            if job.phase is not Phase.WAITING:
                self._take_over(job, now)
        for run in self._runs.values():
            self._go_on(run, self._found[run.spec.id], now)

    def due(self, now: float) -> list[Event]:
        events = super().due(now)
        ended = [event.job for event in events if isinstance(event, JobFinished)]
        return [*events, *(fact for job in ended for fact in self._after(job))]

    def _start(self, action: Start, now: float) -> None:
        if action.job not in self._specs:
            self._take_over(self._found[action.job], self._from_at)
        super()._start(action, now)

    def _take_over(self, job: Job, now: float) -> None:
        done = job.iterations_at(now)
        alone = self._truth.alone(job.spec, job.size or job.spec.asked)
        work = done + self._left(job, alone, now)
        spec = replace(job.spec, iterations=work, pauses=job.pauses)
        self._specs[job.id] = spec
        if job.allocation is None:
            self._stopped[job.id] = (done, job.starts)
            if job.phase is not Phase.WAITING:
                self._reports.append(JobStopped(job.id, job.action, done))
            return
        run = Running(spec, job.allocation, job.action, job.starts, done, 0.0, now, done)
        self._runs[job.id] = run
        self._occupy(job.id, run)

    def _go_on(self, run: Running, job: Job, now: float) -> None:
        """Let a job that holds devices end when it is estimated to, where and beside whom it is."""
        if job.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        if run.allocation.paused:
            self._reports.append(JobPaused(job.id, job.action, run.allocation.paused))
            return
        run.speed = self._speed(run)
        run.spec = replace(run.spec, iterations=run.done + self._left(job, run.speed, now))
        self._specs[job.id] = run.spec
        if job.phase is Phase.STARTING:
            told = JobStarted(job.id, job.action, run.done, run.speed, pauses=job.pauses)
            self._reports.append(told)
        self._expect_end(run, now)

    def _left(self, job: Job, speed: float, now: float) -> float:
        """The iterations that are left of it; speed: that by which its seconds were estimated."""
        if job.id in self._endless:
            return self._believed(job, now) * ENDLESS
        left_s = self._left_s.get(job.id)
        if left_s is None:
            return self._believed(job, now)
        return max(left_s, LEFT_MIN_S) * speed

    def _believed(self, job: Job, now: float) -> float:
        return max(job.remaining_at(now), OVERDUE * job.spec.iterations)


class _Found(Exception):  # noqa: N818  # Not an error.
    """The simulation can stop: the job has started, or the step limit is reached."""


class Effort(NamedTuple):
    """How far to look."""

    horizon_s: float
    steps_max: int
    give_up: Callable[[], bool] = lambda: False  # asked after every step


class Begin(NamedTuple):
    """How a waiting job starts in one simulation."""

    in_s: float
    after: int  # how many of the jobs that wait now start before it
    # The jobs whose ends freed the devices that it is given, and how many of these; none if another
    # job had to make way, or if it started later than the last of them ended.
    freed_by: tuple[JobId, ...] = ()
    freed: int = 0


class NotYet(NamedTuple):
    """A simulation that ended before what it was made for happened."""

    in_s: float  # how far it got: what it was made for happens later than that


def _gives(action: Action) -> bool:
    """Whether it gives devices to a job, which may wait for any or be paused on these."""
    return not isinstance(action, Stop) and not action.allocation.paused


class _Departures:
    """Which job left each device last, while a simulation goes on."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._held = {
            job.id: job.allocation.devices
            for job in scheduler.jobs.values()
            if job.allocation is not None and not job.allocation.paused
        }
        self._left: dict[Device, JobId | None] = {}  # None: the job made way and did not end
        self._just_ended: list[JobId] = []  # in the last step

    def see(self, events: Sequence[Event], actions: Sequence[Action]) -> None:
        self._just_ended = [event.job for event in events if isinstance(event, JobFinished)]
        for job in self._just_ended:
            self._leave(self._held.pop(job, ()), job)
        for action in actions:
            self._leave(self._held.pop(action.job, ()), None)
            if not isinstance(action, Stop) and _gives(action):
                self._held[action.job] = action.allocation.devices

    def before(self, job: JobId) -> list[JobId]:
        """For each device of a job that starts now and that another one freed by its end, that one.

        None if a job made way, or if the last of these ends was before now: then it waited for
        something else, such as its next try.
        """
        found = [self._left[device] for device in self._held[job] if device in self._left]
        names = [name for name in found if name is not None]
        ended = len(names) == len(found) and not {*names}.isdisjoint(self._just_ended)
        return names if ended else []

    def _leave(self, devices: Sequence[Device], job: JobId | None) -> None:
        self._left.update(dict.fromkeys(devices, job))


def starts_in(
    scheduler: Scheduler,
    truth: PerformanceModel,
    job: JobId,
    *,
    now: float,
    effort: Effort,
    world: World | None = None,
) -> Begin | NotYet:
    """When the waiting job would start, or how far the effort reached."""
    world = world or World()
    waiting = {name: place for place, (_, _, name) in enumerate(scheduler.ranking.queue)}
    before: set[JobId] = set()
    departures = _Departures(scheduler)

    def has_begun(at: float, events: Sequence[Event], actions: Sequence[Action]) -> bool:  # noqa: ARG001
        departures.see(events, actions)
        begun = {action.job for action in actions if _gives(action)}
        if job not in begun:
            before.update(begun & waiting.keys())
            return False
        # Of those that start at the same moment, the queue says which is the first.
        own = waiting.get(job, len(waiting))
        before.update(name for name in begun & waiting.keys() if waiting[name] < own)
        return True

    found = _reached_in(scheduler, truth, has_begun, now=now, effort=effort, world=world)
    if isinstance(found, NotYet):
        return found
    freed_by = departures.before(job)
    return Begin(found, len(before), tuple(sorted({*freed_by})), len(freed_by))


def all_starts_in(
    scheduler: Scheduler,
    truth: PerformanceModel,
    jobs: Collection[JobId],
    *,
    now: float,
    effort: Effort,
    world: World,
) -> dict[JobId, float | NotYet]:
    """In how many seconds each of these jobs starts, or how far the effort reached."""
    found: dict[JobId, float | NotYet] = {}
    left = set(jobs)

    def have_begun(at: float, events: Sequence[Event], actions: Sequence[Action]) -> bool:  # noqa: ARG001
        for action in actions:
            if _gives(action) and action.job in left:
                left.remove(action.job)
                found[action.job] = at - now
        return not left

    last = _reached_in(scheduler, truth, have_begun, now=now, effort=effort, world=world)
    if isinstance(last, NotYet):
        found |= dict.fromkeys(left, last)
    return found


def ends_in(
    scheduler: Scheduler,
    truth: PerformanceModel,
    jobs: Collection[JobId],
    *,
    now: float,
    effort: Effort,
    world: World,
) -> float | NotYet:
    """In how many seconds the last of these jobs has ended, or how far the effort reached."""
    left = set(jobs)

    def have_ended(at: float, events: Sequence[Event], actions: Sequence[Action]) -> bool:  # noqa: ARG001
        left.difference_update(event.job for event in events if isinstance(event, JobFinished))
        return not left

    return _reached_in(scheduler, truth, have_ended, now=now, effort=effort, world=world)


def _reached_in(
    scheduler: Scheduler,
    truth: PerformanceModel,
    reached: Callable[[float, Sequence[Event], Sequence[Action]], bool],
    *,
    now: float,
    effort: Effort,
    world: World,
) -> float | NotYet:
    """In how many seconds a step is made that the caller looks for, or how far the effort
    reached."""
    twin = scheduler.fork()
    engine = LiveStateEngine(twin, truth, now=now, world=world)
    found, last_at, steps = False, now, 0

    def watch(
        at: float,
        events: Sequence[Event],
        actions: Sequence[Action],
        scheduler: Scheduler,  # noqa: ARG001
    ) -> None:
        nonlocal found, last_at, steps
        steps += 1
        last_at = at
        found = reached(at, events, actions)
        if found or steps >= effort.steps_max or effort.give_up():
            raise _Found

    with contextlib.suppress(_Found):
        Simulation(twin, engine, observers=(watch,)).run(until=now + effort.horizon_s)
        last_at = now + effort.horizon_s  # Nothing happens before that.
    return last_at - now if found else NotYet(last_at - now)
