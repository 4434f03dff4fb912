"""Stratified samples that match their distribution: counts by quota, values by strata."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import exp, inf, log
from random import Random
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

Knots = Sequence[tuple[float, float]]  # (share of the population, value), both ascending


def quotas(total: int, shares: Mapping[Key, float]) -> dict[Key, int]:
    """Whole counts in proportion to the shares that add up to the total (largest remainder)."""
    whole = sum(shares.values())
    exact = {key: total * share / whole for key, share in shares.items()}
    counts = {key: int(value) for key, value in exact.items()}
    by_remainder = sorted(exact, key=lambda key: counts[key] - exact[key])
    for key in by_remainder[: total - sum(counts.values())]:
        counts[key] += 1
    return counts


def strata(random: Random, count: int, *, jitter: float) -> list[float]:
    """One number in the middle of each of `count` equal parts of 0..1, moved by up to jitter/2."""
    return [(place + 0.5 + jitter * (random.random() - 0.5)) / count for place in range(count)]


def quantiles(knots: Knots, shares: Iterable[float]) -> list[float]:
    """The values at ascending shares, by straight lines in their logarithms between knots."""
    values: list[float] = []
    upper, low, base, slope = 0, -inf, log(knots[0][1]), 0.0
    for share in shares:
        while upper < len(knots) and share >= knots[upper][0]:
            low, value = knots[upper]
            base, slope, upper = log(value), 0.0, upper + 1
            if upper < len(knots):
                slope = (log(knots[upper][1]) - base) / (knots[upper][0] - low)
        values.append(exp(base + slope * (share - low)) if slope else exp(base))
    return values


def share_below(knots: Knots, value: float) -> float:
    """The share whose value lies below this one: the inverse of `quantiles`."""
    for (low, floor), (high, ceiling) in pairwise(knots):
        if value < ceiling:
            return low + (high - low) * max(0.0, log(value / floor) / log(ceiling / floor))
    return 1.0
