"""What is seen of running attempts from outside: their history, and a Sighting when they end.

It is fed by the engine's measurements, by progress and by orders. A Sighting is put into the
AttemptEnded and journaled, so that a replay learns the same without measuring again.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from treadle.control.learning.load_history import History, SoFar, Spell, Tally
from treadle.core.job import Job, JobId
from treadle.core.launch import AttemptId
from treadle.core.machine import Measurement
from treadle.core.sighting import Company, Load, Sighting

GAP_MAX_S = 30.0  # a longer pause between measurements was not watched
COMPANY_MAX = 32  # spells of one attempt that are kept apart
RELATIVE_S = 4.0  # a speed while sharing is measured over at least this long
RECENT_S = 20.0  # sharing is judged by the speed over these last seconds
HANG_S = 600.0  # without a step while sharing: it hangs
PATIENCE = 3.0  # times the longest time between two of its steps
REST = 0.02  # a busy share so close to 0 counts as 0
SILENT_S = 20.0  # a job that says no step has begun to work by then, if its device works
LATELY_S = 15.0  # a job that left so recently may still be to blame


class _Mean:
    """The mean load over time."""

    def __init__(self) -> None:
        self._sums = [0.0] * len(Load._fields)
        self._seconds = [0.0] * len(Load._fields)

    def add(self, load: Load, passed_s: float) -> None:
        for place, value in enumerate(load):
            if value is not None:
                self._sums[place] += value * passed_s
                self._seconds[place] += passed_s

    def stored(self) -> dict[str, Tally]:
        figures = zip(Load._fields, self._sums, self._seconds, strict=True)
        return {name: Tally(total, seconds) for name, total, seconds in figures if seconds > 0}

    @classmethod
    def restored(cls, tallies: Mapping[str, Tally]) -> "_Mean":
        mean = cls()
        for place, name in enumerate(Load._fields):
            if name in tallies:
                mean._sums[place] = tallies[name].total
                mean._seconds[place] = tallies[name].seconds
        return mean

    def load(self) -> Load:
        pairs = zip(self._sums, self._seconds, strict=True)
        return Load(*(round(total / s, 4) if s > 0 else None for total, s in pairs))


@dataclass(slots=True)
class _Spell:
    """Seconds with the same jobs, and steps done in them."""

    seconds: float = 0.0
    steps: float = 0.0
    mps: bool = False
    pieces: deque[tuple[float, float]] = field(default_factory=deque)  # of them, the newest

    def add(self, seconds: float, steps: float, keep_s: float) -> None:
        """keep_s: so much of it is remembered piece by piece."""
        self.seconds += seconds
        self.steps += steps
        self.pieces.append((seconds, steps))
        kept_s = sum(piece for piece, _ in self.pieces)
        while kept_s - self.pieces[0][0] >= keep_s:
            kept_s -= self.pieces.popleft()[0]

    def per_s(self) -> float | None:
        return _per_s(self.seconds, self.steps)

    def lately_per_s(self) -> float | None:
        """The speed over the last seconds; None if it is not known."""
        return _per_s(sum(s for s, _ in self.pieces), sum(steps for _, steps in self.pieces))


@dataclass(slots=True)
class _Watch:
    """One attempt that runs."""

    history: History = field(default_factory=History)
    alone: _Mean = field(default_factory=_Mean)
    shared: _Mean = field(default_factory=_Mean)
    spells: dict[tuple[JobId, ...], _Spell] = field(default_factory=dict)  # () is alone
    device_memory_peak_gib: float | None = None
    memory_peak_gib: float | None = None
    energy_j: float | None = None
    energy_before_j: float = 0.0  # an engine counts from when it began to watch
    busy: tuple[float, int] = (0.0, 0)  # sum and count of what was measured
    busy_now: float | None = None  # as it was measured last
    at: float | None = None  # of the last measurement
    step: float | None = None  # at that moment
    steps_at: float | None = None  # when its step last grew
    longest_s: float = 0.0  # between two steps
    began_at: float | None = None  # of the first measurement
    trains: bool = False  # it has begun its work
    starting: _Mean = field(default_factory=_Mean)  # before that
    stuck_from: float | None = None  # since when it shares devices that rest
    # Of a job that was never alone, as those beside it tell: its busy share, steps a second alone.
    busy_beside: float | None = None
    alone_per_s: float | None = None


@dataclass(slots=True)
class _Restart:
    """Moments of a job, by the run's clock."""

    stop_ordered_at: float | None = None
    stop_s: float | None = None  # from the order until it had ended
    launch_ordered_at: float | None = None
    began_at: float | None = None
    first_step_at: float | None = None
    stall_s: float | None = None  # of the last change without a restart


