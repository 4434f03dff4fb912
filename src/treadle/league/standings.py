"""What the cells of a league add up to: rows, ranks, ratios and confidence intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any, NamedTuple

from treadle.league.processes import Outcome

KNOWN, BLIND, LEARNED, ALL = "known", "blind", "learned", "all"
# The information classes, in the order in which they are shown.
GROUPS = {
    KNOWN: "lengths are known",
    BLIND: "lengths are not used",
    LEARNED: "speeds and lengths are learned from what runs",
    ALL: "each with the lengths that it uses",
}
# 97.5 % of Student's t distribution, by degrees of freedom; beyond the table, the normal's.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.96
_TAIL = 0.025  # of resampled values, on each side of a 95 % interval
# A row without figures is a loss: it counts as this many times the worst mean of its class, or of
# the best where no row of the class has figures.
LOSS = 2.0
_MEANS = (  # figures of a cell whose mean over the seeds is the row's
    *("p99_s", "longest_s", "makespan_s", "unfairness", "moves", "decide_cpu_s"),
    *("bound_alone_s", "bound_shared_s"),
)


class Played(NamedTuple):
    """The outcome of one cell, with its place in the league."""

    workload: str
    policy: str
    group: str  # the information class
    seed: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One policy on one workload, over all seeds; figures are means over the seeds."""

    workload: str
    policy: str
    group: str
    seeds: int
    trouble: str = ""  # why it has no figures: the row is a loss, and has ratios alone
    mean_s: float = 0.0
    low_s: float = 0.0  # 95 % interval of the mean: over seeds, or over jobs if there is one seed
    high_s: float = 0.0
    p99_s: float = 0.0
    longest_s: float = 0.0
    makespan_s: float = 0.0
    unfairness: float = 0.0
    moves: float = 0.0
    decide_cpu_s: float = 0.0
    cpu_max_s: float = 0.0  # of the slowest seed; of one that was cut off, the limit
    peak_mb: float = 0.0  # memory of the largest seed
    bound_alone_s: float = 0.0
    bound_shared_s: float = 0.0
    rank: int = 0  # from 1 within its class; 0: it has no figures
    means_s: tuple[float, ...] = ()  # of each seed
    resampled_s: tuple[float, ...] = ()  # of one seed, the means of jobs drawn again
    to_best: float = 0.0  # its mean over that of the best of its class
    to_best_half: float = 0.0  # half of the 95 % interval of the same over the seeds
    to_other: float = 0.0  # the same over the best of the others; below 1: it is the best
    p99_to_best: float = 0.0  # its p99 over that of the policy with the best mean
    to_shared: float = 0.0  # its mean over the lower bound with sharing

    @property
    def to_alone(self) -> float:
        """Its mean over the lower bound without sharing."""
        return self.mean_s / self.bound_alone_s if self.bound_alone_s else 0.0


@dataclass(frozen=True, slots=True)
class Overall:
    """One policy over all workloads: geometric means of ratios."""

    policy: str
    group: str
    ranked: int  # workloads on which it has figures; the others are losses
    workloads: int
    first: int  # on so many it is the best of its class
    to_best: float
    to_other: float
    p99_to_best: float
    to_shared: float
    worst: float  # the largest ratio to the best
    worst_at: str  # and on which workload
    cpu_max_s: float
    peak_mb: float


def standings(played: Iterable[Played]) -> list[Row]:
    """A row for each workload and policy; within a class, ranked rows by their means first."""
    cells: dict[tuple[str, str, str], list[Outcome]] = {}
    for one in played:
        cells.setdefault((one.workload, one.group, one.policy), []).append(one.outcome)
    groups: dict[tuple[str, str], list[Row]] = {}
    for (workload, group, policy), outcomes in cells.items():
        row = _row(workload, policy, group, outcomes)
        groups.setdefault((workload, group), []).append(row)
    workloads = {workload: place for place, (workload, _) in enumerate(groups)}
    order = sorted(groups, key=lambda key: (workloads[key[0]], list(GROUPS).index(key[1])))
    return [row for key in order for row in _ranked(groups[key])]


def overall(rows: Sequence[Row]) -> list[Overall]:
    """One line for each policy, best geometric mean of its class first."""
    found = []
    for group, policy in dict.fromkeys((row.group, row.policy) for row in rows):
        own = [row for row in rows if (row.group, row.policy) == (group, policy)]
        found.append(_overall(policy, group, own))
    order = {group: place for place, group in enumerate(GROUPS)}
    return sorted(found, key=lambda one: (order[one.group], one.to_best))


