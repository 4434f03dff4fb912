"""What was learned of one kind of jobs, as plain numbers: the body of one stored row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from treadle.core.sighting import WATCHED_S, Sighting
from treadle.models.learning.commands import Arguments, number
from treadle.models.learning.outcome import RAN_MIN_S, STEP_MAX_S, STEP_MIN_S, UNKNOWN_TYPE, Outcome
from treadle.models.lengths.coverage import PLAIN, Level
from treadle.models.lengths.histogram import Histogram

RUNS_MAX = 96  # of one kind, and as many looks
TOTAL_MIN, TOTAL_MAX = 1e-6, 1e15  # steps of a whole job
OWNERS_MAX = 256
HALF_LIVES = (8.0, 64.0, 4096.0)  # jobs after which an older one counts half, of kinds with many
OWNERS_COUNTED = 512  # jobs, before owners' counts are halved
WEIGHT_MAX = 3.0  # of one job, where its owner has run few


class Run(NamedTuple):
    """A job that ended, or that was looked at while it ran; None: not seen of it."""

    arguments: Arguments
    size: int
    seconds: float | None = None  # of the whole job, or until it was cut off
    whole: bool = False
    step_s: float | None = None
    total: float | None = None  # steps of the whole job
    busy: float | None = None
    memory_busy: float | None = None
    cores: float | None = None  # beside each device
    memory_gib: float | None = None  # of a device, at its peak
    beside: bool = False  # what it uses was only seen while it shared
    spread: str = ""  # on more nodes or racks than it needs (spread.py)
    device_type: str = ""

    @property
    def watched(self) -> bool:
        """Whether it was seen for long enough to have used what it needs."""
        known = self.busy is not None or self.cores is not None
        return self.whole or (known and not self.beside)


@dataclass(slots=True)
class Costs:
    """What was seen of a script whatever its arguments are, smoothed; None: not seen."""

    restart_s: float | None = None  # a stop and a start
    resize_s: float | None = None  # a change while it runs
    freeze_s: float | None = None  # to pause it so,
    thaw_s: float | None = None  # and to let it go on
    suspend_s: float | None = None  # the same, with its device memory moved to the host's
    resume_s: float | None = None
    first_step_s: float | None = None
    # Shares of a step in which it loads, prepares, computes and synchronises, as last measured.
    stages: tuple[float, float, float, float] | None = None
    tail_s: float | None = None  # from the last step to the end, also of runs that shared
    start_s: float | None = None  # from the launch to the first step, without steps: of whole runs

    def filled(self, farther: "Costs") -> "Costs":
        """These, and what a farther kind knows besides."""
        mine = {each.name: getattr(self, each.name) for each in fields(self)}
        more = {name: getattr(farther, name) for name, known in mine.items() if known is None}
        return replace(self, **more)

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

    seen: list[Run] = field(default_factory=list)  # jobs that ended, with their lengths
    looks: list[Run] = field(default_factory=list)  # what was seen of jobs besides their lengths
    costs: Costs = field(default_factory=Costs)
    home: str = ""  # the type of device of which all times are, unless a run says another
    levels: list[Level] = field(default_factory=list)  # of ranges, by stage; none yet: empty
    ended: int = 0  # whole jobs ever seen
    name: str = ""  # of the script, for people
    # Of kinds far from their jobs, in place of runs: lengths by how fast old ones fade.
    histograms: list[Histogram] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)  # of forecasts, by their labels
    owners: dict[str, float] = field(default_factory=dict)  # jobs that ended, of each owner

    def evidence(self) -> Evidence:
        """Its lengths as they are now, whatever is learned later."""
        histograms = [each.copy() for each in self.histograms]
        return Evidence(self.seen, histograms, self.ended, self.scores)

    @property
    def rows(self) -> list[Run]:
        """All that was seen, of jobs that ended last."""
        return [*self.looks, *self.seen]

    @property
    def counting(self) -> frozenset[str]:
        """The arguments that only say how many steps a job has."""
        return counting(self.rows)

    def add(self, outcome: Outcome, arguments: Arguments) -> bool:
        """Take an outcome in; whether that changed anything."""
        run = self._run(outcome, arguments)
        if run.seconds is not None:
            self.seen = [*self.seen, run][-RUNS_MAX:]
            self.ended += run.whole
        elif any(part is not None for part in run[4:10]):
            self.looks = [*self.looks, run][-RUNS_MAX:]
        elif not outcome.says_more:
            return False
        self._cost(outcome)
        return True

    def _run(self, outcome: Outcome, arguments: Arguments) -> Run:
        paced = outcome.paced and outcome.device_type != UNKNOWN_TYPE
        if paced and not self.home:
            self.home = outcome.device_type
        total = outcome.total
        seen, size = outcome.seen or Sighting(), outcome.size
        # A run that was cut off after a moment says little of what it would have used.
        watched = seen.alone_s >= WATCHED_S or (outcome.whole and seen.alone_s > 0)
        load, beside = seen.load, not watched and seen.busy_beside is not None
        cores = load.cores if watched or beside else None
        return Run(
            arguments,
            size,
            seconds=max(RAN_MIN_S, outcome.ran_s) if outcome.timed else None,
            whole=outcome.timed and outcome.whole,
            step_s=outcome.step_s if paced else None,
            total=total if total is not None and TOTAL_MIN < total < TOTAL_MAX else None,
            busy=load.busy if watched else seen.busy_beside,
            memory_busy=load.memory_busy if watched else None,
            cores=None if cores is None else round(cores / size, 4),
            beside=beside,
            memory_gib=seen.device_memory_peak_gib,
            spread=outcome.spread,
            device_type=outcome.device_type,
        )

    def _cost(self, outcome: Outcome) -> None:
        costs, seen = self.costs, outcome.seen
        if (shares := stage_shares(dict(outcome.stages))) is not None:
            costs.stages = shares
        for name, seconds in outcome.took_s:
            setattr(costs, name, smooth(getattr(costs, name), seconds))
        if seen is None:
            return
        costs.restart_s = smooth(costs.restart_s, seen.restart_s)
        costs.resize_s = smooth(costs.resize_s, seen.resize_s)
        costs.first_step_s = smooth(costs.first_step_s, seen.first_step_s)
        if outcome.whole:
            costs.tail_s = smooth(costs.tail_s, seen.tail_s)
            costs.start_s = smooth(costs.start_s, _start_s(seen, outcome))

    def add_far(self, outcome: Outcome, owner: str) -> bool:
        """Take in the length of a job that need have little in common; whether it has one.

        Jobs of an owner with many count less, so that no single user defines what to expect of all.
        """
        if not outcome.timed:
            return False
        if not self.histograms:
            self.histograms = [Histogram(half_life) for half_life in HALF_LIVES]
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


def counting(runs: Iterable[Run]) -> frozenset[str]:
    """The arguments that only say how many steps a job has, such as `--steps 400`.

    One run is enough: that it says "step 1/400" then is no accident.
    """
    said = [(dict(run.arguments), run.total) for run in runs if run.total is not None]
    first = said[0][0] if said else {}
    return frozenset(
        name
        for name in first
        if all(number(values.get(name, "")) == total for values, total in said)
    )


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


def smooth(known: float | None, seen: float | None) -> float | None:
    """The newest counts half."""
    if seen is None or known is None:
        return known if seen is None else seen
    return 0.5 * (known + seen)
