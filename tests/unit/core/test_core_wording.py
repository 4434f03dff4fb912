"""Counts, lengths of time, waits and figures as text."""

from math import inf, nan

import pytest

from treadle.core.wording import (
    ago,
    closest,
    devices,
    did_you_mean,
    digits,
    duration,
    durations,
    from_to,
    gib_texts,
    jobs,
    listed,
    named_jobs,
    ordinal,
    percent,
    several,
    share,
    short_number,
    short_span,
    sizes,
    span,
    times,
    too_large,
)


def test_one_is_singular_and_thousands_have_a_comma() -> None:
    assert [several(n, "job") for n in (0, 1, 2, 1234)] == [
        "0 jobs",
        "1 job",
        "2 jobs",
        "1,234 jobs",
    ]
    assert several(2, "entry", "entries") == "2 entries"
    assert [devices(n) for n in (0, 1, 8)] == ["0 devices", "1 device", "8 devices"]
    assert [jobs(n, "waits", "wait") for n in (0, 1, 2)] == [
        "0 jobs wait",
        "1 job waits",
        "2 jobs wait",
    ]


def test_numbers_and_names_in_a_row() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112, 121, 1001, 1011)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th", "121st"),
        *("1,001st", "1,011th"),
    ]
    assert [times(n) for n in (0, 1, 2, 3)] == ["0 times", "once", "twice", "3 times"]
    assert [listed("abcd"[:n], 2) for n in range(5)] == [
        *("", "a", "a, b", "a, b and 1 more", "a, b and 2 more")
    ]
    assert [sizes(each) for each in ([2], [1, 2], [2, 4], [1, 2, 4], [3, 4, 5])] == [
        *("2", "1..2", "2,4", "1,2,4", "3..5")
    ]


def test_a_similar_word_is_offered_and_no_other() -> None:
    assert did_you_mean("cnacel", ["cancel", "ps"]) == "; did you mean cancel?"
    assert did_you_mean("zzz", ["cancel", "ps"]) == ""
    assert closest("cnacel", ["cancel", "ps"]) == "cancel"
    assert closest("zzz", ["cancel", "ps"]) == ""


def test_less_similar_words_are_offered_if_wished() -> None:
    assert did_you_mean("shortest", ["srtf"]) == ""
    assert did_you_mean("shortest", ["srtf"], similar=0.4) == "; did you mean srtf?"


def test_only_the_beginning_of_a_long_word_is_compared() -> None:
    assert closest("a" * 60 + "z" * 10_000, ["a" * 60], similar=1.0) == "a" * 60


def test_jobs_are_named_up_to_a_number() -> None:
    assert named_jobs(["a"], 2) == "job a"
    assert named_jobs(["a", "b", "c"], 2) == "jobs a, b and 1 more"


def test_a_job_that_is_too_large_says_how_much() -> None:
    assert too_large(1, 0) == "it asks for 1 device and the cluster has 0"
    assert too_large(2048, 1024) == "it asks for 2,048 devices and the cluster has 1,024"


# -- Counts and spans of time in words -------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "a moment"),
        (0.99, "a moment"),
        (1.0, "1 s"),
        (60.0, "1 min"),
        (90.0, "1.5 min"),
        (594.0, "9.9 min"),
        (3599.0, "60 min"),
        (3600.0, "1 h"),
        (86_399.0, "24 h"),
        (86_400.0, "1 day"),
        (187_200.0, "2.2 days"),
        (1_000_000.0, "12 days"),
    ],
)
def test_spans_have_two_digits_of_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ((0.0, 64.0), "0 of 64 GiB"),
        ((0.0977, 16.0), "100 MiB of 16 GiB"),
        ((3.0, 8.0), "3 of 8 GiB"),
        ((0.0, 0.0), "0 MiB of 0 MiB"),
    ],
)
def test_memory_has_the_unit_that_leaves_a_readable_number(
    amounts: tuple[float, float], text: str
) -> None:
    assert gib_texts(amounts, " of ") == text


@pytest.mark.parametrize(
    ("low_s", "high_s", "text"),
    [
        (0.1, 0.4, "less than 1s"),
        (None, 0.0, "less than 1s"),
        (0.2, 12.0, "up to 12s"),
        (None, 119.0, "at most 1m59s"),
        (0.9, 1.2, "about 1s"),
        (0.3, 1.2, "up to 1s"),
    ],
)
def test_a_range_never_says_zero_seconds_nor_less_than_it_knows(
    low_s: float | None, high_s: float, text: str
) -> None:
    assert from_to(low_s, high_s) == text


# -- Measured figures as text: units, digits, percents, and lengths of time in columns -------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (inf, None),
        (nan, None),
        (0.0, "0.00 s"),
        (-1.0, "-1.00 s"),
        (119.0, "119 s"),
        (120.0, "2.00 min"),
        (7200.0, "2.00 h"),
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
        ([120.0, 60_000.0], ["2.00 min", "1,000 min"]),
        ([-30.0, 90.0], ["-30.0 s", "90.0 s"]),
        ([None, 0.0, inf, 30.0], [None, "0.00 s", None, "30.0 s"]),
        ([0.0, 7200.0], ["0.00 h", "2.00 h"]),
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
        (9.995, "10.0"),
        (99.5, "99.5"),
        (99.95, "100"),
        (12_345.0, "12,345"),
        (1e9, "1e+09"),
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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (-1.0, "0s"),
        (1.0, "1s"),
        (59.6, "1m"),
        (3599.0, "59m"),
        (3660.0, "1h01m"),
        (86_399.0, "23h59m"),
        (86_400.0, "1d00h"),
        (86_400.0 + 3600, "1d01h"),
        (172_799.0, "1d23h"),
    ],
)
def test_a_column_shows_two_units_and_never_rounds_up(seconds: float | None, text: str) -> None:
    assert short_span(seconds) == text


def test_a_moment_in_the_past_says_how_long_ago() -> None:
    assert ago(40.0, 100.0) == "1m ago"
    assert ago(None, 100.0) == ""
