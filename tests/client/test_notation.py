"""The notations of a job description: what each means, and that what means nothing is refused."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.wire import notation as values

READ: dict[str, Callable[[str], object]] = {
    "devices": values.devices,
    "sizes": values.sizes_of,
    "array": values.array,
    "duration": partial(values.duration, what="x"),
    "slurm duration": partial(values.slurm_duration, what="x"),
    "priority": values.priority,
    "signal": values.stop_signal,
    "ranks": values.ranks,
    "count": partial(values.count, what="x", most=100),
    "jobs": partial(values.identities, what="x"),
    "memory": values.memory,
    "slurm memory": partial(values.slurm_memory, what="x"),
    "cpus": values.cpus,
}
MEANS: dict[str, dict[str, object]] = {
    "devices": {"4": "4", " 2..4 ": "2..4", "2 .. 4": "2..4", "4..4": "4", "4,1,2,2": "1,2,4"},
    "sizes": {"4": (4,), "2..4": (2, 3, 4), "4,1,2": (1, 2, 4)},
    "array": {
        "0-3": ((0, 1, 2, 3), None),
        "0-3%2": ((0, 1, 2, 3), 2),
        "1,3,5-7": ((1, 3, 5, 6, 7), None),
        "0-10:4": ((0, 4, 8), None),
    },
    "duration": {
        "90": 90,
        "90s": 90,
        "45m": 2700,
        "12h": 43_200,
        "1.5h": 5400,
        "2d": 172_800,
        "1h30m": 5400,
        "1H 30M": 5400,
        "30:00": 1800,
        "12:00:00": 43_200,
        "1-12": 129_600,
        "1-12:30": 131_400,
        "1-12:00:00": 129_600,
    },
    "slurm duration": {"90": 5400, "UNLIMITED": None},
    "priority": {"low": -10, "normal": 0, "high": 10, "urgent": 100, "-7": -7, "+7": 7},
    "signal": {"usr1": "SIGUSR1", "SIGUSR1": "SIGUSR1"},
    "ranks": {" Device ": "device"},
    "count": {"3": 3},
    "jobs": {"12, 13:14": ("12", "13", "14")},
    "memory": {"16G": 16.0, "512M": 0.5, "1.5T": 1536.0, "16GiB": 16.0, "16 gb": 16.0},
    "slurm memory": {"4096": 4.0, "0": None},
    "cpus": {"4": 4.0, " 0.5 ": 0.5},
}
MEANS_NOTHING = {
    "devices": ("x", "", "8..2", "0", "0..2", "5000", "\x1b[31m2"),
    "array": ("a", "5-1", "0-9:0", "0-9%0", "0-9%", "1,1", "0-10000", "99999999"),
    "duration": ("soon", "1h1h", "0", "99999d"),
    "slurm duration": ("2 hours",),
    "priority": ("asap", "2000000"),
    "signal": ("SIGKILL", "SIGNOW"),
    "ranks": ("two",),
    "count": ("-1", "101"),
    "jobs": ("12,",),
    "memory": ("16", "", "G", "-1G", "16X", "1e3G", "nanG", "1M"),
    "slurm memory": ("much",),
    "cpus": ("0", "-1", "four", "1e9", "nan"),
}


@pytest.mark.parametrize("kind", MEANS)
def test_what_texts_mean(kind: str) -> None:
    assert {text: READ[kind](text) for text in MEANS[kind]} == MEANS[kind]


@pytest.mark.parametrize("kind", MEANS_NOTHING)
def test_what_means_nothing_is_refused_and_quoted(kind: str) -> None:
    for text in MEANS_NOTHING[kind]:
        with pytest.raises(InvalidInputError) as refused:
            READ[kind](text)
        assert values.shown(text) in str(refused.value)


def refusal(read: Callable[[str], object], text: str) -> str:
    """The sentence that refuses, or nothing; any other exception is a failure."""
    try:
        read(text)
    except InvalidInputError as error:
        return str(error)
    return ""


@given(st.text(max_size=40) | st.from_regex(r"[0-9smhd:.,\-%]{1,20}", fullmatch=True))
def test_any_text_gives_a_value_or_one_sentence(text: str) -> None:
    assert all(refusal(read, text).isprintable() for read in READ.values())
