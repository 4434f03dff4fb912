"""Which arguments matter is learned: numbers, words, and those that change nothing."""

from math import exp, log
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.models.learning.commands import Arguments
from treadle.models.learning.effects import FITTED_MAX, LENGTH, NEED, Effects, Number, Row

VALUES = ["1", "2", "1e9", "x", "-3", "/p"]


def arguments(**values: object) -> Arguments:
    return tuple(sorted((name, str(value)) for name, value in values.items()))


def sweep(runs: int, seed: int, noise: float = 0.03) -> list[Row]:
    """Lengths go by epochs and the model; the rate and the seed are nothing to them."""
    random, rows = Random(seed), []
    for number in range(runs):
        epochs, model = random.choice((2, 5, 10, 20)), random.choice(("small", "large"))
        length = 7.0 * epochs * (4.0 if model == "large" else 1.0) * exp(random.gauss(0, noise))
        rate = random.choice((0.1, 0.03, 0.01))
        rows.append((arguments(epochs=epochs, model=model, lr=rate, seed=number), length))
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_arguments_that_matter_are_told_from_those_that_do_not(seed: int) -> None:
    effects = Effects.of(sweep(24, seed), LENGTH)
    assert set(effects.parts) == {"epochs", "model"}
    part = effects.parts["epochs"]
    assert isinstance(part, Number)
    assert part.slope == pytest.approx(1.0, abs=0.1)
    assert sum(effects.explained.values()) > 0.95


@settings(deadline=None, max_examples=30)
@given(st.integers(12, 40), st.integers(0, 50), st.integers(1, 60), st.booleans())
def test_a_length_is_foretold_from_runs_with_other_arguments(
    runs: int, seed: int, epochs: int, large: bool
) -> None:
    rows = sweep(runs, seed)
    effects = Effects.of(rows, LENGTH)
    model = "large" if large else "small"
    asked = arguments(epochs=epochs, model=model, lr=0.3, seed=10**6)
    true = log(7.0 * epochs * (4.0 if large else 1.0))
    for seen, length in rows:
        step = effects.step(seen, asked)
        assert abs(log(length) + step.shift - true) < 0.3 + 3 * step.doubt


def test_equal_arguments_leave_no_doubt_and_untried_ones_much() -> None:
    rows = [(arguments(epochs=1, data="/a"), 6.0)] * 3
    effects = Effects.of(rows, LENGTH)
    seen = rows[0][0]
    assert effects.step(seen, seen) == (0.0, 0.0)
    steps = [
        effects.step(seen, arguments(epochs=epochs, data=data))
        for epochs, data in ((1, "/a2"), (1, "/b"), (2, "/a"), (100, "/a"))
    ]
    assert [step.doubt for step in steps] == sorted(step.doubt for step in steps)
    low, high = (steps[3].shift + side * steps[3].doubt for side in (-1, 1))
    assert low <= 0.0
    assert high >= log(100)


def test_a_number_that_was_varied_for_nothing_adds_little_doubt() -> None:
    rows = [(arguments(seed=seed), 100.0 + seed) for seed in range(1, 7)]
    step = Effects.of(rows, LENGTH).step(rows[0][0], arguments(seed=77))
    assert abs(step.shift) < 0.05
    assert step.doubt < 0.25


def test_numbers_that_only_varied_together_are_not_told_apart() -> None:
    rows = [(arguments(epochs=n, batch=n), 3.0 * n) for n in (4, 8, 16)]
    effects = Effects.of(rows, LENGTH)
    assert effects.step(rows[0][0], arguments(epochs=8, batch=8)).doubt < 0.4
    assert effects.step(rows[0][0], arguments(epochs=4, batch=64)).doubt > 0.6


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.sampled_from(VALUES)), st.floats(1e-3, 1e9)
        ),
        max_size=80,
    ),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "7", "y", ""])),
)
def test_any_runs_can_be_fitted_and_say_something_finite(
    runs: list[tuple[dict[str, str], float]], asked: dict[str, str]
) -> None:
    rows = [(arguments(**values), seen) for values, seen in runs]
    for figure in (LENGTH, NEED):
        effects = Effects.of(rows, figure)
        assert effects.runs == min(FITTED_MAX, len(rows))
        for seen, _ in rows:
            step = effects.step(seen, arguments(**asked))
            assert abs(step.shift) < 1e3
            assert 0.0 <= step.doubt < 1e3
