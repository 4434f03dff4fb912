"""A full-screen view that is redrawn in place, on the terminal's second screen.

Six control sequences that terminal emulators share; rich, which did this before, took 55 ms to
import and was used for nothing else.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # second screen, no cursor, long lines are not wrapped
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


@contextmanager
def full_screen() -> Iterator[Callable[[str], None]]:
    """Give a function that draws a text; the terminal is restored at the end."""
    _write(_ENTER)
    try:
        yield _draw
    finally:
        _write(_LEAVE)


def _draw(text: str) -> None:
    """Overwrite what is there line by line: clearing first would flicker."""
    lines = text.replace("\n", f"{_REST_OF_LINE}\n")
    _write(f"{_HOME}{lines}{_REST_OF_LINE}{_REST_OF_SCREEN}")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
