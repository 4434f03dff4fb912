"""Values as people read them in a terminal, and nothing that a terminal would obey."""

import re
import shlex
import unicodedata
from collections.abc import Sequence

# Colours survive in logs; whatever else a terminal obeys (titles, cursors, clipboards) does not.
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}m")
_OTHER = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,1024}(?:\x07|\x1b\\)")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """A name or sentence of somebody else's, on one line and without control characters."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def log_text(text: str) -> str:
    """A job's output for a terminal: lines, tabs and colours stay."""
    if "\x1b" in text:
        pieces = re.split(f"({_COLOUR.pattern})", text)
        return "".join(
            piece if place % 2 else _CONTROL.sub("", _OTHER.sub("", piece))
            for place, piece in enumerate(pieces)
        )
    return _CONTROL.sub("", text)


def width_of(text: str) -> int:
    """Columns on a terminal: some scripts take two for each character."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)
    marks = sum(unicodedata.combining(mark) > 0 for mark in text)
    return len(text) + wide - marks


def cut(text: str, width: int) -> str:
    """At most so many columns, with two dots where something is missing."""
    if width_of(text) <= width:
        return text
    kept = ""
    for mark in text:
        if width_of(kept + mark) > width - 2:
            break
        kept += mark
    return f"{kept.rstrip()}.."


def span(seconds: float | None) -> str:
    """A length of time in one or two units: 45s, 12m, 3h05m, 2d04h."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def ago(moment_at: float | None, now: float) -> str:
    return "" if moment_at is None else f"{span(now - moment_at)} ago"


def between(earliest_s: float | None, latest_s: float | None) -> str:
    """A range of waiting times: "in 5m to 20m"."""
    if earliest_s is None:
        return "not within the time that was simulated"
    first = span(earliest_s)
    if latest_s is None:
        return f"in {first} or much later"
    last = span(latest_s)
    if latest_s < 1:
        return "at once"
    return f"in about {first}" if first == last else f"in {first} to {last}"


def ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if 10 <= number % 100 <= 20 else ending}"


def several(number: int, noun: str) -> str:
    """1 job, 2 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sizes(numbers: Sequence[int]) -> str:
    """1..4 where every number between is there, and 1,2,4 where not."""
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}..{numbers[-1]}"
    return ",".join(str(number) for number in numbers)


def command_text(command: Sequence[str]) -> str:
    """A command as one could type it."""
    if len(command) == 3 and command[:2] == ("/bin/bash", "-c"):
        return plain(command[2])
    return plain(shlex.join(command))


def share(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f}%"
