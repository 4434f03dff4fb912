"""Counts, lengths of time and waits as text."""

import pytest

from treadle.core.wording import (
    closest,
    devices,
    did_you_mean,
    is_vague,
    jobs,
    listed,
    named_jobs,
    ordinal,
    several,
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
    assert (devices(1), devices(8)) == ("1 device", "8 devices")
    assert (jobs(1, "waits", "wait"), jobs(3, "waits", "wait")) == ("1 job waits", "3 jobs wait")


@pytest.mark.parametrize(
    ("seconds", "sentence", "column"),
    [
        (-3.0, "a moment", "0s"),
        (0.4, "a moment", "0s"),
        (59.0, "59 s", "59s"),
        (60.0, "1 min", "1m"),
        (90.0, "1.5 min", "1m"),
        (5400.0, "1.5 h", "1h30m"),
        (36_000.0, "10 h", "10h00m"),
        (86_400.0, "1 day", "1d00h"),
        (187_200.0, "2.2 days", "2d04h"),
    ],
)
def test_a_length_of_time_in_a_sentence_and_in_a_column(
    seconds: float, sentence: str, column: str
) -> None:
    assert (span(seconds), short_span(seconds)) == (sentence, column)


@pytest.mark.parametrize(
    ("low_s", "high_s", "vague"),
    [
        (0.0, 43_200.0, True),
        (60.0, 1201.0, True),
        (60.0, 1200.0, False),
        (0.2, 600.0, False),
        (3600.0, 43_200.0, False),
    ],
)
def test_a_range_whose_ends_are_far_apart_says_nothing(
    low_s: float, high_s: float, vague: bool
) -> None:
    assert is_vague(low_s, high_s) == vague


def test_numbers_and_names_in_a_row() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112, 121, 1001, 1011)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th", "121st"),
        *("1,001st", "1,011th"),
    ]
    assert [times(n) for n in (1, 2, 3)] == ["once", "twice", "3 times"]
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed(["a", "b"], 2) == "a, b"
    assert (sizes([1, 2, 3]), sizes([1, 2, 4]), sizes([2])) == ("1..3", "1,2,4", "2")


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