def geometric_mean(values: Sequence[float]) -> float:
    """0 if there are none, or one of them is not known."""
    return exp(sum(map(log, values)) / len(values)) if values and all(values) else 0.0


def interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of the mean of a few independent values (Student's t)."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return mean, mean
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    factor = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else _NORMAL
    half = factor * deviation / sqrt(count)
    return mean - half, mean + half


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The interval that 95 % of resampled values are in."""
    in_order = sorted(values)
    cut = round(_TAIL * len(in_order))
    return in_order[cut], in_order[-1 - cut]


def _row(workload: str, policy: str, group: str, outcomes: Sequence[Outcome]) -> Row:
    found = [one.figures for one in outcomes if one.figures is not None]
    troubles = [one.trouble for one in outcomes if one.trouble]
    row = Row(workload=workload, policy=policy, group=group, seeds=len(outcomes))
    if troubles:
        cut_off_s = max(one.cut_off_s for one in outcomes)
        return replace(row, trouble=troubles[0], cpu_max_s=cut_off_s)
    means = [one.mean_s for one in found]
    over_seeds: dict[str, Any] = {n: _mean([getattr(f, n) for f in found]) for n in _MEANS}
    low_s, high_s = interval(means) if len(found) > 1 else middle(found[0].resampled_s)
    return replace(
        row,
        mean_s=_mean(means),
        means_s=tuple(means),
        resampled_s=found[0].resampled_s if len(found) == 1 else (),
        low_s=low_s,
        high_s=high_s,
        **over_seeds,
        cpu_max_s=max(one.cpu_s for one in found),
        peak_mb=max(one.peak_mb for one in found),
    )


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """The rows of one workload and class: those with figures by their means, then the losses."""
    good = sorted((row for row in rows if not row.trouble), key=lambda row: row.mean_s)
    ranked: list[Row] = []
    for place, row in enumerate(good):
        other = next((one for one in good if one is not row), None)
        beaten = 1 / LOSS if len(good) < len(rows) else 0.0  # where all others are losses
        ranked.append(
            replace(
                row,
                rank=place + 1,
                to_best=_over(row.mean_s, good[0].mean_s),
                to_best_half=_half(row, good[0]),
                to_other=_over(row.mean_s, other.mean_s) if other else beaten,
                p99_to_best=_over(row.p99_s, good[0].p99_s),
                to_shared=_over(row.mean_s, row.bound_shared_s),
            )
        )
    return [*ranked, *(_as_loss(row, ranked) for row in rows if row.trouble)]


def _as_loss(row: Row, ranked: Sequence[Row]) -> Row:
    """A row without figures, with the ratios that it counts for."""
    if not ranked:
        return replace(row, to_best=LOSS, to_other=LOSS, p99_to_best=LOSS)
    to_best = LOSS * ranked[-1].to_best
    return replace(
        row,
        to_best=to_best,
        to_other=to_best,
        p99_to_best=LOSS * max(one.p99_to_best for one in ranked),
        to_shared=LOSS * ranked[-1].to_shared,
    )


def _half(row: Row, best: Row) -> float:
    """Half of the interval of the ratios of the same seeds; what all policies share cancels."""
    ratios = [_over(own, other) for own, other in zip(row.means_s, best.means_s, strict=False)]
    low, high = interval(ratios)
    return (high - low) / 2


def _overall(policy: str, group: str, rows: Sequence[Row]) -> Overall:
    worst = max(rows, key=lambda row: row.to_best)
    return Overall(
        policy,
        group,
        ranked=sum(not row.trouble for row in rows),
        workloads=len(rows),
        first=sum(row.rank == 1 for row in rows),
        to_best=geometric_mean([row.to_best for row in rows]),
        to_other=geometric_mean([row.to_other for row in rows]),
        p99_to_best=geometric_mean([row.p99_to_best for row in rows]),
        to_shared=geometric_mean([row.to_shared for row in rows]),
        worst=worst.to_best,
        worst_at=worst.workload,
        cpu_max_s=max(row.cpu_max_s for row in rows),
        peak_mb=max(row.peak_mb for row in rows),
    )


def by_workload(rows: Iterable[Row]) -> Mapping[tuple[str, str], list[Row]]:
    """The rows of each workload and class, in their order."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.workload, row.group), []).append(row)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _over(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
