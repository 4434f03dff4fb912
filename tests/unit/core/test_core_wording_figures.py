"""Measured figures as text: units, digits, percents, and lengths of time in columns."""

from math import inf, nan

import pytest

from treadle.core.wording import (
    ago,
    digits,
    duration,
    durations,
    percent,
    share,
    short_number,
    short_span,
    sizes,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (inf, None),
        (nan, None),
        (0.0, "0.00 s"),
        (1.0, "1.00 s"),
        (-1.0, "-1.00 s"),
        (119.0, "119 s"),
        (120.0, "2.00 min"),
        (6000.0, "100 min"),
        (7199.0, "120 min"),
        (7200.0, "2.00 h"),
        (172_584.0, "47.9 h"),
        (172_620.0, "48.0 h"),
        (172_799.0, "48.0 h"),
        (172_800.0, "2.00 d"),
        (86_400e6, "1,000,000 d"),
    ],
)
def test_a_measured_time_is_in_the_unit_that_a_person_would_choose(
    seconds: float | None, text: str | None
) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([60.0, 900.0], ["60.0 s", "900 s"]),
        ([900.0, 60.0], ["900 s", "60.0 s"]),
        ([60.0, 999.0], ["60.0 s", "999 s"]),
        ([60.0, 1000.0], ["60.0 s", "1,000 s"]),
        ([120.0, 59_999.0], ["2.00 min", "1,000 min"]),
        ([120.0, 60_000.0], ["2.00 min", "1,000 min"]),
        ([-30.0, 90.0], ["-30.0 s", "90.0 s"]),
        ([-30.0, 9000.0], ["-30.0 s", "9,000 s"]),
        ([None, 0.0, inf, 30.0], [None, "0.00 s", None, "30.0 s"]),
        ([0.0, 7200.0], ["0.00 h", "2.00 h"]),
        ([None, 0.0], [None, "0.00 s"]),
        ([], []),
    ],
)
def test_times_that_stand_together_have_one_unit(
    values: list[float | None], texts: list[str | None]
) -> None:
    assert durations(values) == texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (9.5, "9.50"),
        (-9.5, "-9.50"),
        (9.994, "9.99"),
        (9.995, "10.0"),
        (10.5, "10.5"),
        (99.5, "99.5"),
        (-99.5, "-99.5"),
        (99.95, "100"),
        (100.5, "100"),
        (12_345.0, "12,345"),
        (999_999_999.0, "999,999,999"),
        (1e9, "1e+09"),
        (-1e9, "-1e+09"),
        (nan, "-"),
        (inf, "-"),
    ],
)
def test_a_number_has_three_digits_or_as_many_as_its_whole_part(value: float, text: str) -> None:
    assert digits(value) == text


def test_a_number_is_written_in_the_form_that_was_asked_for() -> None:
    assert short_number(1234.5, ",.1f") == "1,234.5"
    assert short_number(1234.5, ".0f") == "1234"


@pytest.mark.parametrize(
    ("part", "whole", "exact"),
    [
        (None, "", None),
        (0.0, "0%", "0.0%"),
        (0.256, "26%", "25.6%"),
        (1.0, "100%", "100.0%"),
        (1e8, "10000000000%", "1e+10%"),
    ],
)
def test_a_fraction_as_percents(part: float | None, whole: str, exact: str | None) -> None:
    assert (share(part), percent(part)) == (whole, exact)


def test_a_fraction_that_is_no_number_has_no_percents() -> None:
    assert (percent(nan), percent(inf)) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (-1.0, "0s"),
        (1.0, "1s"),
        (59.6, "1m"),
        (61.0, "1m"),
        (119.0, "1m"),
        (3599.0, "59m"),
        (3600.0, "1h00m"),
        (3660.0, "1h01m"),
        (7199.0, "1h59m"),
        (7200.0, "2h00m"),
        (86_399.0, "23h59m"),
        (86_400.0, "1d00h"),
        (86_400.0 + 3599, "1d00h"),
        (86_400.0 + 3600, "1d01h"),
        (86_400.0 + 7199, "1d01h"),
        (172_799.0, "1d23h"),
        (172_800.0, "2d00h"),
    ],
)
def test_a_column_shows_two_units_and_never_rounds_up(seconds: float | None, text: str) -> None:
    assert short_span(seconds) == text


def test_a_moment_in_the_past_says_how_long_ago() -> None:
    assert ago(40.0, 100.0) == "1m ago"
    assert ago(None, 100.0) == ""


def test_two_sizes_in_a_row_are_a_range() -> None:
    assert (sizes([1, 2]), sizes([2, 4]), sizes([3, 4, 5])) == ("1..2", "2,4", "3..5")