class Sightings:
    """All attempts that run."""

    def __init__(self) -> None:
        self._watches: dict[AttemptId, _Watch] = {}
        self._restarts: dict[JobId, _Restart] = {}
        self._over: list[tuple[AttemptId, History]] = []
        self._company: dict[JobId, dict[JobId, float]] = {}  # with whom, and when last

    # -- what happens ---------------------------------------------------------------------------

    def see(
        self,
        measurements: Iterable[Measurement],
        company: Mapping[JobId, tuple[JobId, ...]],
        steps: Mapping[JobId, float],
        *,
        now: float,
        wall_at: float,
    ) -> None:
        """company: the other jobs on the devices of each job. steps: how far jobs are."""
        seen = list(measurements)
        for measured in seen:
            watch = self._watches.setdefault(measured.attempt, _Watch())
            watch.trains = watch.trains or _trains(watch, measured, steps.get(measured.job))
        for measured in seen:
            others = company.get(measured.job, ())
            self.meet(measured.job, others, now)
            watch = self._watches[measured.attempt]
            at_work = tuple(other for other in others if self.at_work(other))
            _add(watch, measured, others, at_work, steps.get(measured.job), wall_at)

    def at_work(self, job: JobId) -> bool:
        """Whether it slows those beside it: it trains, or has run for so long that it may.

        One that loads its libraries leaves the others as fast as they were.
        """
        watch = self._watch_of(job)
        if watch is None or watch.at is None or watch.began_at is None:
            return False
        return watch.trains or watch.at - watch.began_at >= SILENT_S

    def restore(self, attempt: AttemptId, history: History, so_far: SoFar | None = None) -> None:
        """Go on with what an earlier controller saw of an attempt that still runs."""
        watch = self._watches.setdefault(attempt, _Watch())
        watch.history = history
        if so_far is not None:
            _restore(watch, so_far)

    def so_far(self, attempt: AttemptId) -> SoFar | None:
        """What the next controller needs to go on."""
        watch = self._watches.get(attempt)
        return None if watch is None else _stored(watch)

    def meet(self, job: JobId, others: Iterable[JobId], now: float) -> None:
        """These jobs are on its devices now."""
        for other in others:
            self._company.setdefault(job, {})[other] = now

    def had_company(self, job: JobId, now: Iterable[JobId]) -> bool:
        """Whether jobs were on its devices at any time, or are now."""
        return bool(tuple(now)) or bool(self._company.get(job))

    def lately(self, job: JobId, now: float) -> tuple[JobId, ...]:
        """The jobs that were on its devices within the last seconds."""
        met = self._company.get(job, {})
        return tuple(sorted(other for other, at in met.items() if now - at <= LATELY_S))

    def paused(self, job: JobId) -> None:
        """It computes nothing for a while, and does not hang."""
        if (watch := self._watch_of(job)) is not None:
            watch.stuck_from = watch.steps_at = None

    def goes_on(self, job: JobId, away_s: float, now: float) -> None:
        """It computes again: the time that it was away is no time of it, alone or with others."""
        watch = self._watch_of(job)
        if watch is not None and watch.at is not None and watch.began_at is not None:
            watch.at, watch.began_at = now, watch.began_at + away_s
        if (start := self._restarts.get(job)) is not None and start.first_step_at is None:
            launched, began = start.launch_ordered_at, start.began_at
            start.launch_ordered_at = None if launched is None else launched + away_s
            start.began_at = None if began is None else began + away_s

    def hung(self, now: float) -> list[JobId]:
        """Jobs that have stopped making steps while they share, each once.

        A hang is HANG_S without a step, and several times as long as any of its steps took, while
        it shares devices that are idle all that time.
        """
        found = []
        for attempt, watch in self._watches.items():
            if watch.stuck_from is None or watch.steps_at is None:
                continue
            patience_s = max(HANG_S, PATIENCE * watch.longest_s)
            if now - max(watch.stuck_from, watch.steps_at) >= patience_s:
                watch.steps_at = None
                found.append(attempt.job)
        return found

    def ordered(self, job: JobId, now: float, *, stops: bool, launches: bool) -> None:
        """An order about the job was given: it stops an attempt, launches one, or both."""
        restart = self._restarts.setdefault(job, _Restart())
        if stops:
            restart.stop_ordered_at, restart.stop_s = now, None
        if launches:
            restart.launch_ordered_at, restart.first_step_at = now, None

    def began(self, job: JobId, now: float) -> None:
        """An attempt runs."""
        restart = self._restarts.setdefault(job, _Restart())
        restart.began_at, restart.first_step_at = now, None

    def progressed(self, job: JobId, now: float) -> None:
        """The job said something of its progress."""
        restart = self._restarts.get(job)
        if restart is not None and restart.first_step_at is None and restart.began_at is not None:
            restart.first_step_at = now

    def changed(self, job: JobId, stall_s: float) -> None:
        """It was changed without a restart, and stood still for so long."""
        self._restarts.setdefault(job, _Restart()).stall_s = stall_s

    # -- what is asked --------------------------------------------------------------------------

    def history(self, attempt: AttemptId) -> History | None:
        watch = self._watches.get(attempt)
        return None if watch is None else watch.history

    def first_step_s(self, job: JobId) -> float | None:
        """From the launch of its present attempt to the first that it said of a step.

        A job that reports says it at once; what others print is looked at every few seconds.
        """
        restart = self._restarts.get(job, _Restart())
        if restart.first_step_at is None or restart.began_at is None:
            return None
        return restart.first_step_at - restart.began_at

    def busy(self, attempt: AttemptId) -> float | None:
        """How busy its devices were on average; shared devices count by half, and so on."""
        watch = self._watches.get(attempt)
        total, count = (0.0, 0) if watch is None else watch.busy
        return total / count if count else None

    def busy_now(self) -> dict[JobId, float]:
        """How busy the devices of each job were when they were last measured."""
        found = ((attempt.job, watch.busy_now) for attempt, watch in self._watches.items())
        return {job: busy for job, busy in found if busy is not None}

    def sighting(self, attempt: AttemptId) -> Sighting | None:
        """All that was seen of it; None if nothing was measured."""
        watch = self._watches.get(attempt)
        if watch is None or watch.at is None:
            return None
        restart = self._restarts.get(attempt.job, _Restart())
        alone = watch.spells.get((), _Spell())
        with_others = {jobs: spell for jobs, spell in watch.spells.items() if jobs}
        restart_s = None
        first_at, launched_at = restart.first_step_at, restart.launch_ordered_at
        if restart.stop_s is not None and first_at is not None and launched_at is not None:
            # Without the time in the queue between the two.
            restart_s = restart.stop_s + first_at - launched_at
        return Sighting(
            alone_s=round(alone.seconds, 1),
            shared_s=round(sum(spell.seconds for spell in with_others.values()), 1),
            load=_load(watch, alone),
            device_memory_peak_gib=watch.device_memory_peak_gib,
            memory_peak_gib=watch.memory_peak_gib,
            energy_j=watch.energy_j,
            first_step_s=self.first_step_s(attempt.job),
            restart_s=restart_s,
            resize_s=restart.stall_s,
            company=tuple(
                Company(jobs, round(spell.seconds, 1), spell.mps, _relative(spell, alone))
                for jobs, spell in with_others.items()
            ),
            step_s=None if (per_s := alone.per_s()) is None else round(1.0 / per_s, 6),
            busy_beside=watch.busy_beside,
        )

    def tried(self, job: JobId, others: Sequence[JobId]) -> bool:
        """Whether it has worked beside these for as long as speeds need."""
        watch = self._watch_of(job)
        spell = None if watch is None else watch.spells.get(tuple(others))
        return spell is not None and spell.seconds >= RELATIVE_S

    def beside(self, job: JobId, others: Sequence[JobId], busy: float, kept: float) -> None:
        """What those beside a job keep says that it is so busy alone, and keeps so much itself."""
        watch = self._watch_of(job)
        spell = None if watch is None else watch.spells.get(tuple(others))
        if watch is not None and spell is not None and watch.busy_beside is None:
            now_per_s = spell.lately_per_s()
            watch.busy_beside = busy
            watch.alone_per_s = None if now_per_s is None else now_per_s / kept

    def kept(self, job: JobId, others: Sequence[JobId], alone_per_s: float | None) -> float | None:
        """The share of its speed alone that a running job keeps with these jobs now.

        alone_per_s: its steps a second alone, as its kind shows them; its own come first.
        """
        watch = self._watch_of(job)
        spell = None if watch is None else watch.spells.get(tuple(others))
        if watch is None or spell is None or (now_per_s := spell.lately_per_s()) is None:
            return None
        own = watch.spells.get((), _Spell()).per_s() or alone_per_s or watch.alone_per_s
        return None if own is None else now_per_s / own

    def _watch_of(self, job: JobId) -> _Watch | None:
        """The newest attempt at it that is watched."""
        found = [attempt for attempt in self._watches if attempt.job == job]
        return self._watches[max(found, key=lambda one: one.number)] if found else None

    def running(self) -> list[tuple[AttemptId, History]]:
        """The histories of attempts that have not ended."""
        return [(attempt, watch.history) for attempt, watch in self._watches.items()]

    def over(self) -> list[tuple[AttemptId, History]]:
        """The histories of attempts that have ended since the last call, each once."""
        found, self._over = self._over, []
        return found

    def ended(self, attempt: AttemptId, now: float) -> None:
        """The attempt is over."""
        watch = self._watches.pop(attempt, None)
        if watch is not None and watch.at is not None:
            self._over.append((attempt, watch.history))
        restart = self._restarts.get(attempt.job)
        if restart is not None:
            if restart.stop_ordered_at is not None and restart.stop_s is None:
                restart.stop_s = max(0.0, now - restart.stop_ordered_at)
            elif restart.stop_ordered_at is None:
                restart.stop_s = None
            restart.stop_ordered_at = None

    def forget(self, jobs: Iterable[JobId]) -> None:
        """These jobs have ended."""
        for job in jobs:
            self._restarts.pop(job, None)
            self._company.pop(job, None)


