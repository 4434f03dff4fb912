"""What is assumed of a job's length on a machine on which nothing has run yet.

Quantiles of the running times in Microsoft's Philly cluster (Jeon et al., USENIX ATC 2019): the
released log's notebook for jobs on one device, on 2 to 4, 5 to 8 and more. It must not be shown
as an estimate: where it is all that is known, the length is unknown.
"""

from functools import cache

from treadle.models.lengths.distribution import Lengths

_SHARES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
_MINUTES = (
    (1, (0.93, 2.0, 19.2, 62.0, 240.0, 697.0)),
    (4, (0.30, 1.5, 29.0, 1000.0, 3446.0, 6621.0)),
    (8, (1.3, 14.6, 206.0, 1733.0, 5770.0, 9498.0)),
)
_LARGE = (0.84, 7.9, 136.0, 902.0, 2902.0, 5575.0)
_PIECES = 5  # points between two quantiles


def philly(size: int) -> Lengths:
    """Running times of jobs of such a size."""
    return _philly(next((row for largest, row in _MINUTES if size <= largest), _LARGE))


@cache
def _philly(minutes: tuple[float, ...]) -> Lengths:
    points: list[tuple[float, float]] = [(minutes[0] * 60.0 * 0.6, _SHARES[0])]
    for below in range(len(_SHARES) - 1):
        mass = (_SHARES[below + 1] - _SHARES[below]) / _PIECES
        ratio = minutes[below + 1] / minutes[below]
        points += [
            (minutes[below] * 60.0 * ratio ** ((piece + 0.5) / _PIECES), mass)
            for piece in range(_PIECES)
        ]
    points.append((minutes[-1] * 60.0, 0.0))
    return Lengths.of(points, tail=1.0 - _SHARES[-1])
