"""Distributions of lengths: what must hold of every one of them."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.lengths.coverage import SHARE_MAX, Level
from treadle.models.lengths.distribution import LENGTH_MAX_S, Lengths, mixture
from treadle.models.lengths.gittins import gittins
from treadle.models.lengths.histogram import Histogram
from treadle.models.lengths.prior import philly
from treadle.models.lengths.survival import Seen, kaplan_meier

_seconds = st.floats(0.01, 1e6)
_seen = st.lists(
    st.builds(Seen, _seconds, st.booleans(), st.floats(0.05, 1.0)), min_size=1, max_size=20
).filter(lambda seen: any(one.whole for one in seen))
_ages = st.floats(0.0, 1e6)


@st.composite
def _lengths(draw: st.DrawFn) -> Lengths:
    lengths = kaplan_meier(draw(_seen))
    assert lengths is not None
    return draw(st.sampled_from([lengths, mixture([(lengths, 0.7), (philly(1), 0.3)])]))


@given(_lengths(), _seconds, _seconds)
def test_survival_falls_from_one_and_quantiles_rise(
    lengths: Lengths, first: float, second: float
) -> None:
    low, high = sorted((first, second))
    assert 1.0 >= lengths.survival(low) >= lengths.survival(high) - 1e-9 >= -1e-9
    assert lengths.survival(-1.0) == 1.0
    assert lengths.survival(inf) == pytest.approx(0.0, abs=1e-9)
    shares = [number / 20 for number in range(21)]
    quantiles = [lengths.quantile(share) for share in shares]
    assert quantiles == sorted(quantiles)


@given(_lengths(), _ages, _ages)
def test_growing_older_in_two_steps_is_the_same_as_in_one(
    lengths: Lengths, first: float, second: float
) -> None:
    steps, once = lengths.given(first).given(second), lengths.given(first + second)
    for share in (0.1, 0.5, 0.9):
        assert steps.quantile(share) == pytest.approx(once.quantile(share), rel=1e-5, abs=1e-3)
    assert steps.mean() == pytest.approx(once.mean(), rel=1e-5, abs=1e-3)


@given(_lengths(), _ages, _seconds)
def test_what_remains_at_an_age_survives_as_the_whole_does(
    lengths: Lengths, age_s: float, more_s: float
) -> None:
    alive = lengths.survival(age_s)
    if alive > 1e-6:
        then = lengths.survival(age_s + more_s) / alive
        assert lengths.given(age_s).survival(more_s) == pytest.approx(then, abs=1e-4)


@given(_lengths(), _seconds)
def test_a_time_limit_bounds_everything(lengths: Lengths, limit_s: float) -> None:
    cut = lengths.cut(limit_s)
    assert cut.mean() <= max(1e-3, limit_s) * (1 + 1e-9)
    assert cut.quantile(1.0) <= limit_s
    assert cut.survival(limit_s) == pytest.approx(0.0, abs=1e-9)
    assert cut.mean() <= lengths.mean() * (1 + 1e-6) + 2e-3


@given(_lengths(), _ages, st.floats(0.1, 0.98), st.floats(0.1, 0.98))
def test_means_are_not_negative_and_wider_ranges_hold_narrower_ones(
    lengths: Lengths, age_s: float, first: float, second: float
) -> None:
    left = lengths.given(age_s)
    assert left.mean() >= 0
    narrow, wide = (left.span(coverage) for coverage in sorted((first, second)))
    assert wide.low_s <= narrow.low_s <= narrow.high_s <= wide.high_s


@given(_lengths(), st.floats(0.01, 100.0))
def test_twice_as_slow_takes_twice_as_long(lengths: Lengths, factor: float) -> None:
    scaled = lengths.scaled(factor)
    assert scaled.mean() == pytest.approx(factor * lengths.mean())
    assert scaled.quantile(0.5) == pytest.approx(min(LENGTH_MAX_S, factor * lengths.quantile(0.5)))


@given(_seen, _seconds, _seconds)
def test_a_length_that_was_cut_off_never_shortens_the_estimate(
    seen: list[Seen], cut_off: float, at: float
) -> None:
    before = kaplan_meier(seen)
    after = kaplan_meier([*seen, Seen(cut_off, whole=False)])
    assert before is not None
    assert after is not None
    assert after.survival(at) >= before.survival(at) - 1e-9
    assert after.mean() >= before.mean() * (1 - 1e-9)


@given(st.lists(_seconds, min_size=1, max_size=30))
def test_nothing_cut_off_leaves_the_shares_that_were_seen(lengths: list[float]) -> None:
    found = kaplan_meier([Seen(one) for one in lengths], doubt=0.0)
    assert found is not None
    for at in lengths:
        longer = sum(one > at for one in lengths) / len(lengths)
        assert found.survival(at) == pytest.approx(longer, abs=1e-6)


@given(_lengths(), _ages)
def test_an_index_is_positive_and_a_certain_job_gains_by_every_second(
    lengths: Lengths, age_s: float
) -> None:
    assert gittins(lengths, age_s) > 0
    sure = Lengths.exactly(100.0)
    assert gittins(sure, 50.0) == pytest.approx(1 / 50)
    assert gittins(sure) == pytest.approx(1 / 100)


def test_a_job_that_may_be_short_goes_before_one_of_the_same_mean() -> None:
    gamble = Lengths.of(((1.0, 0.5), (199.0, 0.5)))
    sure = Lengths.exactly(100.0)
    assert gamble.mean() == sure.mean()
    assert gittins(gamble) > gittins(sure) > gittins(gamble, 1.5)


# -- ranges that correct themselves ---------------------------------------------------------------


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_a_range_that_is_too_narrow_at_first_ends_up_holding_what_it_promises(
    spread: float,
) -> None:
    """The true lengths lie evenly, in logarithms, over more than the distribution says."""
    said = Lengths.of((1000.0 * 2.718281828 ** (number / 50 - 1), 1.0) for number in range(101))
    level, held = Level(), 0
    for number in range(4000):
        draw = (number * 0.6180339887498949) % 1.0  # evenly, and in no order
        seconds = 1000.0 * (2.718281828 ** (spread * (draw - 0.5)))
        span = said.span(level.share)
        inside = span.low_s <= seconds <= span.high_s
        held += number >= 1000 and inside
        level = level.after(held=inside)
    expected = 0.75 if spread * SHARE_MAX <= 2.0 else 0.6  # No share holds what is outside of all.
    assert held / 3000 >= expected


@given(st.lists(_seconds, min_size=1, max_size=40))
def test_a_histogram_has_the_lengths_that_it_was_given(lengths: list[float]) -> None:
    histogram = Histogram(half_life=1e9)
    for seconds in lengths:
        histogram.add(seconds, whole=True)
    found = histogram.lengths(0.0)
    assert found is not None
    assert found.mean() == pytest.approx(sum(lengths) / len(lengths), rel=0.09)


def test_a_histogram_forgets_and_stays_finite() -> None:
    histogram = Histogram(half_life=4.0)
    for _ in range(2000):
        histogram.add(10.0, whole=True)
    for _ in range(40):
        histogram.add(1000.0, whole=True)
    found = histogram.lengths(0.0)
    assert found is not None
    assert found.quantile(0.01) == pytest.approx(1000.0, rel=0.09)
    assert histogram.runs == pytest.approx(1 / (1 - 0.5**0.25), rel=0.01)
    assert histogram.unit < 1e13


def test_of_skewed_lengths_a_range_leaves_out_the_long_ones() -> None:
    skewed = Lengths.of((2.0**number, 1.0) for number in range(20))
    span = skewed.span(0.8)
    assert span.low_s <= 2.0
    assert span.high_s < skewed.quantile(0.9)
