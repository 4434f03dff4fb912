"""What was learned of one kind of jobs, as plain numbers: the body of one stored row."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from treadle.core.sighting import WATCHED_S, Sighting
from treadle.models.learning.outcome import RAN_MIN_S, STEP_MAX_S, STEP_MIN_S, UNKNOWN_TYPE, Outcome
from treadle.models.learning.speeds import REPEATS_MAX, put
from treadle.models.lengths.coverage import PLAIN, Level
from treadle.models.lengths.histogram import Histogram

RUNS_MAX = 64  # of one kind
TOTAL_MIN, TOTAL_MAX = 1e-6, 1e15  # steps of a whole job
OWNERS_MAX = 256
TYPES_MAX = 16  # of device
HALF_LIVES = (8.0, 64.0, 4096.0)  # jobs after which an older one counts half, of kinds with many
OWNERS_COUNTED = 512  # jobs, before owners' counts are halved
WEIGHT_MAX = 3.0  # of one job, where its owner has run few
# Needs of a script, whatever its arguments are.
_OF_THE_SCRIPT = ("restart_s", "resize_s", "first_step_s", "start_s")


@dataclass(slots=True)
class Run:
    """One length that was seen: of a whole job, or cut off."""

    size: int
    seconds: float
    whole: bool = True
    numbers: tuple[float, ...] = ()  # of its command line


@dataclass(slots=True)
class Confirmed:
    """A range of whole lengths that held the last run of a command."""

    size: int  # of the run
    low_s: float
    high_s: float


@dataclass(slots=True)
class Needs:
    """What jobs of a kind were seen to use; None: not seen."""

    busy: float | None = None
    memory_busy: float | None = None
    cores: float | None = None  # beside each device
    memory_gib: float | None = None  # of a device, the highest peak
    restart_s: float | None = None  # a stop and a start
    resize_s: float | None = None  # a change while it runs
    first_step_s: float | None = None
    # Shares of a step in which it loads, prepares, computes and synchronises, as last measured.
    stages: tuple[float, float, float, float] | None = None
    tail_s: float | None = None  # from the last step to the end, also of runs that had company
    start_s: float | None = None  # from the launch to the first step, without steps: of whole runs

    def filled(self, farther: "Needs", *, alike: bool) -> "Needs":
        """These, and what a farther kind knows besides; alike: it also uses devices as these do.

        Of alike kinds the higher peak counts: the closest may have run for a moment only.
        """
        filled = replace(self)
        for name in fields(self):
            if alike or name.name in _OF_THE_SCRIPT:
                mine, other = getattr(self, name.name), getattr(farther, name.name)
                setattr(filled, name.name, other if mine is None else mine)
        if alike and farther.memory_gib is not None:
            filled.memory_gib = max(farther.memory_gib, self.memory_gib or 0.0)
        return filled

    def before_steps_s(self, step_s: float) -> float:
        """How long a run takes to its first step, which takes so long; 0: that was not seen.

        Of runs that have not ended it is only known when they first said something of a step, and
        that one was done by then.
        """
        if self.start_s is not None:
            return self.start_s
        return max(0.0, (self.first_step_s or 0.0) - step_s)


class Evidence(NamedTuple):
    """What forecasts of a kind rest on: lengths as they were known at some moment."""

    runs: list[Run]
    histograms: list[Histogram]
    ended: int
    scores: Mapping[str, float]


@dataclass(slots=True)
class History:
    """Everything about one kind. Lists have the newest last and are bounded."""

    # Seconds of a whole job by size, as older versions stored it; the size changed last is last.
    by_size: dict[int, list[float]] = field(default_factory=dict)
    steps: dict[int, list[float]] = field(default_factory=dict)  # seconds of a step by size
    # The same of placements on more nodes or racks than are needed (spread.py).
    apart: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    home: str = ""  # the type of device of which all times are, but for the next
    elsewhere: dict[str, dict[int, list[float]]] = field(default_factory=dict)  # steps, by type
    runs: list[Run] = field(default_factory=list)
    totals: list[tuple[float, tuple[float, ...]]] = field(default_factory=list)  # steps, numbers
    needs: Needs = field(default_factory=Needs)
    levels: list[Level] = field(default_factory=list)  # of ranges, by stage; none yet: empty
    ended: int = 0  # whole jobs ever seen
    # Of kinds far from their jobs, in place of runs: lengths by how fast old ones fade.
    histograms: list[Histogram] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)  # of forecasts, by their labels
    owners: dict[str, float] = field(default_factory=dict)  # jobs that ended, of each owner
    confirmed: Confirmed | None = None  # of a command; None: its last run was not as expected

    def evidence(self) -> Evidence:
        """Its lengths as they are now, whatever is learned later."""
        histograms = [each.copy() for each in self.histograms]
        return Evidence(self.runs, histograms, self.ended, self.scores)

    def add(self, outcome: Outcome) -> bool:
        """Take an outcome in; whether that changed anything."""
        changed = False
        if outcome.timed:
            seconds = max(RAN_MIN_S, outcome.ran_s)
            run = Run(outcome.size, seconds, outcome.whole, outcome.numbers)
            self.runs = [*self.runs, run][-RUNS_MAX:]
            if outcome.whole:
                self.ended += 1
                put(self.by_size, outcome.size, seconds)
            changed = True
        if outcome.paced and outcome.step_s is not None:
            changed = self._paced(outcome, outcome.step_s) or changed
        if outcome.total is not None and TOTAL_MIN < outcome.total < TOTAL_MAX:
            self.totals = [*self.totals, (outcome.total, outcome.numbers)][-REPEATS_MAX:]
            changed = True
        if outcome.seen is not None:
            self._need(outcome.seen, outcome)
            changed = True
        if (shares := stage_shares(dict(outcome.stages))) is not None:
            self.needs.stages = shares
            changed = True
        return changed

    def _paced(self, outcome: Outcome, step_s: float) -> bool:
        """Take a speed in; whether it can be told what it is of."""
        if outcome.device_type == UNKNOWN_TYPE:
            return False
        if not self.steps and not self.apart:
            self.home = outcome.device_type
        self.home = self.home or outcome.device_type
        if outcome.device_type in ("", self.home):
            put(self._table(outcome.spread), outcome.size, step_s)
            return True
        # Of a placement apart on another type, which of the two made it slower is not known.
        if outcome.spread:
            return False
        if outcome.device_type in self.elsewhere or len(self.elsewhere) < TYPES_MAX:
            put(self.elsewhere.setdefault(outcome.device_type, {}), outcome.size, step_s)
            return True
        return False

    def _table(self, spread: str) -> dict[int, list[float]]:
        return self.apart.setdefault(spread, {}) if spread else self.steps

    def add_far(self, outcome: Outcome, owner: str) -> bool:
        """Take in the length of a job that need have little in common; whether it has one.

        Jobs of an owner with many count less, so that no single user defines what to expect of all.
        """
        if not outcome.timed:
            return False
        self.upgrade()
        weight = self._weight(owner)
        for histogram in self.histograms:
            histogram.add(max(RAN_MIN_S, outcome.ran_s), whole=outcome.whole, weight=weight)
        self.ended += outcome.whole
        return True

    def compare(self, at: int, *, held: bool) -> None:
        """Take in whether a range of this stage held."""
        if not self.levels:
            self.levels = list(PLAIN)
        self.levels[at] = self.levels[at].after(held=held)

    def upgrade(self) -> None:
        """Begin histograms of a kind that is far from its jobs: of runs that were stored before."""
        if self.histograms:
            return
        self.histograms = [Histogram(half_life) for half_life in HALF_LIVES]
        for run in self.runs:
            for histogram in self.histograms:
                histogram.add(run.seconds, whole=run.whole)
        self.runs, self.by_size, self.totals = [], {}, []

    def _weight(self, owner: str) -> float:
        owners = self.owners
        owners[owner] = owners.get(owner, 0.0) + 1.0
        total = sum(owners.values())
        weight = (total / len(owners) / owners[owner]) ** 0.5
        if total > OWNERS_COUNTED:
            self.owners = {name: count / 2 for name, count in owners.items() if count > 1.0}
        while len(self.owners) > OWNERS_MAX:
            del self.owners[min(self.owners, key=lambda name: self.owners[name])]
        return float(min(WEIGHT_MAX, weight))

    def load_lengths(self, size: int, lengths: list[float]) -> None:
        """Runs of a row that was stored before runs were."""
        self.runs = [*self.runs, *(Run(size, seconds) for seconds in lengths)][-RUNS_MAX:]
        self.ended += len(lengths)

    def _need(self, seen: Sighting, outcome: Outcome) -> None:
        needs, load = self.needs, seen.load
        size, whole = outcome.size, outcome.whole
        # A run that was cut off after a moment says little of what it would have used.
        cores = None if load.cores is None else round(load.cores / size, 4)
        if seen.alone_s >= WATCHED_S or (whole and seen.alone_s > 0):
            needs.busy = _smooth(needs.busy, load.busy)
            needs.memory_busy = _smooth(needs.memory_busy, load.memory_busy)
            needs.cores = _smooth(needs.cores, cores)
        elif needs.busy is None and seen.busy_beside is not None:
            needs.busy, needs.cores = seen.busy_beside, cores
        if seen.device_memory_peak_gib is not None:
            # A peak that was reached once can be reached again.
            needs.memory_gib = max(needs.memory_gib or 0.0, seen.device_memory_peak_gib)
        needs.restart_s = _smooth(needs.restart_s, seen.restart_s)
        needs.resize_s = _smooth(needs.resize_s, seen.resize_s)
        needs.first_step_s = _smooth(needs.first_step_s, seen.first_step_s)
        if whole:
            needs.tail_s = _smooth(needs.tail_s, seen.tail_s)
            needs.start_s = _smooth(needs.start_s, _start_s(seen, outcome))


def stage_shares(seconds: Mapping[str, float]) -> tuple[float, float, float, float] | None:
    """Of a whole step; None if that is not known."""
    step_s = seconds.get("step", 0.0)
    if not STEP_MIN_S < step_s < STEP_MAX_S:
        return None
    load, prepare, compute, sync = (
        round(min(1.0, seconds.get(name, 0.0) / step_s), 4)
        for name in ("load", "prepare", "compute", "sync")
    )
    return load, prepare, compute, sync


def _start_s(seen: Sighting, whole: Outcome) -> float | None:
    """What a whole run took before its steps; None if that is not known.

    A job that says something every hundred steps is first heard of late. What its steps and what
    followed them leave of its time is then less.
    """
    if seen.first_step_s is None or whole.step_s is None or whole.total is None:
        return None
    left_s = whole.ran_s - whole.total * whole.step_s - (seen.tail_s or 0.0)
    return round(max(0.0, min(seen.first_step_s, left_s)), 1)


def _smooth(known: float | None, seen: float | None) -> float | None:
    if seen is None or known is None:
        return known if seen is None else seen
    return 0.5 * (known + seen)
