"""Named policies against the best of the others, workload by workload."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from treadle.league.standings import Row, by_workload, geometric_mean, interval

# A workload whose best mean is this close to the lower bound cannot tell policies apart.
CLOSE_TO_BOUND = 1.03
_TAIL = 0.025  # of resampled ratios, on each side of a 95 % interval


@dataclass(frozen=True, slots=True)
class Duel:
    """A policy and the best of the others of its class on one workload."""

    workload: str
    policy: str
    mean_s: float
    other: str
    other_mean_s: float
    ratio: float  # of the means; below 1: it is better
    low: float  # 95 % interval: ratios of the same seeds, or of the same jobs drawn again
    high: float
    p99_ratio: float
    longest_ratio: float  # of the longest completion times: a job that starves shows here
    best_to_bound: float  # the best mean of the class over the lower bound with sharing

    @property
    def can_tell(self) -> bool:
        """Whether the workload leaves room between the best policy and the lower bound."""
        return self.best_to_bound > CLOSE_TO_BOUND


@dataclass(frozen=True, slots=True)
class Score:
    """A policy over several workloads: geometric means of its ratios."""

    workloads: int
    first: int  # on so many it is no worse than each other policy
    ratio: float
    low: float  # 95 % interval over the workloads (Student's t of the logarithms)
    high: float
    p99_ratio: float
    worst: float


def duels(rows: Sequence[Row], policy: str) -> list[Duel]:
    """One for each workload on which the policy and some other of its class have a rank."""
    return list(_duels(by_workload(rows), policy))


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
        worst=max(one.ratio for one in found),
    )


def _duels(groups: Mapping[tuple[str, str], Sequence[Row]], policy: str) -> Iterator[Duel]:
    for (workload, _), rows in groups.items():
        good = [row for row in rows if row.rank]
        own = next((row for row in good if row.policy == policy), None)
        other = next((row for row in good if row.policy != policy), None)
        if own is None or other is None or not (own.mean_s and other.mean_s):
            continue
        low, high = _limits(own, other)
        yield Duel(
            workload,
            policy,
            own.mean_s,
            other.policy,
            other.mean_s,
            ratio=own.mean_s / other.mean_s,
            low=low,
            high=high,
            p99_ratio=own.p99_s / other.p99_s,
            longest_ratio=own.longest_s / other.longest_s,
            best_to_bound=good[0].to_shared,
        )


def _limits(own: Row, other: Row) -> tuple[float, float]:
    if own.seeds > 1:
        # Of logarithms: with two or three seeds, the interval of the ratios may begin below 0.
        pairs = zip(own.means_s, other.means_s, strict=True)
        low, high = interval([log(a / b) for a, b in pairs])
        return exp(low), exp(high)
    ratios = sorted(a / b for a, b in zip(own.resampled_s, other.resampled_s, strict=True))
    if not ratios:
        return own.mean_s / other.mean_s, own.mean_s / other.mean_s
    cut = round(_TAIL * len(ratios))
    return ratios[cut], ratios[-1 - cut]
