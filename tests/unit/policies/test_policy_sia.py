"""Sia: the least sum of costs, exactly."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from treadle.policies.simple.sia import cheapest

_options = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 9).map(lambda tenths: tenths / 10)),
    min_size=1,
    max_size=3,
    unique_by=lambda option: option[0],
)


@given(jobs=st.lists(_options, min_size=1, max_size=4), devices=st.integers(0, 8))
def test_no_other_sizes_cost_less(jobs: list[list[tuple[int, float]]], devices: int) -> None:
    idle = 1.0

    def cost(sizes: tuple[int, ...]) -> float:
        return sum(dict(options).get(size, idle) for options, size in zip(jobs, sizes, strict=True))

    found = tuple(cheapest(jobs, devices, idle))
    assert sum(found) <= devices
    offers = [[0, *(size for size, _ in options)] for options in jobs]
    least = min(cost(sizes) for sizes in product(*offers) if sum(sizes) <= devices)
    assert abs(cost(found) - least) < 1e-9
