"""Counts and spans of time in words."""

import pytest

from treadle.core.wording import devices, from_to, gib_texts, jobs, listed, span, times


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 devices"), (1, "1 device"), (2, "2 devices"), (8, "8 devices")]
)
def test_devices_are_counted(count: int, text: str) -> None:
    assert devices(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 jobs wait"), (1, "1 job waits"), (2, "2 jobs wait")]
)
def test_jobs_are_counted_with_their_verb(count: int, text: str) -> None:
    assert jobs(count, "waits", "wait") == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 times"), (1, "once"), (2, "twice"), (3, "3 times")]
)
def test_how_often(count: int, text: str) -> None:
    assert times(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5.0, "a moment"),
        (0.0, "a moment"),
        (0.99, "a moment"),
        (1.0, "1 s"),
        (59.4, "59 s"),
        (60.0, "1 min"),
        (90.0, "1.5 min"),
        (599.0, "10 min"),
        (594.0, "9.9 min"),
        (600.0, "10 min"),
        (630.0, "10 min"),
        (3599.0, "60 min"),
        (3600.0, "1 h"),
        (5400.0, "1.5 h"),
        (36_000.0, "10 h"),
        (86_399.0, "24 h"),
        (86_400.0, "1 day"),
        (129_600.0, "1.5 days"),
        (172_800.0, "2 days"),
        (1_000_000.0, "12 days"),
    ],
)
def test_spans_have_two_digits_of_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a, b"),
        (["a", "b", "c"], "a, b and 1 more"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
    ],
)
def test_lists_are_cut_and_say_how_many_more(names: list[str], text: str) -> None:
    assert listed(names, 2) == text


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ((0.0, 64.0), "0 of 64 GiB"),
        ((0.0977, 16.0), "100 MiB of 16 GiB"),
        ((3.0, 8.0), "3 of 8 GiB"),
        ((0.0, 0.0), "0 MiB of 0 MiB"),
    ],
)
def test_u14_memory_has_the_unit_that_leaves_a_readable_number(
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
def test_u14_a_range_never_says_zero_seconds_nor_less_than_it_knows(
    low_s: float | None, high_s: float, text: str
) -> None:
    assert from_to(low_s, high_s) == text
