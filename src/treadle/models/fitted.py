"""A scaling curve of five terms, fitted to measured iteration times.

The time of one iteration on n devices, relative to one device, is modelled as

    shared / n + fixed + several·[n > 1] + across·[n > node] + nodes·max(0, n / node − 1):

parallel work, serial work, the cost of communicating at all, of leaving the node, and of every
further node. No term can be negative. The problem is small enough for an exhaustive search: the
optimum is the plain least-squares solution on its positive terms, so it is the best of the 31 sets
of terms whose solution is all positive.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from treadle.core.errors import InvalidInputError

Point = tuple[int, float]  # size, seconds of one iteration

# A larger set of terms must be better than a smaller one by more than rounding, relative to the
# squared error; if the error is near zero, relative to the squares of the fitted values.
_ROUNDING, _NOTHING = 1e-9, 1e-20
_SINGULAR = 1e-12


@dataclass(frozen=True, slots=True)
class Scaling:
    """The five terms, as shares of the time on one device."""

    shared: float
    fixed: float
    several: float = 0.0
    across: float = 0.0
    nodes: float = 0.0
    node: int = 4  # devices of a node

    def __post_init__(self) -> None:
        if not (min(self.terms) >= 0 and self.shared + self.fixed > 0):
            raise InvalidInputError(
                f"a scaling's terms must be 0 or more, and one device take some time, "
                f"not {self.terms}"
            )

    @property
    def terms(self) -> tuple[float, ...]:
        return (self.shared, self.fixed, self.several, self.across, self.nodes)

    def ratio(self, size: int) -> float:
        """Time of one iteration on `size` devices, over the measured time on one."""
        return sum(t * x for t, x in zip(self.terms, _features(size, self.node), strict=True))

    def speedup(self, size: int) -> float:
        """Speed on `size` devices over speed on one, both by the curve."""
        return self.ratio(1) / self.ratio(size)

    def curve(self, sizes: Iterable[int], single_s: float) -> tuple[Point, ...]:
        """A `Profile.curve`: seconds of one iteration at each of these sizes."""
        return tuple((size, single_s * self.ratio(size)) for size in sizes)

    def error(self, points: Sequence[Point]) -> float:
        """The largest error at any of these points, relative to the measurement."""
        single_s = _single_s(points)
        return max(abs(single_s * self.ratio(size) - s) / s for size, s in points)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit and its largest error."""

    scaling: Scaling
    single_s: float  # the measured time on one device, of which the terms are shares
    error: float  # at the worst point, relative to the measurement


def fit(points: Sequence[Point], *, node: int = 4) -> Fitted:
    """The scaling with the least squared relative error at the measured points.

    Relative, because a schedule compares speeds: an error of 10 % at 52 devices matters as much as
    at two. If the points do not determine all terms, the smallest set with the same error is used.
    """
    _check(points)
    single_s = _single_s(points)
    rows = [[x * single_s / seconds for x in _features(size, node)] for size, seconds in points]
    shared, fixed, *others = non_negative_least_squares(rows, [1.0] * len(rows))
    several, across, nodes = others
    scaling = Scaling(shared, fixed, several, across, nodes, node)
    return Fitted(scaling, single_s, scaling.error(points))


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


def _features(size: int, node: int) -> tuple[float, ...]:
    return (
        1.0 / size,
        1.0,
        float(size > 1),
        float(size > node),
        max(0.0, size / node - 1.0),
    )


def _single_s(points: Sequence[Point]) -> float:
    return points[0][1]


def _check(points: Sequence[Point]) -> None:
    sizes = [size for size, _ in points]
    if not points or sizes[0] != 1 or any(seconds <= 0 for _, seconds in points):
        raise InvalidInputError(
            f"a scaling is fitted to seconds above 0, the first on one device, not {list(points)}"
        )


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
