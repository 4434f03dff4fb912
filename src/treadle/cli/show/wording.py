"""Text that is safe to print: control sequences are removed, and widths are what a terminal shows.

Counts and lengths of time as text are in `core/wording.py`.
"""

import re
import shlex
import unicodedata
from collections.abc import Sequence

# Colours in logs are kept; other control sequences (titles, cursors, clipboards) are removed.
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}m")
_OTHER = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,1024}(?:\x07|\x1b\\)")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text from outside, on one line and without control characters."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def log_text(text: str) -> str:
    """A job's output for a terminal: lines, tabs and colours are kept."""
    if "\x1b" in text:
        pieces = re.split(f"({_COLOUR.pattern})", text)
        return "".join(
            piece if place % 2 else _CONTROL.sub("", _OTHER.sub("", piece))
            for place, piece in enumerate(pieces)
        )
    return _CONTROL.sub("", text)


def width_of(text: str) -> int:
    """Columns on a terminal; characters of some scripts take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)
    marks = sum(unicodedata.combining(mark) > 0 for mark in text)
    return len(text) + wide - marks


def cut(text: str, width: int) -> str:
    """The text in at most that many columns, with two dots if something was cut."""
    if width_of(text) <= width:
        return text
    kept = ""
    for mark in text:
        if width_of(kept + mark) > width - 2:
            break
        kept += mark
    return f"{kept.rstrip()}.."


def command_text(command: Sequence[str]) -> str:
    """A command as it would be typed."""
    if len(command) == 3 and command[:2] == ("/bin/bash", "-c"):
        return plain(command[2])
    return plain(shlex.join(command))
