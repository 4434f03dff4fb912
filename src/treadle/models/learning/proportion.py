"""Whether one number of a command line says how long a job is: `--epochs 1` and `--epochs 100`."""

from collections.abc import Sequence
from math import log

from treadle.models.learning.speeds import median

RUNS_MIN = 2
SPREAD_SHARE = 0.5  # lengths per unit must vary at most so much, of what lengths themselves do
SPREAD_MIN = 0.05  # in logarithms: less is noise
VALUES_MIN = 3  # of a number, before lengths are seen not to follow it

Row = tuple[float, tuple[float, ...]]  # an amount, and the numbers of its command line


def amounts(rows: Sequence[Row], numbers: tuple[float, ...]) -> list[float]:
    """Steps of a job with these numbers: as many as others had, or in proportion to a number.

    Several where it is not known which of the numbers it is, or whether any is.
    """
    positions = stated(rows, numbers) or proportional(rows, numbers)
    found = set[float]()
    if not positions:
        found.add(median([total for total, _ in rows]))
        positions = untried(rows, numbers)
    usable = [(total, its) for total, its in rows if len(its) == len(numbers)]
    found |= {
        median([total / its[position] for total, its in usable]) * numbers[position]
        for position in positions
    }
    return sorted(found)


def untried(rows: Sequence[Row], numbers: tuple[float, ...]) -> tuple[int, ...]:
    """Which of these numbers are other than the one that all runs had: none shows what it does."""
    usable = [its for _, its in rows if len(its) == len(numbers)]
    return tuple(
        position
        for position, number in enumerate(numbers)
        if number > 0
        and len(seen := {its[position] for its in usable}) == 1
        and min(seen) > 0
        and number not in seen
    )


def proportional(rows: Sequence[Row], numbers: tuple[float, ...]) -> tuple[int, ...]:
    """Which of these numbers the amounts may be in proportion to; none if none explains them.

    Several where they explain the amounts equally well: only later runs tell them apart.
    """
    usable = [(amount, its) for amount, its in rows if amount > 0 and len(its) == len(numbers)]
    if len(usable) < RUNS_MIN:
        return ()
    spread = _spread([log(amount) for amount, _ in usable])
    if spread <= SPREAD_MIN:
        return ()
    found: dict[int, float] = {}
    for position, number in enumerate(numbers):
        if number <= 0 or any(its[position] <= 0 for _, its in usable):
            continue
        left = _spread([log(amount / its[position]) for amount, its in usable])
        if left <= SPREAD_SHARE * spread:
            found[position] = left
    least = min(found.values(), default=0.0)
    return tuple(position for position, left in found.items() if left <= least + SPREAD_MIN)


def idle(rows: Sequence[Row], numbers: tuple[float, ...]) -> frozenset[int]:
    """Which of these numbers the amounts were seen not to follow, such as `--seed`.

    Many values were tried, and the amounts varied much less than these, whatever made them vary.
    """
    usable = [(amount, its) for amount, its in rows if amount > 0 and len(its) == len(numbers)]
    if not usable:
        return frozenset()
    spread = max(SPREAD_MIN, _spread([log(amount) for amount, _ in usable]))
    found = set()
    for position in range(len(numbers)):
        values = [its[position] for _, its in usable]
        positive = [value for value in values if value > 0]
        if len({*values}) >= VALUES_MIN and (
            len(positive) < len(values)  # No job takes no time.
            or spread <= SPREAD_SHARE * _spread([log(value) for value in positive])
        ):
            found.add(position)
    return frozenset(found)


def stated(totals: Sequence[Row], numbers: tuple[float, ...]) -> tuple[int, ...]:
    """Which of these numbers may be the number of steps itself, as in `--steps 400`.

    One run is enough: that a job says "step 1/400" is no accident. After `--batch 64 --steps 64`,
    either number may be it.
    """
    usable = [(total, its) for total, its in totals if len(its) == len(numbers)]
    return tuple(
        position
        for position, number in enumerate(numbers)
        if number > 0 and usable and all(total == its[position] for total, its in usable)
    )


def _spread(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return float((sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5)
