"""The notations of a job description: what each means, and the sentence for what means nothing."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.wire import notation as values


def said(read: Callable[[], object]) -> str:
    """The sentence that refuses, or nothing; any other exception is a failure."""
    try:
        read()
    except InvalidInputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("text", "sent", "sizes"),
    [
        ("4", "4", (4,)),
        (" 2..4 ", "2..4", (2, 3, 4)),
        ("2 .. 4", "2..4", (2, 3, 4)),
        ("4..4", "4", (4,)),
        ("4,1,2,2", "1,2,4", (1, 2, 4)),
    ],
)
def test_devices_are_a_number_a_range_or_sizes(text, sent, sizes) -> None:
    assert values.devices(text) == sent
    assert values.sizes_of(text) == sizes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "x",
            (
                'devices is "x"; expected a number such as 4, a range such as 2..8, or sizes such '
                "as 1,2,4"
            ),
        ),
        (
            "",
            (
                'devices is ""; expected a number such as 4, a range such as 2..8, or sizes such '
                "as 1,2,4"
            ),
        ),
        ("8..2", 'devices is "8..2"; a range must go up, such as 2..8'),
        ("0", 'devices is "0"; expected 1 or more'),
        ("0..2", 'devices is "0..2"; expected 1 or more'),
        ("5000", 'devices is "5000"; expected at most 4096'),
        (
            "\x1b[31m2",
            (
                'devices is "?[31m2"; expected a number such as 4, a range such as 2..8, or '
                "sizes such as 1,2,4"
            ),
        ),
    ],
)
def test_devices_that_mean_nothing_are_refused_with_what_was_expected(text, sentence) -> None:
    with pytest.raises(InvalidInputError) as refused:
        values.devices(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("text", "numbers", "at_once_max"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("0-3%2", (0, 1, 2, 3), 2),
        ("1,3,5-7", (1, 3, 5, 6, 7), None),
        ("0-10:4", (0, 4, 8), None),
        ("7", (7,), None),
    ],
)
def test_arrays_are_numbers_ranges_and_steps(text, numbers, at_once_max) -> None:
    assert values.array(text) == (numbers, at_once_max)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", 'array is "a"; expected numbers such as 0-99, 0-99%8, 1,3,5-9 or 0-10:2'),
        ("5-1", 'array is "5-1"; a range must go up, such as 1-5'),
        ("0-9:0", 'array is "0-9:0"; the step must be at least 1'),
        ("0-9%0", 'array is "0-9%0"; after % comes how many may run at once, such as 0-99%8'),
        ("0-9%", 'array is "0-9%"; after % comes how many may run at once, such as 0-99%8'),
        ("1,1", 'array is "1,1"; 1 is listed twice'),
        ("0-10000", 'array is "0-10000"; expected at most 10,000 members'),
        ("99999999", 'array is "99999999"; expected numbers up to 9,999,999'),
    ],
)
def test_arrays_that_mean_nothing_are_refused_with_what_was_expected(text, sentence) -> None:
    with pytest.raises(InvalidInputError) as refused:
        values.array(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("45m", 2700),
        ("12h", 43_200),
        ("1.5h", 5400),
        ("2d", 172_800),
        ("1h30m", 5400),
        ("1H 30M", 5400),
        ("30:00", 1800),
        ("12:00:00", 43_200),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:00:00", 129_600),
    ],
)
def test_lengths_of_time_have_units_or_slurms_form(text, seconds) -> None:
    assert values.duration(text, "grace") == seconds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "soon",
            ('grace is "soon"; expected a duration such as 90s, 45m, 12h, 2d, 1h30m or 1-12:00:00'),
        ),
        (
            "1h1h",
            ('grace is "1h1h"; expected a duration such as 90s, 45m, 12h, 2d, 1h30m or 1-12:00:00'),
        ),
        ("0", 'grace is "0"; expected more than 0 and up to 10 years'),
        ("99999d", 'grace is "99999d"; expected more than 0 and up to 10 years'),
    ],
)
def test_lengths_of_time_that_mean_nothing_are_refused(text, sentence) -> None:
    with pytest.raises(InvalidInputError) as refused:
        values.duration(text, "grace")
    assert str(refused.value) == sentence


def test_a_number_alone_is_minutes_to_slurm() -> None:
    assert values.slurm_duration("90", "--time") == 5400
    assert values.slurm_duration("UNLIMITED", "--time") is None
    with pytest.raises(InvalidInputError) as refused:
        values.slurm_duration("2 hours", "--time")
    assert str(refused.value) == (
        '--time is "2 hours"; expected a time as Slurm writes it, such as 90, 12:00:00 or '
        "1-12:00:00"
    )


def test_priorities_are_numbers_or_four_words() -> None:
    words = ("low", "normal", "high", "urgent", "-7", "+7")
    assert [values.priority(word) for word in words] == [-10, 0, 10, 100, -7, 7]
    with pytest.raises(InvalidInputError) as refused:
        values.priority("asap")
    assert str(refused.value) == (
        'priority is "asap"; expected a whole number, or low, normal, high, urgent'
    )
    with pytest.raises(InvalidInputError) as refused:
        values.priority("2000000")
    assert str(refused.value) == 'priority is "2000000"; expected -1,000,000 to 1,000,000'


def test_signals_are_known_by_both_names_and_must_be_answerable() -> None:
    assert values.stop_signal("usr1") == values.stop_signal("SIGUSR1") == "SIGUSR1"
    with pytest.raises(InvalidInputError) as refused:
        values.stop_signal("SIGKILL")
    assert str(refused.value) == (
        'stop_signal is "SIGKILL", which a process cannot catch; expected one such as SIGTERM, '
        "SIGINT or SIGUSR1"
    )
    with pytest.raises(InvalidInputError) as refused:
        values.stop_signal("SIGNOW")
    assert str(refused.value) == (
        'stop_signal is "SIGNOW"; expected a signal such as SIGTERM, SIGINT or SIGUSR1'
    )


def test_ranks_and_counts_say_what_they_take() -> None:
    assert values.ranks(" Device ") == "device"
    with pytest.raises(InvalidInputError) as refused:
        values.ranks("two")
    assert str(refused.value) == 'ranks is "two"; expected auto, device, one'
    assert values.count("3", "retries", most=100) == 3
    with pytest.raises(InvalidInputError) as refused:
        values.count("-1", "retries", most=100)
    assert str(refused.value) == 'retries is "-1"; expected a whole number from 0 to 100'


def test_jobs_are_named_with_commas_or_colons_between() -> None:
    assert values.identities("12, 13:14", "after") == ("12", "13", "14")
    with pytest.raises(InvalidInputError) as refused:
        values.identities("12,", "after")
    assert str(refused.value) == 'after is "12,"; expected ids of jobs such as 12,13'


@given(st.text(max_size=40) | st.from_regex(r"[0-9smhd:.,\-%]{1,20}", fullmatch=True))
def test_any_text_gives_a_value_or_one_sentence(text) -> None:
    for read in (
        values.devices,
        values.sizes_of,
        values.array,
        values.priority,
        values.stop_signal,
        values.ranks,
        partial(values.duration, what="x"),
        partial(values.slurm_duration, what="x"),
        partial(values.count, what="x", most=9),
        partial(values.identities, what="x"),
    ):
        assert said(partial(read, text)).isprintable()


@pytest.mark.parametrize(
    ("text", "gib"),
    [("16G", 16.0), ("512M", 0.5), ("1.5T", 1536.0), ("16GiB", 16.0), ("16 gb", 16.0)],
)
def test_memory_is_an_amount_with_a_unit(text: str, gib: float) -> None:
    assert values.memory(text) == gib


@pytest.mark.parametrize("text", ["16", "", "G", "-1G", "16X", "1e3G", "nanG"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="expected an amount with a unit such as 512M"):
        values.memory(text)


def test_memory_has_bounds() -> None:
    with pytest.raises(InvalidInputError, match='--memory is "1M"; expected 16M to 1,048,576G'):
        values.memory("1M", "--memory")


def test_memory_as_slurm_writes_it() -> None:
    assert values.slurm_memory("4096", "--mem") == 4.0
    assert values.slurm_memory("0", "--mem") is None
    with pytest.raises(InvalidInputError, match="expected memory as Slurm writes it"):
        values.slurm_memory("much", "--mem")


def test_cpus_are_a_number_of_cores() -> None:
    assert (values.cpus("4"), values.cpus(" 0.5 ")) == (4.0, 0.5)
    for text in ("0", "-1", "four", "1e9", "nan"):
        with pytest.raises(InvalidInputError, match="expected a number of cores such as 4"):
            values.cpus(text)
