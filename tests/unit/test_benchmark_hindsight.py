"""Ranges with hindsight hold their share of the waits, and no shorter stretch does."""

from benchmarks.hindsight import narrowest, with_hindsight
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.learning.start_errors import PROMISED


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 5)), min_size=1, max_size=25))
def test_the_narrowest_range_is_the_shortest_of_all_that_hold_enough(
    rows: list[tuple[int, int]],
) -> None:
    rows.sort()
    values, weights = [float(value) for value, _ in rows], [float(weight) for _, weight in rows]
    wanted = PROMISED * sum(weights) * (1.0 - 1e-9)
    widths = [
        values[last] - values[first]
        for first in range(len(values))
        for last in range(first, len(values))
        if sum(weights[first : last + 1]) >= wanted
    ]
    low_s, high_s = narrowest(values, weights)
    assert high_s - low_s == min(widths)


def test_waits_with_other_simulations_do_not_count() -> None:
    short = [(10.0, 10.0 + number) for number in range(20)]
    long = [(10_000.0, 20_000.0 + number) for number in range(20)]
    ranges = with_hindsight([*long, *short])
    assert all(low_s >= 20_000.0 for low_s, _ in ranges[:20])
    assert all(high_s <= 29.0 for _, high_s in ranges[20:])
