"""What one kind says of the length of a job: a forecast for each memory, by its own runs."""

from collections.abc import Sequence
from math import exp, inf
from typing import NamedTuple

from treadle.models.learning.commands import Arguments
from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.effects import Effects, Step
from treadle.models.learning.even_users import TAIL_DOUBT
from treadle.models.learning.experts import Blurred, Expert
from treadle.models.learning.kind_history import HALF_LIVES, Run
from treadle.models.learning.kinds import Source
from treadle.models.lengths.distribution import NARROWEST
from treadle.models.lengths.histogram import Histogram
from treadle.models.lengths.survival import Seen, kaplan_meier

CLOSE_HALF_LIVES = HALF_LIVES[:2]
EXPERT_POINTS = 48  # of a forecast
DOUBT_SAID = 0.2  # an argument that may change a length by less is not worth a word
AGREES, AGREES_WITHIN = 0.8, 0.95  # of a kind's runs, in so much of what a farther kind expects
NOISE_MIN = 0.1  # a run with so much doubt counts half, or as much as equal commands differ
# Of a doubt of 1: how far off, and how often. A number that was never varied does nothing or all.
_OFF = ((-1.2, 0.35), (0.0, 0.3), (1.2, 0.35))


class Group(NamedTuple):
    """The forecasts of runs that are equally close."""

    source: Source
    ended: int  # whole runs
    experts: list[Expert]
    doubt: float = 0.0  # about the nearest of them, in powers of e,
    doubted: str = ""  # and the argument that most of it is about; empty: none


def far_experts(label: str, histograms: Sequence[Histogram]) -> list[Expert]:
    found: list[Expert] = []
    for histogram in histograms:
        lengths = histogram.lengths(TAIL_DOUBT)
        if lengths is not None:
            named = f"{label} {histogram.half_life:g}"
            found.append(Expert(named, Blurred(lengths, histogram.runs)))
    return found


def close_group(
    source: Source,
    runs: Sequence[Run],
    asked: int,
    arguments: Arguments,
    curve: FittedCurve | None,
    effects: Effects,
) -> Group:
    """What runs of one script say of a job of this size with these arguments."""
    steps = [effects.step(run.arguments, arguments) for run in runs]
    whole = [(step, run) for step, run in zip(steps, runs, strict=True) if run.whole]
    experts = _close_experts(source.value, runs, steps, asked, curve, effects.noise)
    if not whole:
        return Group(source, 0, experts)
    nearest, run = min(whole, key=lambda one: one[0].doubt)
    each = effects.steps(run.arguments, arguments) if nearest.doubt else ()
    name, most = max(each, key=lambda one: one[1].doubt, default=("", Step()))
    doubted = name if most.doubt > DOUBT_SAID else ""
    return Group(source, len(whole), experts, nearest.doubt, doubted)


def _close_experts(
    label: str,
    runs: Sequence[Run],
    steps: Sequence[Step],
    asked: int,
    curve: FittedCurve | None,
    noise: float,
) -> list[Expert]:
    """The lengths of a kind at the asked size, as they would be with other arguments.

    The nearest runs count fully, others the less the more is in doubt about them.
    """
    unit = max(NOISE_MIN, noise)
    weights = [1.0 / (1.0 + (step.doubt / unit) ** 2) for step in steps]
    most = max((each for each, run in zip(weights, runs, strict=True) if run.whole), default=1.0)
    rows = [
        (run, min(1.0, weight / most), _lengths(run, asked, curve, step))
        for run, step, weight in zip(runs, steps, weights, strict=True)
    ]
    found: list[Expert] = []
    for half_life in CLOSE_HALF_LIVES:
        seen, worth, age = [], 0.0, 0.0
        for run, close, lengths in reversed(rows):
            weight = close * 0.5 ** (age / half_life)
            seen += [Seen(seconds, run.whole, weight * mass) for seconds, mass in lengths]
            age += (
                close * run.whole
            )  # Only ends make others old: what was cut off shortens nothing.
            worth += weight * run.whole
        whole = kaplan_meier(seen, doubt=TAIL_DOUBT)
        if whole is not None:
            whole = whole.thinned(EXPERT_POINTS)
            found.append(Expert(f"{label} {half_life:g}", Blurred(whole, worth)))
    return found


def as_sure_as_farther(groups: Sequence[Group]) -> list[Group]:
    """The same; one with few runs is as sure as those that it confirms.

    The runs of a closer group are among those of the farther one. Where they lie within what the
    farther one expects of this job, and it expects it in a narrower range, its forecast stands for
    both: one more run that agrees with it must not make a range wider.
    """
    found: list[Group] = []
    farther: list[Expert] = []
    for group in reversed(groups):
        told = {memory(expert): expert.forecast for expert in farther}
        farther = [
            expert._replace(forecast=_surer(expert.forecast, told.get(memory(expert))))
            for expert in group.experts
        ]
        found.append(group._replace(experts=farther))
    return found[::-1]


def memory(expert: Expert) -> str:
    """The half-life in a label."""
    return expert.label.rpartition(" ")[2]


def _surer(own: Blurred, farther: Blurred | None) -> Blurred:
    if farther is None:
        return own
    low_s, high_s, _ = farther.span(AGREES_WITHIN)
    mine = own.span(NARROWEST)
    if high_s - low_s >= mine.high_s - mine.low_s:
        return own
    within = sum(mass for seconds, mass in own.seen.points if low_s <= seconds <= high_s)
    return farther if within >= AGREES * sum(mass for _, mass in own.seen.points) else own


def _lengths(
    run: Run, asked: int, curve: FittedCurve | None, step: Step
) -> list[tuple[float, float]]:
    """How long a job may take by this run, and how likely each is."""
    factors: tuple[float, ...] = (1.0,)
    if curve is not None and run.size != asked:
        faster = curve.seconds(asked) / curve.seconds(run.size)
        faster = faster if 0 < faster < inf else 1.0
        # Where either size was never measured, it may as well gain nothing.
        known = asked in curve.measured and run.size in curve.measured
        factors = (faster,) if known else (1.0, faster)
    seconds = (run.seconds or 0.0) * exp(min(step.shift, 40.0))
    off = [(exp(far * step.doubt), mass) for far, mass in _OFF] if step.doubt else [(1.0, 1.0)]
    return [
        (seconds * factor * apart, mass / len(factors)) for factor in factors for apart, mass in off
    ]
