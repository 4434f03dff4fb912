"""Least squares without negative factors, for curves of few terms.

The problem is small enough for an exhaustive search: the optimum is the plain least-squares
solution on its positive factors, so it is the best of all sets of factors whose solution is all
positive.
"""

from collections.abc import Sequence
from itertools import combinations

Point = tuple[int, float]  # size, seconds of one iteration

# A larger set of factors must be better than a smaller one by more than rounding, relative to the
# squared error; if the error is near zero, relative to the squares of the fitted values.
_ROUNDING, _NOTHING = 1e-9, 1e-20
_SINGULAR = 1e-12


def non_negative_least_squares(
    rows: Sequence[Sequence[float]], values: Sequence[float]
) -> tuple[float, ...]:
    """Non-negative factors that minimise the squared error of rows times factors."""
    columns = len(rows[0])
    best = (0.0,) * columns
    best_error = nothing_fitted = _error(rows, values, best)
    for count in range(1, columns + 1):
        for chosen in combinations(range(columns), count):
            part = _least_squares([[row[c] for c in chosen] for row in rows], values)
            if part is None or min(part) <= 0:
                continue
            full = [0.0] * columns
            for column, factor in zip(chosen, part, strict=True):
                full[column] = factor
            error = _error(rows, values, full)
            if error < best_error * (1.0 - _ROUNDING) - nothing_fitted * _NOTHING:
                best, best_error = tuple(full), error
    return best


def _error(
    rows: Sequence[Sequence[float]], values: Sequence[float], factors: Sequence[float]
) -> float:
    errors = (
        sum(f * x for f, x in zip(factors, row, strict=True)) - value
        for row, value in zip(rows, values, strict=True)
    )
    return sum(error * error for error in errors)


def _least_squares(
    rows: Sequence[Sequence[float]], values: Sequence[float]
) -> tuple[float, ...] | None:
    """The solution of the normal equations, or None if the columns are not independent."""
    columns = range(len(rows[0]))
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in columns]
        + [sum(row[i] * value for row, value in zip(rows, values, strict=True))]
        for i in columns
    ]
    scale = max(matrix[i][i] for i in columns)
    for pivot in columns:
        swap = max(range(pivot, len(matrix)), key=lambda i: abs(matrix[i][pivot]))
        matrix[pivot], matrix[swap] = matrix[swap], matrix[pivot]
        if abs(matrix[pivot][pivot]) <= _SINGULAR * scale:
            return None
        for i in columns:
            if i != pivot:
                factor = matrix[i][pivot] / matrix[pivot][pivot]
                matrix[i] = [x - factor * y for x, y in zip(matrix[i], matrix[pivot], strict=True)]
    return tuple(matrix[i][-1] / matrix[i][i] for i in columns)
