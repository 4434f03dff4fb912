"""Bounded least squares for factors that span many orders of magnitude.

The search runs in logarithms, so that a step of 0.1 means the same for 0.0001 and for 1,000. It
minimises the sum, over groups of residuals, of each group's root mean square: Rubick's loss has
three groups. A sum of roots is not a sum of squares, but at any point it has an upper bound that
touches it there: each group's squares, divided by the group's current root. Every round takes one
damped Gauss-Newton step (Levenberg, Marquardt) on that bound. Factors at a bound that would leave
it are kept fixed, and a step that would raise the loss is not taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
# The residuals of every group at some factors; the groups keep their lengths.
Residuals = Callable[[Vector], Sequence[Vector]]

_STEP = 1e-6  # of a numeric derivative, in logarithms
_EXACT = 1e-6  # lower limit for a group's root, which bounds its weight
_SETTLED = 1e-9  # a round that gains less, relative to the loss, is the last
_LONGEST = 2.0  # no factor moves further in one round, in logarithms
_DAMPING_MAX = 1e9
ROUNDS_MAX = 200


@dataclass(frozen=True, slots=True)
class Solution:
    factors: tuple[float, ...]
    loss: float


def minimise(
    residuals: Residuals,
    start: Sequence[float],
    *,
    lower: Sequence[float],
    upper: Sequence[float],
) -> Solution:
    """A local minimum of the loss near the start, after at most ROUNDS_MAX rounds."""
    least, most = np.log(np.asarray(lower)), np.log(np.asarray(upper))
    place = np.clip(np.log(np.asarray(start)), least, most)
    groups = residuals(np.exp(place))
    loss, damping = _loss(groups), 1e-2
    for _ in range(ROUNDS_MAX):
        weights = _weights(groups)
        jacobian = _jacobian(residuals, place, groups) * weights[:, None]
        slope = jacobian.T @ (np.concatenate(groups) * weights)
        free = ~(((place <= least) & (slope > 0)) | ((place >= most) & (slope < 0)))
        square = jacobian[:, free].T @ jacobian[:, free]
        before = loss
        while damping < _DAMPING_MAX and free.any():
            damped = square + damping * np.diag(np.diag(square) + 1e-12)
            step = np.zeros_like(place)
            step[free] = -np.linalg.solve(damped, slope[free])
            there = np.clip(place + np.clip(step, -_LONGEST, _LONGEST), least, most)
            tried = residuals(np.exp(there))
            if _loss(tried) < loss:
                place, groups, loss = there, tried, _loss(tried)
                damping = max(damping / 5, 1e-9)
                break
            damping *= 4
        if before - loss <= _SETTLED * before:
            break
    return Solution(tuple(float(x) for x in np.exp(place)), loss)


def _loss(groups: Sequence[Vector]) -> float:
    return float(sum(_root(group) for group in groups))


def _root(group: Vector) -> float:
    return float(np.sqrt(np.mean(group**2))) if len(group) else 0.0


def _weights(groups: Sequence[Vector]) -> Vector:
    return np.concatenate(
        [np.full(len(g), 1.0 / np.sqrt(len(g) * max(_root(g), _EXACT))) for g in groups if len(g)]
    )


def _jacobian(residuals: Residuals, place: Vector, groups: Sequence[Vector]) -> Vector:
    here = np.concatenate(groups)
    columns = []
    for index in range(len(place)):
        beside = place.copy()
        beside[index] += _STEP
        columns.append((np.concatenate(residuals(np.exp(beside))) - here) / _STEP)
    return np.stack(columns, axis=1)