def company_of(jobs: Iterable[Job]) -> dict[JobId, tuple[JobId, ...]]:
    """The other jobs on the devices of each job that shares them."""
    holding = [(job.id, job.allocation.devices) for job in jobs if job.allocation and job.size]
    by_device: dict[object, list[JobId]] = {}
    for identity, devices in holding:
        for device in devices:
            by_device.setdefault(device, []).append(identity)
    crowded = {device for device, ids in by_device.items() if len(ids) > 1}
    found = {}
    for identity, devices in holding if crowded else ():
        met = {other for device in devices if device in crowded for other in by_device[device]}
        if others := met - {identity}:
            found[identity] = tuple(sorted(others))
    return found


def _add(
    watch: _Watch,
    measured: Measurement,
    others: Sequence[JobId],
    at_work: tuple[JobId, ...],
    step: float | None,
    wall_at: float,
) -> None:
    """at_work: those of the others beside which it may be slower than alone."""
    load = measured.load
    watch.busy_now = measured.busy
    if measured.busy is not None:
        watch.busy = (watch.busy[0] + measured.busy, watch.busy[1] + 1)
    watch.device_memory_peak_gib = _most(watch.device_memory_peak_gib, load.device_memory_gib)
    watch.memory_peak_gib = _most(watch.memory_peak_gib, load.memory_gib)
    if measured.energy_j is not None:
        # An engine that looked away from it, as during a pause, counts anew.
        if measured.energy_j < (watch.energy_j or 0.0) - watch.energy_before_j:
            watch.energy_before_j = watch.energy_j or 0.0
        watch.energy_j = watch.energy_before_j + measured.energy_j
    passed_s = 0.0 if watch.at is None else measured.at - watch.at
    if watch.at is not None and passed_s <= 0:
        return  # The engine has not measured since the last look.
    alone = measured.alone and not others
    _note_hang(watch, measured, len(others) + 1 if not alone else 1, step)
    watch.history.add(load, measured.at, alone=alone, wall_at=wall_at)
    if 0 < passed_s <= GAP_MAX_S:
        if not watch.trains:
            watch.starting.add(load, passed_s)
        elif alone or at_work:
            key = at_work
            if key not in watch.spells and len(watch.spells) >= COMPANY_MAX:
                key = next(reversed(watch.spells))
            spell = watch.spells.setdefault(key, _Spell(mps=measured.mps))
            steps = 0.0 if step is None or watch.step is None else max(0.0, step - watch.step)
            # Where a job pauses between steps, to evaluate perhaps, a short time says little.
            spell.add(passed_s, steps, max(RECENT_S, PATIENCE * watch.longest_s))
            (watch.alone if alone else watch.shared).add(load, passed_s)
    watch.at, watch.step = measured.at, step


