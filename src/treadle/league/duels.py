"""Named policies against the best of the others, workload by workload."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from treadle.league.standings import Row, by_workload, geometric_mean, interval, middle


@dataclass(frozen=True, slots=True)
class Duel:
    """A policy and the best of the others of its class on one workload."""

    workload: str
    policy: str
    mean_s: float  # 0: it has no figures, and the ratios are those of a loss
    other: str
    other_mean_s: float  # the same of the other
    ratio: float  # of the means; below 1: it is better
    low: float  # 95 % interval: ratios of the same seeds, or of the same jobs drawn again
    high: float
    p99_ratio: float
    longest_ratio: float  # of the longest completion times: a job that starves shows here


@dataclass(frozen=True, slots=True)
class Score:
    """A policy over several workloads: geometric means of its ratios."""

    workloads: int
    first: int  # workloads on which it is no worse than each other policy
    ratio: float
    low: float  # 95 % interval over the workloads (Student's t of the logarithms)
    high: float
    p99_ratio: float
    longest_ratio: float


def duels(rows: Sequence[Row], policy: str) -> list[Duel]:
    """One for each workload on which some other policy of its class runs."""
    found = []
    for group in by_workload(rows).values():
        own = next((row for row in group if row.policy == policy), None)
        other = next((row for row in group if row.policy != policy), None)
        if own is not None and other is not None:
            found.append(_duel(own, other))
    return found


def score(found: Sequence[Duel]) -> Score:
    """What duels add up to; there is at least one."""
    low, high = interval([log(one.ratio) for one in found])
    return Score(
        workloads=len(found),
        first=sum(one.ratio <= 1 for one in found),
        ratio=geometric_mean([one.ratio for one in found]),
        low=exp(low),
        high=exp(high),
        p99_ratio=geometric_mean([one.p99_ratio for one in found]),
        longest_ratio=geometric_mean([one.longest_ratio for one in found]),
    )


def _duel(own: Row, other: Row) -> Duel:
    low = high = p99 = longest = own.to_other
    if not (own.trouble or other.trouble):
        low, high = _limits(own, other)
        p99, longest = own.p99_s / other.p99_s, own.longest_s / other.longest_s
    return Duel(
        own.workload,
        own.policy,
        own.mean_s,
        other.policy,
        other.mean_s,
        ratio=own.to_other,
        low=low,
        high=high,
        p99_ratio=p99,
        longest_ratio=longest,
    )


def _limits(own: Row, other: Row) -> tuple[float, float]:
    if own.seeds > 1:
        # Of logarithms: with two or three seeds, the interval of the ratios may begin below 0.
        pairs = zip(own.means_s, other.means_s, strict=True)
        low, high = interval([log(a / b) for a, b in pairs])
        return exp(low), exp(high)
    return middle([a / b for a, b in zip(own.resampled_s, other.resampled_s, strict=True)])
