"""Downsample long curves to as many points as a screen can show."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

BINS_MAX = 1500  # points of a curve over time; no screen shows more
POINTS_MAX = 1000  # points of a distribution


def binned(
    at: Sequence[float], values: Sequence[float], *, from_at: float, step_s: float, bins: int
) -> list[float]:
    """The time-weighted mean of a step function in each bin; it ends at the last moment."""
    sums = [0.0] * bins
    for value, start, stop in _stairs(at, values, from_at=from_at, step_s=step_s, bins=bins):
        first, last = min(int(start), bins - 1), min(int(stop), bins - 1)
        if first == last:
            sums[first] += (stop - start) * value
            continue
        sums[first] += (first + 1 - start) * value
        for middle in range(first + 1, last):
            sums[middle] += value
        sums[last] += (stop - last) * value
    return [short(total) for total in sums[: _used(at, from_at, step_s)]]


def peaks(
    at: Sequence[float], values: Sequence[float], *, from_at: float, step_s: float, bins: int
) -> list[float]:
    """The largest value of a step function in each bin, however short."""
    most = [0.0] * bins
    for value, start, stop in _stairs(at, values, from_at=from_at, step_s=step_s, bins=bins):
        first, last = min(int(start), bins - 1), min(int(stop), bins - 1)
        if last > first and last == stop:
            last -= 1  # The step ends where that bin begins.
        for place in range(first, last + 1):
            most[place] = max(most[place], value)
    return [short(value) for value in most[: _used(at, from_at, step_s)]]


def sampled(values: Iterable[float]) -> dict[str, object]:
    """Evenly spaced ranks of a distribution, including the smallest and the largest."""
    ordered = sorted(filter(isfinite, values))
    count = len(ordered)
    if count > POINTS_MAX:
        ranks = [index * (count - 1) // (POINTS_MAX - 1) for index in range(POINTS_MAX)]
        ordered = [ordered[rank] for rank in ranks]
    return {"count": count, "values": [float(f"{value:.6g}") for value in ordered]}


def short(value: float) -> float:
    """Two decimals, none if they are zeros: this halves the page."""
    rounded = round(float(value), 2)
    return int(rounded) if abs(rounded) < 1e15 and rounded.is_integer() else rounded


def _stairs(
    at: Sequence[float], values: Sequence[float], *, from_at: float, step_s: float, bins: int
) -> Iterator[tuple[float, float, float]]:
    """Each nonzero value with its start and end in bins, clipped to the bins."""
    for index in range(len(at) - 1):
        value = values[index]
        if not value or not isfinite(value):
            continue
        start = max((at[index] - from_at) / step_s, 0.0)
        stop = min((at[index + 1] - from_at) / step_s, bins)
        if stop > start:
            yield value, start, stop


def _used(at: Sequence[float], from_at: float, step_s: float) -> int:
    """The number of bins up to the last moment."""
    return max(int((at[-1] - from_at) / step_s) + 1, 0) if at and at[-1] >= from_at else 0
