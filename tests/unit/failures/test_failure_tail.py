"""The end of a log file, whatever it holds: bounded, and never waiting."""

import os
import tracemalloc
from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.failures.classifier import classify
from treadle.failures.log_lines import LINE_LENGTH_MAX, LINES_MAX
from treadle.failures.tail import tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "job.log"


def test_the_last_lines_come_without_the_one_that_is_cut(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("first line\nsecond line\nthird line\n")
    assert tail(log) == ["first line", "second line", "third line"]
    monkeypatch.setattr("treadle.failures.tail.LIMIT_BYTES", 15)
    assert tail(log) == ["third line"]
    # The limit falls on the begin of a line, which is whole.
    monkeypatch.setattr("treadle.failures.tail.LIMIT_BYTES", len("second line\nthird line\n"))
    assert tail(log) == ["second line", "third line"]


def test_bars_colours_and_control_characters_are_gone(log: Path) -> None:
    log.write_bytes(
        b"\x1b[31mred\x1b[0m\x07\r\n 1%|\r 50%|\r100%| done\r\n\x1b]0;title\x07x\x00y\tz"
    )
    assert tail(log) == ["red", "100%| done", "xy\tz"]


def test_marks_that_turn_the_order_of_writing_or_hide_are_gone(log: Path) -> None:
    marks = "\u202e\u2066\u200b\u200f\u2060\ufeff\u061c\U000e0041"
    log.write_text(f"KeyError: {marks}'x'\u00a0é\n", encoding="utf-8")
    assert tail(log) == ["KeyError: 'x'\u00a0é"]
    log.write_text(
        '{"log":"a\\ud800\\u202eb\\r\\n"}\n{"log":"'
        + "[" * 9
        + "\n"
        + '{"log":"","a":'
        + "[" * 99999
    )
    assert tail(log)[:2] == ["ab", '{"log":"' + "[" * 9]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n" * 100_000,
        b"a" * 3_000_000,
        b"\xff\xfe\xfd" * 200_000,
        b"\x1b[" * 300_000,
        bytes(range(256)) * 4000,
        b"x" * 300_000 + b"\nKeyError: 'x'\n",
    ],
    ids=lambda data: f"{len(data)}-{data[:4]!r}",
)
def test_hostile_bytes_are_bounded_lines(log: Path, data: bytes) -> None:
    log.write_bytes(data)
    lines = tail(log)
    assert len(lines) <= LINES_MAX
    assert all(len(line) <= LINE_LENGTH_MAX + 5 for line in lines)
    assert all("\x1b" not in line and "\x00" not in line and "\r" not in line for line in lines)
    classify(lines)


def test_a_log_of_a_gigabyte_is_read_in_16_mb(log: Path) -> None:
    with log.open("wb") as handle:
        handle.truncate(1 << 30)
        handle.seek(0, os.SEEK_END)
        handle.write(b"\n" + b"".join(b"step %d loss 2.0 lr 0.1\n" % n for n in range(20_000)))
        handle.write(b"KeyError: 'x'\n")
    tracemalloc.start()
    lines = tail(log)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines[-1] == "KeyError: 'x'"
    assert peak_bytes < 16e6


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nothing", "a\x00b", "/dev/null"):
        with pytest.raises(InvalidInputError, match="cannot read"):
            tail(path)
