"""Loss curves: fitted to observed losses, they predict when a target is reached, with an interval.

The form is Optimus' (Peng et al., EuroSys'18): ℓ(k) = 1 / (β0·k + β1) + β2, no β below 0. For a
given floor β2 the rest is a straight line through 1 / (ℓ − β2). So the floor is searched on a grid
that is refined once, and the line is weighted so that errors count in ℓ and not in 1 / ℓ, and newer
points count more. If that form does badly on held-out points, others are tried: a power law, an
exponential, and the same form from the last steep fall on. Each has two terms for a given shape, so
one solver handles all of them, and many resampled curves at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.core.errors import InvalidInputError

Numbers = NDArray[np.float64]
Form = Literal["inverse", "power", "exponential"]

POINTS_MIN = 4  # to fit anything
HELD_OUT = 0.3  # newest share of the points, on which a fit is scored
GOOD = 0.10  # relative error held out; a worse fit lets other forms be tried
_POINTS_MAX = 40  # more points are averaged in groups of neighbours
_OUTLIER = 3.0  # median deviations of its window
_WINDOW = 5  # points
_RECENCY = 0.98  # weight of a point over that of the next
_GRID = 16  # shapes tried at a time
_SHARES = np.linspace(0.0, 1.0, _GRID)
_ZOOMS = 2  # times
_SHAPES: dict[Form, tuple[float, float]] = {"power": (0.05, 4.0), "exponential": (0.05, 30.0)}
_FALL = 4.0  # usual steps; a steeper one is a restart
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted loss curve. Its terms are in units of `scale` and `unit`."""

    form: Form
    shape: float  # β2 of an inverse, the exponent of the others
    slope: float
    intercept: float
    scale: float  # the largest loss seen
    unit: float  # iterations
    origin: float = 0.0  # the iteration that it counts from

    def at(self, iteration: float) -> float:
        """The loss at an iteration."""
        steps = np.array([(iteration - self.origin) / self.unit])
        return self.scale * float(_values(self.form, steps, self._terms())[0, 0])

    def reaches(self, loss: float) -> float:
        """The iteration at which the curve reaches this loss; infinite if never."""
        return float(
            self.origin + self.unit * _reached(self.form, self._terms(), loss / self.scale)[0]
        )

    def settles(self, *, drop: float, patience: int, epoch: float) -> float:
        """The iteration after `patience` epochs in a row that each lower the loss by less."""
        if not (0 < drop < 1 and patience >= 1 and epoch > 0):
            raise InvalidInputError(
                f"a curve settles by a drop within 0..1, epochs and their length, "
                f"not {drop:g}, {patience} and {epoch:g}"
            )

        def falls(number: int) -> bool:
            before = self.at(self.origin + number * epoch)
            return before - self.at(self.origin + (number + 1) * epoch) >= drop * before

        if not falls(1):
            return self.origin + (1 + patience) * epoch
        steep, flat = 1, 2
        while falls(flat):
            steep, flat = flat, 2 * flat
        while flat - steep > 1:
            middle = (steep + flat) // 2
            steep, flat = (middle, flat) if falls(middle) else (steep, middle)
        return self.origin + (flat + patience) * epoch

    def _terms(self) -> "_Terms":
        return _Terms(np.array([self.shape]), np.array([self.slope]), np.array([self.intercept]))


@dataclass(frozen=True, slots=True)
class Fit:
    """A curve, the points it was fitted to, and its error on held-out points."""

    curve: Curve
    iterations: Numbers  # of the points as they were prepared
    losses: Numbers
    held_out_error: float  # mean, relative to the losses

    @property
    def residuals(self) -> Numbers:
        """Observed over fitted losses, minus one."""
        return np.asarray(self.losses / self._fitted() - 1.0, dtype=np.float64)

    def _fitted(self) -> Numbers:
        curve = self.curve
        steps = (self.iterations - curve.origin) / curve.unit
        values = _values(curve.form, steps, curve._terms())[0]
        return np.asarray(curve.scale * values, dtype=np.float64)