def _stored(watch: _Watch) -> SoFar:
    spells = watch.spells.items()
    return SoFar(
        spells=[Spell(others, one.seconds, one.steps, one.mps) for others, one in spells],
        alone=watch.alone.stored(),
        shared=watch.shared.stored(),
        starting=watch.starting.stored(),
        device_memory_peak_gib=watch.device_memory_peak_gib,
        memory_peak_gib=watch.memory_peak_gib,
        energy_j=watch.energy_j,
        busy=watch.busy,
        trains=watch.trains,
        longest_s=watch.longest_s,
    )


def _restore(watch: _Watch, so_far: SoFar) -> None:
    watch.spells = {one.others: _Spell(one.seconds, one.steps, one.mps) for one in so_far.spells}
    watch.alone = _Mean.restored(so_far.alone)
    watch.shared = _Mean.restored(so_far.shared)
    watch.starting = _Mean.restored(so_far.starting)
    watch.device_memory_peak_gib = so_far.device_memory_peak_gib
    watch.memory_peak_gib = so_far.memory_peak_gib
    watch.energy_j, watch.energy_before_j = so_far.energy_j, so_far.energy_j or 0.0
    watch.busy, watch.trains, watch.longest_s = so_far.busy, so_far.trains, so_far.longest_s


def _trains(watch: _Watch, measured: Measurement, step: float | None) -> bool:
    """Whether it has begun its work.

    A script loads its libraries and its data first, for a minute perhaps, and the device rests.
    That says nothing of what it needs later. Its first step tells, or else the first work of its
    device.
    """
    watch.began_at = measured.at if watch.began_at is None else watch.began_at
    said = step is not None and watch.step is not None
    works = measured.load.busy is not None and measured.load.busy > REST
    return said or (step is None and works and measured.at - watch.began_at >= SILENT_S)


