"""Which of the kinds that a job belongs to says most about its length: that is learned, too.

Each kind makes forecasts of its own, one from its last few runs and one or two from more of them:
how fast things change differs between users. When a job ends, each forecast that was made for it
when it began is scored by the logarithm of the density that it gave to the true length. Forecasts
are then mixed by a prior (closer kinds first, the more the more runs they have) times the
exponential of their discounted scores. So a kind that says nothing soon weighs nothing, and the
mixture is hardly ever worse than the best of them.
"""

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import NamedTuple

from treadle.models.lengths.distribution import LENGTH_MIN_S, Lengths, Span

MEMORY = 0.98  # of scores, from one job to the next
WEIGHT_MIN = 0.003  # a forecast that weighs less is left out
_APART = 0.02  # of the density is spread over everything, so that no surprise is infinite
_DECADES = 20.0  # over so many powers of e
_WINDOW_MIN = 0.05  # lengths that are closer than this, in logarithms, count as equal
_WINDOW_ONE = 0.3  # the same where there is one run


class Blurred:
    """Lengths that were seen, and what follows for the next: like one of them, and not equal."""

    __slots__ = ("_blurred", "_spans", "seen", "window")

    def __init__(self, seen: Lengths, runs: float) -> None:
        runs = max(1.0, runs)
        self.seen = seen
        # Lengths within this distance, in logarithms, count as equal.
        self.window = max(_WINDOW_MIN, _WINDOW_ONE / runs, 0.87 * _spread(seen) * runs**-0.3)
        self._blurred: Lengths | None = None
        self._spans: dict[float, Span] = {}

    @property
    def lengths(self) -> Lengths:
        """Made when it is first asked for: most forecasts weigh too little to be."""
        if self._blurred is None:
            self._blurred = self.seen.blurred(self.window)
        return self._blurred

    def span(self, coverage: float) -> Span:
        found = self._spans.get(coverage)
        if found is None:
            found = self._spans[coverage] = self.lengths.span(coverage)
        return found


class Expert(NamedTuple):
    """The forecast of one kind, by some of its runs."""

    label: str  # how close the kind is, and how many runs count
    forecast: Blurred
    share: float = 0.0  # of the mixture, before any scores

    @property
    def lengths(self) -> Lengths:
        return self.forecast.lengths

    def score(self, seconds: float) -> float:
        """The logarithm of the density, over logarithms of seconds, at the true length."""
        seconds = max(seconds, LENGTH_MIN_S)
        seen, window = self.forecast.seen, self.forecast.window
        factor = exp(window)
        near = seen.survival(seconds / factor) - seen.survival(seconds * factor)
        density = (1.0 - _APART) * near / (2.0 * window) + _APART / _DECADES
        return log(density)


def weights(experts: Sequence[Expert], scores: Mapping[str, float]) -> list[float]:
    """How much each forecast counts; all make 1."""
    known = [scores.get(expert.label, 0.0) for expert in experts]
    best = max(known)
    raw = [expert.share * exp(score - best) for expert, score in zip(experts, known, strict=True)]
    total = sum(raw)
    if total <= 0:
        return [1.0 / len(experts)] * len(experts)
    return [one / total for one in raw]


def rescored(
    scores: Mapping[str, float], experts: Sequence[Expert], seconds: float
) -> dict[str, float]:
    """The scores after one more job. A forecast that was not made keeps its place on average."""
    # Kinds with the same runs share a forecast.
    shared = {id(expert.forecast): expert for expert in experts}
    scored = {forecast: expert.score(seconds) for forecast, expert in shared.items()}
    found = {expert.label: scored[id(expert.forecast)] for expert in experts}
    average = sum(found.values()) / len(found)
    after = {
        label: MEMORY * scores.get(label, 0.0) + found.get(label, average)
        for label in {**scores, **found}
    }
    best = max(after.values())
    return {label: score - best for label, score in after.items()}


def _spread(lengths: Lengths) -> float:
    """The standard deviation of logarithms, without the tail."""
    mass = sum([mass for _, mass in lengths.points])
    if not mass:
        return 1.0
    logs = [(log(seconds), each / mass) for seconds, each in lengths.points]
    mean = sum([at * share for at, share in logs])
    return float(sum([(at - mean) ** 2 * share for at, share in logs]) ** 0.5)


def narrowed(weights: Sequence[float], wanted: Sequence[bool]) -> list[float]:
    """The weights of those that are wanted, adding up to 1; all as they are if that leaves none."""
    kept = [weight if want else 0.0 for weight, want in zip(weights, wanted, strict=True)]
    total = sum(kept)
    return [weight / total for weight in kept] if total > 0 else [*weights]
