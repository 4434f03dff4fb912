"""The one table printer of the command line: empty columns are dropped, and text is cut to fit the
terminal where a column allows it.

Written by hand and not with rich: rich takes 55 ms to import, half as much as the whole of
`treadle ps`. Which columns are dropped and which cell is cut first would have to be computed here
anyway, and rich would then only pad.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from treadle.cli.show.wording import cut, width_of

GAP = "  "


class Column(NamedTuple):
    title: str
    right: bool = False
    least: int = 0  # the column may be cut down to this width; 0: never
    always: bool = False  # shown even if every cell is empty
    colour: Callable[[str], str | None] | None = None  # the colour of a cell


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """The rows under their titles, one line each; without a width nothing is cut."""
    kept = _kept(columns, rows)
    shown = [columns[place] for place in kept]
    cells = [[row[place] for place in kept] for row in rows]
    widths = _widths(shown, cells, width)
    lines = [_line([column.title for column in shown], shown, widths, colour=False)]
    if colour:
        lines[0] = click.style(lines[0], bold=True)
    lines += [_line(row, shown, widths, colour=colour) for row in cells]
    return "\n".join(lines)


def room(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], place: int, *, width: int
) -> int:
    """How many characters a cell of the column at that place gets; 0 if the column is dropped."""
    kept = _kept(columns, rows)
    if place not in kept:
        return 0
    cells = [[row[each] for each in kept] for row in rows]
    return _widths([columns[each] for each in kept], cells, width)[kept.index(place)]


def pairs(lines: Sequence[tuple[str, str]], *, width: int) -> str:
    """Titles with their texts, wrapped; titles without a text are left out."""
    filled = [(title, text) for title, text in lines if text]
    indent = max((width_of(title) for title, _ in filled), default=0) + 4
    printed = []
    for title, text in filled:
        first, *more = wrapped(text, max(20, width - indent))
        printed.append(f"  {title.ljust(indent - 2)}{first}")
        printed += [" " * indent + line for line in more]
    return "\n".join(printed)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width; a longer word is not broken."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if line and width_of(longer) > width:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return lines


def _kept(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of the columns that are shown."""
    return [
        place
        for place, column in enumerate(columns)
        if column.always or any(row[place] for row in rows)
    ]


def _widths(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None
) -> list[int]:
    """The width of each column; if they do not fit, the rightmost ones are cut first."""
    widths = [
        max([len(column.title), *(width_of(row[place]) for row in rows)])
        for place, column in enumerate(columns)
    ]
    over = 0 if width is None else sum(widths) + len(GAP) * (len(widths) - 1) - width
    for place in reversed(range(len(columns))):
        least = columns[place].least
        if over > 0 and least:
            less = min(over, max(0, widths[place] - max(least, len(columns[place].title))))
            widths[place] -= less
            over -= less
    return widths


def _line(
    cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], *, colour: bool
) -> str:
    parts = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        text = cut(cell, width) if column.least else cell
        padding = " " * max(0, width - width_of(text))
        name = column.colour(cell) if colour and column.colour else None
        painted = click.style(text, fg=name) if name else text
        parts.append(padding + painted if column.right else painted + padding)
    return GAP.join(parts).rstrip()