def _note_hang(watch: _Watch, measured: Measurement, sharers: int, step: float | None) -> None:
    """Since when it may hang: sharing, its devices at rest."""
    if step is not None and watch.step is not None and step > watch.step:
        if watch.steps_at is not None:
            watch.longest_s = max(watch.longest_s, measured.at - watch.steps_at)
        watch.steps_at = measured.at
    busy = measured.load.busy
    if busy is None and measured.busy is not None:
        busy = measured.busy * sharers  # of the whole device
    if sharers > 1 and busy is not None and busy <= REST:
        watch.stuck_from = measured.at if watch.stuck_from is None else watch.stuck_from
    else:
        watch.stuck_from = None


def _load(watch: _Watch, alone: _Spell) -> Load:
    """While it trained alone; else while it shared; else while it started."""
    if alone.seconds > 0:
        return watch.alone.load()
    return (watch.shared if watch.trains else watch.starting).load()


def _per_s(seconds: float, steps: float) -> float | None:
    return steps / seconds if seconds >= RELATIVE_S and steps > 0 else None


def _relative(spell: _Spell, alone: _Spell) -> float | None:
    shared_per_s, alone_per_s = spell.per_s(), alone.per_s()
    if shared_per_s is None or alone_per_s is None:
        return None
    return round(shared_per_s / alone_per_s, 4)


def _most(before: float | None, now: float | None) -> float | None:
    if before is None or now is None:
        return now if before is None else before
    return max(before, now)