def fit(iterations: Sequence[float] | Numbers, losses: Sequence[float] | Numbers) -> Fit:
    """The best of the forms on these points, by the error on the newest of them."""
    steps, seen = prepared(iterations, losses)
    best = _scored("inverse", steps, seen)
    if best.held_out_error <= GOOD:
        return best
    others = [_scored("power", steps, seen), _scored("exponential", steps, seen)]
    begin = _restart(seen)
    if begin and len(seen) - begin >= 2 * POINTS_MIN:
        others.append(_scored("inverse", steps[begin:], seen[begin:], origin=steps[begin - 1]))
    return min(best, *others, key=lambda found: found.held_out_error)


def fit_inverse(iterations: Sequence[float] | Numbers, losses: Sequence[float] | Numbers) -> Curve:
    """Optimus' form fitted to these points, however large the error."""
    return _scored("inverse", *prepared(iterations, losses)).curve


def prepared(
    iterations: Sequence[float] | Numbers, losses: Sequence[float] | Numbers
) -> tuple[Numbers, Numbers]:
    """The points without outliers, averaged down to a limited number."""
    steps = np.asarray(iterations, dtype=np.float64)
    seen = np.asarray(losses, dtype=np.float64)
    if len(steps) != len(seen) or len(seen) < POINTS_MIN:
        raise InvalidInputError(
            f"a loss curve is fitted to at least {POINTS_MIN} losses and their iterations, "
            f"not to {len(seen)} and {len(steps)}"
        )
    if not (np.all(np.diff(steps) > 0) and steps[0] > 0 and np.all(seen > 0)):
        raise InvalidInputError("a loss curve is fitted to ascending iterations and losses above 0")
    seen = _without_outliers(seen)
    many = ceil(len(seen) / _POINTS_MAX)
    if many > 1:
        edges = np.arange(len(seen) % many, len(seen), many)  # The oldest few are dropped.
        steps = np.add.reduceat(steps, edges) / many
        seen = np.add.reduceat(seen, edges) / many
    return steps, seen


class _Terms(NamedTuple):
    """The terms of several curves of one form."""

    shape: Numbers
    slope: Numbers
    intercept: Numbers


def _scored(form: Form, steps: Numbers, seen: Numbers, *, origin: float = 0.0) -> Fit:
    """A curve fitted to all points, with the error on the newer points of a fit to the older."""
    scale, unit = float(seen.max()), float(steps[-1] - origin)
    across, down = (steps - origin) / unit, seen / scale
    known = max(POINTS_MIN - 1, len(seen) - max(1, round(HELD_OUT * len(seen))))
    weights = np.stack([_recency(len(seen)), np.zeros(len(seen))])
    weights[1, :known] = weights[0, len(seen) - known :]
    terms = _solve(form, across, np.stack([down, down]), weights)
    held_out = _values(form, across[known:], terms)[1]
    error = np.abs(held_out / down[known:] - 1.0).mean()
    shape, slope, intercept = (float(term[0]) for term in terms)
    curve = Curve(form, shape, slope, intercept, scale, unit, origin)
    return Fit(curve, steps, seen, float(error))


def _recency(count: int) -> Numbers:
    return np.asarray(_RECENCY ** np.arange(count - 1, -1, -1), dtype=np.float64)


def _solve(form: Form, steps: Numbers, losses: Numbers, weights: Numbers) -> _Terms:
    """The best curves of a form for rows of losses; points of weight 0 are ignored."""
    if form == "inverse":
        low = np.zeros(len(losses))
        high = 0.99 * np.where(weights > 0, losses, inf).min(axis=1)
    else:
        low, high = (np.full(len(losses), log(end)) for end in _SHAPES[form])
    rows = np.arange(len(losses))
    for _ in range(_ZOOMS):
        grid = low[:, None] + (high - low)[:, None] * _SHARES
        shapes = grid if form == "inverse" else np.exp(grid)
        slopes, intercepts = _lines(form, steps, losses, shapes, weights[:, None, :])
        values = _values(form, steps, _Terms(shapes, slopes, intercepts))
        errors = (weights[:, None, :] * (values - losses[:, None, :]) ** 2).sum(axis=2)
        best = errors.argmin(axis=1)
        width = (high - low) / (_GRID - 1)
        middle = grid[rows, best]
        low, high = np.maximum(low, middle - width), np.minimum(high, middle + width)
    return _Terms(shapes[rows, best], slopes[rows, best], intercepts[rows, best])


