"""Long curves made short: few enough points for a screen, and still true."""

from collections.abc import Iterable, Sequence

BINS_MAX = 1500  # points of a curve over time; no screen shows more
POINTS_MAX = 1000  # points of a distribution


def binned(
    at: Sequence[float], values: Sequence[float], *, from_at: float, step_s: float, bins: int
) -> list[float]:
    """The time-weighted mean of a staircase in each bin; nothing lasts past the last moment."""
    sums = [0.0] * bins
    for index in range(len(at) - 1):
        value = values[index]
        if not value:
            continue
        start, stop = (at[index] - from_at) / step_s, (at[index + 1] - from_at) / step_s
        first, last = min(int(start), bins - 1), min(int(stop), bins - 1)
        if first == last:
            sums[first] += (stop - start) * value
            continue
        sums[first] += (first + 1 - start) * value
        for middle in range(first + 1, last):
            sums[middle] += value
        sums[last] += (stop - last) * value
    used = int((at[-1] - from_at) / step_s) + 1 if at else 0
    return [short(total) for total in sums[:used]]


def sampled(values: Iterable[float]) -> dict[str, object]:
    """Evenly chosen ranks of a distribution, the smallest and the largest among them."""
    ordered = sorted(values)
    count = len(ordered)
    if count > POINTS_MAX:
        ranks = [index * (count - 1) // (POINTS_MAX - 1) for index in range(POINTS_MAX)]
        ordered = [ordered[rank] for rank in ranks]
    return {"count": count, "values": [float(f"{value:.6g}") for value in ordered]}


def short(value: float) -> float:
    """Two digits after the point, none where they are zeros: it halves the page."""
    rounded = round(value, 2)
    return int(rounded) if rounded == int(rounded) else rounded
