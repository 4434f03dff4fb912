"""What is expected of a job: its length with its doubt, its work, its speed, and what it needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from treadle.core.attempt import LastProgress
from treadle.core.job import Profile
from treadle.models.learning.commands import in_words
from treadle.models.learning.kinds import FAR, Source
from treadle.models.lengths.coverage import PLAIN, Level, stage
from treadle.models.lengths.distribution import LENGTH_MAX_S, Lengths, Span, mixture

COVERAGE = 0.8
EDGE = 1.02  # no two runs take exactly as long
SPEED_DOUBT = 0.5  # relative error of a speed that was just measured; it falls as 1 / sqrt(time)
SPEED_DOUBT_MIN = 0.05
EARLY = 2.0  # times as long as such runs: more than a slower machine would explain
# So many such runs took so many times as long as its steps say: they evaluated something, or became
# slower. Of fewer, the steps are believed more.
LATE_RUNS, LATE = 3, 1.2
MEASURED_S = 2.0  # the first moment at which a measured speed counts
ELSE = 0.1  # of jobs whose steps and speed are known, so many take another time


# How far off users are: factors on what they say, and how likely each is. Half to twice holds 80 %.
_USERS_DOUBT = ((0.5, 0.1), (0.7, 0.2), (1.0, 0.4), (1.4, 0.15), (2.0, 0.1), (4.0, 0.05))


@dataclass(frozen=True, slots=True)
class Expectation:
    """What to expect of a job at the size it asks for."""

    source: Source
    runs: int  # of the closest kind that was seen, and have ended; 0: only steps are known
    length: Lengths  # seconds of the whole job at the asked size
    profile: Profile
    levels: tuple[Level, ...] = PLAIN  # how much of the distribution a range spans, by stage
    work: float | None = None  # steps of the whole job
    step_s: float | None = None  # seconds a step at the asked size
    known: bool = True  # False: nothing was seen, the length is only a prior; show "unknown"
    doubted: str = ""  # the argument in which the nearest run differs that may matter most

    @property
    def span(self) -> Span:
        """The range to show, of the whole length."""
        return self.left(0.0)

    def left(self, age_s: float) -> Span:
        """The range to show of what is left of a job that has run for so long."""
        share = self.levels[stage(age_s)].share
        low_s, high_s, _ = self.after(age_s).span(share)
        wider = 1.0 if self.source is Source.ITS_USER else EDGE
        return Span(low_s / wider, min(LENGTH_MAX_S, high_s * wider), COVERAGE)

    def after(self, age_s: float) -> Lengths:
        """What is left of a job of this age."""
        return self.length.after(age_s)

    def by_user(self, estimate_s: float) -> "Expectation":
        """The same where what its user says of the length is all that is known."""
        estimate_s = min(estimate_s, LENGTH_MAX_S)
        length = Lengths.of((estimate_s * factor, mass) for factor, mass in _USERS_DOUBT)
        return replace(self, source=Source.ITS_USER, length=length, levels=PLAIN, known=True)


class Basis(StrEnum):
    """What the time that is left of a job is based on."""

    STEPS = "steps"  # that are left, at the speed that was measured
    STOPS_EARLY = "stops early"  # the same, or as soon as runs of its command
    GOES_ON = "goes on"  # the same, or as late as runs of its command
    FIRST_STEPS = "first steps"  # no speed was measured yet
    OTHER_SIZE = "other size"  # steps left, at the speed expected where none was measured yet
    RUNS = "runs"  # of jobs like it
    USER = "user"
    NOTHING = "nothing"


_FARTHER = (Source.SAME_SCRIPT, *FAR)
MEASURED = (Basis.STEPS, Basis.STOPS_EARLY, Basis.GOES_ON)
OWN_STEPS = (*MEASURED, Basis.FIRST_STEPS, Basis.OTHER_SIZE)
_SAID = {
    Basis.STEPS: "from its steps",
    Basis.STOPS_EARLY: "from its steps and earlier runs, which stopped sooner",
    Basis.GOES_ON: "from its steps and earlier runs, which took longer",
    Basis.FIRST_STEPS: "from its first steps",
    Basis.OTHER_SIZE: "from its earlier steps",
}


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of a job."""

    span: Span
    mean_s: float
    known: bool
    basis: Basis
    because: str = ""  # the basis, for people

    @classmethod
    def by_steps(cls, span: Span, mean_s: float, basis: Basis) -> "Remaining":
        return cls(span, mean_s, known=True, basis=basis, because=_SAID[basis])


def remaining(
    expected: Expectation, age_s: float, *, said: LastProgress | None = None
) -> Remaining:
    """What is left of a job that has run for so long: its own steps, else jobs like it."""
    own = None if said is None or _goes_on(expected, said) else _by_steps(said)
    if own is not None:
        mean_s, span = own
        if _stops_early(expected, age_s, span):
            either = Span(expected.left(age_s).low_s, span.high_s, COVERAGE)
            usual_s = expected.after(age_s).mean()
            return Remaining.by_steps(either, usual_s, Basis.STOPS_EARLY)
        if _runs_on(expected, age_s, span):
            either = Span(span.low_s, expected.left(age_s).high_s, COVERAGE)
            usual_s = expected.after(age_s).mean()
            return Remaining.by_steps(either, usual_s, Basis.GOES_ON)
        return Remaining.by_steps(span, mean_s, Basis.STEPS)
    first = None if said is None or not _is_far(expected) else _by_first_steps(said)
    if first is not None:
        mean_s, span = first
        return Remaining.by_steps(span, mean_s, Basis.FIRST_STEPS)
    mean_s = expected.after(age_s).mean()
    basis = _BASES.get(expected.source, Basis.RUNS)
    return Remaining(expected.left(age_s), mean_s, expected.known, basis, _because(expected))


