"""Least squares without negative factors."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.models.fitted import non_negative_least_squares


@given(
    rows=st.lists(st.tuples(*[st.floats(0, 5)] * 3), min_size=3, max_size=6),
    elsewhere=st.tuples(*[st.floats(0, 3)] * 3),
)
def test_no_other_factors_are_nearer(
    rows: list[tuple[float, float, float]], elsewhere: tuple[float, float, float]
) -> None:
    def error(factors: tuple[float, ...]) -> float:
        sums = [sum(f * x for f, x in zip(factors, row, strict=True)) for row in rows]
        return sum((total - 1.0) ** 2 for total in sums)

    best = non_negative_least_squares(rows, [1.0] * len(rows))
    assert min(best) >= 0
    assert error(best) <= error(elsewhere) + 1e-7


def test_points_that_do_not_tell_factors_apart_are_fitted_by_the_fewest() -> None:
    assert non_negative_least_squares([[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0]) == (1.0, 0.0)
