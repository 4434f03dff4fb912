"""What one kind says of the length of a job: a forecast for each memory, by its own runs."""

from collections.abc import Sequence
from math import inf

from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.even_users import TAIL_DOUBT
from treadle.models.learning.experts import Blurred, Expert
from treadle.models.learning.kind_history import HALF_LIVES, Run
from treadle.models.learning.kinds import Kind
from treadle.models.learning.proportion import idle, proportional, untried
from treadle.models.lengths.distribution import NARROWEST
from treadle.models.lengths.histogram import Histogram
from treadle.models.lengths.survival import Seen, kaplan_meier

CLOSE_HALF_LIVES = HALF_LIVES[:2]
EXPERT_POINTS = 48  # of a forecast
AGREES, AGREES_WITHIN = 0.8, 0.95  # of a kind's runs, in so much of what a farther kind expects
_OTHER_NUMBERS = (1 / 3, 1.0, 1.0, 3.0)  # factors on lengths, each as likely


def far_experts(label: str, histograms: Sequence[Histogram]) -> list[Expert]:
    found: list[Expert] = []
    for histogram in histograms:
        lengths = histogram.lengths(TAIL_DOUBT)
        if lengths is not None:
            named = f"{label} {histogram.half_life:g}"
            found.append(Expert(named, Blurred(lengths, histogram.runs)))
    return found


def close_experts(
    label: str,
    runs: Sequence[Run],
    asked: int,
    numbers: tuple[float, ...],
    curve: FittedCurve | None,
) -> list[Expert]:
    """The lengths of a kind, at the asked size, in proportion to a number where that tells."""
    rows = [(run.seconds, run.numbers) for run in runs if run.whole]
    positions = proportional(rows, numbers)
    without = frozenset() if positions else idle(rows, numbers)
    new = () if positions else tuple(at for at in untried(rows, numbers) if at not in without)
    factors = [_factors(run, asked, numbers, curve, positions, without, new) for run in runs]
    found: list[Expert] = []
    for half_life in CLOSE_HALF_LIVES:
        seen, worth, age = [], 0.0, 0
        for run, each in zip(reversed(runs), reversed(factors), strict=True):
            weight = 0.5 ** (age / half_life)
            seen += [Seen(run.seconds * factor, run.whole, weight / len(each)) for factor in each]
            age += (
                run.whole
            )  # Only ends make others old, so that what was cut off shortens nothing.
            worth += weight * run.whole
        lengths = kaplan_meier(seen, doubt=TAIL_DOUBT)
        if lengths is not None:
            lengths = lengths.thinned(EXPERT_POINTS)
            found.append(Expert(f"{label} {half_life:g}", Blurred(lengths, worth)))
    return found


def as_sure_as_farther(by_kind: dict[Kind, list[Expert]]) -> dict[Kind, list[Expert]]:
    """The forecasts of kinds, the closest first; one with few runs is as sure as those it confirms.

    The runs of a closer kind are among those of the farther one. Where they lie within what the
    farther kind expects of this job, and it expects it in a narrower range, its forecast stands for
    both: one more run that agrees with it must not make a range wider.
    """
    found: dict[Kind, list[Expert]] = {}
    farther: list[Expert] = []
    for kind, experts in reversed(by_kind.items()):
        told = {memory(expert): expert.forecast for expert in farther}
        farther = found[kind] = [
            expert._replace(forecast=_surer(expert.forecast, told.get(memory(expert))))
            for expert in experts
        ]
    return found


def memory(expert: Expert) -> str:
    """The half-life in a label."""
    return expert.label.rpartition(" ")[2]


def _surer(own: Blurred, farther: Blurred | None) -> Blurred:
    if farther is None or farther is own:
        return own
    low_s, high_s, _ = farther.span(AGREES_WITHIN)
    mine = own.span(NARROWEST)
    if high_s - low_s >= mine.high_s - mine.low_s:
        return own
    within = sum(mass for seconds, mass in own.seen.points if low_s <= seconds <= high_s)
    return farther if within >= AGREES * sum(mass for _, mass in own.seen.points) else own


def _factors(
    run: Run,
    asked: int,
    numbers: tuple[float, ...],
    curve: FittedCurve | None,
    positions: tuple[int, ...],
    without: frozenset[int],
    new: tuple[int, ...],
) -> tuple[float, ...]:
    """How long a job may take where this run took 1: several where that is not known.

    positions: of numbers that lengths are in proportion to. without: of those they do not follow.
    new: of numbers that no other run had.
    """
    factors: tuple[float, ...] = (1.0,)
    if curve is not None and run.size != asked:
        faster = curve.seconds(asked) / curve.seconds(run.size)
        faster = faster if 0 < faster < inf else 1.0
        # Where either size was never measured, it may as well gain nothing.
        known = asked in curve.measured and run.size in curve.measured
        factors = (faster,) if known else (1.0, faster)
    if len(run.numbers) != len(numbers) or run.numbers == numbers:
        return factors
    if not positions:
        pairs = zip(run.numbers, numbers, strict=True)
        if without.issuperset(at for at, (its, mine) in enumerate(pairs) if its != mine):
            return factors
        # Another number, and nothing shows yet what it does: little, or all.
        ratios = [numbers[at] / run.numbers[at] for at in new if run.numbers[at] > 0]
        others = (*_OTHER_NUMBERS, *ratios, *ratios)
        return tuple(factor * other for factor in factors for other in others)
    return (
        tuple(
            factor * numbers[position] / run.numbers[position]
            for factor in factors
            for position in positions
            if run.numbers[position] > 0
        )
        or factors
    )