def _goes_on(expected: Expectation, said: LastProgress) -> bool:
    """Whether all its steps are done, and runs of the same command say what follows them."""
    done = said.total is not None and said.step >= said.total
    return done and expected.source is Source.SAME_COMMAND and expected.runs > 0


def _stops_early(expected: Expectation, age_s: float, by_steps: Span) -> bool:
    """Whether runs of the same command ended long before a job would that does all its steps.

    Many jobs stop once they get no better. One that is older than such runs goes on, it seems.
    """
    if expected.source is not Source.SAME_COMMAND or not expected.runs:
        return False
    if age_s >= expected.span.high_s:
        return False
    return EARLY * expected.left(age_s).high_s < by_steps.low_s


def _runs_on(expected: Expectation, age_s: float, by_steps: Span) -> bool:
    """Whether runs of the same command went on after their steps, or became slower.

    One that is older than such runs is not like them.
    """
    if expected.source is not Source.SAME_COMMAND or expected.runs < LATE_RUNS:
        return False
    if age_s >= expected.span.high_s:
        return False
    return expected.left(age_s).low_s > LATE * by_steps.high_s


def _is_far(expected: Expectation) -> bool:
    """Whether no run is known that differs in nothing that may matter."""
    return expected.known and (expected.source in _FARTHER or expected.doubted != "")


def around(found: Sequence[float], alike: Lengths | None) -> Lengths:
    """Steps times seconds a step, with the doubt of both, and some of what else may be.

    found: several where the speed is not known. alike: how long jobs alike took; None: none has
    ended. Then some take longer than these say, and not as long as any other job: a tenth of those
    would be most of the mean of a short job.
    """
    near = [
        (min(seconds, LENGTH_MAX_S) * factor, mass / len(found))
        for seconds in found
        for factor, mass in ((0.8, 0.2), (1.0, 0.6), (1.25, 0.2))
    ]
    if alike is None:
        return Lengths.of(near, tail=ELSE / (1.0 - ELSE))
    return mixture(((Lengths.of(near), 1.0 - ELSE), (alike, ELSE)))


def _by_steps(said: LastProgress) -> tuple[float, Span] | None:
    """By steps left over the speed that was measured; None if it has not said enough."""
    if said.total is None or not said.per_s or said.measured_s < MEASURED_S:
        return None
    steps_left = max(0.0, said.total - said.step)
    left_s = min(LENGTH_MAX_S, steps_left / said.per_s)
    # Steps are counted whole: of four that were seen, one more or less is a quarter.
    steps = max(1.0, said.per_s * said.measured_s)
    doubt = max(SPEED_DOUBT_MIN, SPEED_DOUBT / float(said.measured_s) ** 0.5, 1.0 / steps)
    # What is left may go as slowly, or as fast, as it went before.
    slow_per_s, fast_per_s = said.speeds or (said.per_s, said.per_s)
    low_s = min(left_s / (1.0 + doubt), steps_left / fast_per_s)
    high_s = max(left_s * (1.0 + doubt), min(LENGTH_MAX_S, steps_left / slow_per_s))
    return left_s, Span(low_s, high_s, COVERAGE)


def _by_first_steps(said: LastProgress) -> tuple[float, Span] | None:
    """The same while no speed was measured: by the steps since its start, with much doubt."""
    if said.total is None or said.speeds is None:
        return None
    steps_left = max(0.0, said.total - said.step)
    low_s, high_s = (min(LENGTH_MAX_S, steps_left / per_s) for per_s in reversed(said.speeds))
    return (low_s * high_s) ** 0.5, Span(low_s, high_s, COVERAGE)


_BASES = {Source.ITS_USER: Basis.USER, Source.NOTHING: Basis.NOTHING}
_OF = {
    Source.SAME_COMMAND: "{runs} of this command",
    Source.ALIKE: "{similar}",
    Source.SAME_SCRIPT: "{runs} of this script",
    Source.SAME_USER: "{runs} of this user",
    Source.EVERYTHING: "{runs} on this machine",
    Source.ITS_USER: "its user's estimate",
}


def _because(expected: Expectation) -> str:
    if expected.source is Source.NOTHING:
        return "nothing has run here yet"
    count, plural = expected.runs, "" if expected.runs == 1 else "s"
    runs, similar = f"{count} run{plural}", f"{count} similar run{plural}"
    if not count:  # None has ended, and one said how many steps it has.
        runs, similar = "the steps of a run", "the steps of a similar run"
    other = f", other {in_words(expected.doubted)}" if expected.doubted else ""
    return "from " + _OF[expected.source].format(runs=runs, similar=similar) + other