def _lines(
    form: Form, steps: Numbers, losses: Numbers, shapes: Numbers, weights: Numbers
) -> tuple[Numbers, Numbers]:
    """Slope and intercept, neither below 0, for every row of losses and each of its shapes."""
    if form == "inverse":
        gaps = np.maximum(losses[:, None, :] - shapes[:, :, None], _TINY)
        heights = weights * gaps * gaps * gaps  # Much faster than a power.
        widths = heights * gaps
        total, first, second = widths.sum(axis=-1), widths @ steps, widths @ (steps * steps)
        level, product = heights.sum(axis=-1), heights @ steps
    else:
        across = _feature(form, steps, shapes)
        weighted = weights * across
        total, first = weights.sum(axis=-1), weighted.sum(axis=-1)
        second = (weighted * across).sum(axis=-1)
        level = (weights * losses[:, None, :]).sum(axis=-1)
        product = (weighted * losses[:, None, :]).sum(axis=-1)
    spread = np.maximum(total * second - first * first, _TINY * total * second)
    slopes = (total * product - first * level) / spread
    intercepts = (level - slopes * first) / total
    flat, steep = slopes < 0, intercepts < 0  # Never both: the values are above 0.
    slopes = np.where(flat, 0.0, np.where(steep, product / second, slopes))
    return slopes, np.where(flat, level / total, np.where(steep, 0.0, intercepts))


def _feature(form: Form, steps: Numbers, shapes: Numbers) -> Numbers:
    if form == "power":
        return np.asarray(steps ** -shapes[..., None], dtype=np.float64)
    return np.asarray(np.exp(-shapes[..., None] * steps), dtype=np.float64)


def _values(form: Form, steps: Numbers, terms: _Terms) -> Numbers:
    """The losses of every curve at each of these steps."""
    slope, intercept = terms.slope[..., None], terms.intercept[..., None]
    if form == "inverse":
        line = np.maximum(slope * steps + intercept, _TINY)
        return np.asarray(1.0 / line + terms.shape[..., None], dtype=np.float64)
    return np.asarray(slope * _feature(form, steps, terms.shape) + intercept, dtype=np.float64)


def _reached(form: Form, terms: _Terms, loss: float) -> Numbers:
    """The step at which each curve reaches the loss, or infinity."""
    shape, slope, intercept = terms
    floor = shape if form == "inverse" else intercept
    gap = loss - floor
    possible = (gap > 0) & (slope > _TINY)
    gap, slope = np.where(possible, gap, 1.0), np.where(possible, slope, 1.0)
    if form == "inverse":
        found = (1.0 / gap - intercept) / slope
    elif form == "power":
        found = np.exp(np.minimum(np.log(slope / gap) / shape, 700.0))
    else:
        found = np.log(slope / gap) / shape
    return np.where(possible, np.maximum(found, 0.0), inf)


def _without_outliers(losses: Numbers) -> Numbers:
    """Replace points far from the median of their window by its mean."""
    if len(losses) < _WINDOW:
        return losses
    half, count = _WINDOW // 2, len(losses) - _WINDOW + 1
    windows = losses[np.arange(count)[:, None] + np.arange(_WINDOW)]
    median = np.sort(windows, axis=1)[:, half]
    deviation = np.sort(np.abs(windows - median[:, None]), axis=1)[:, half]
    inner = losses[half : len(losses) - half]
    far = np.abs(inner - median) > _OUTLIER * np.maximum(deviation, _TINY)
    cleaned = losses.copy()
    cleaned[half : len(losses) - half] = np.where(far, windows.mean(axis=1), inner)
    return cleaned


def _restart(losses: Numbers) -> int:
    """The point after the last fall that is much steeper than most; 0 if there is none."""
    steps = np.diff(np.log(losses))
    usual = float(np.median(np.abs(steps))) + _TINY
    steep = np.flatnonzero(steps < -max(_FALL * usual, log(1.0 / 0.9)))
    return int(steep[-1]) + 1 if len(steep) else 0
