"""A report as words and tables: written once, shown in a terminal and as a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

MISSING = "-"


class Cell(NamedTuple):
    """What a table says in one place."""

    text: str
    change: str = ""  # against the first row
    tone: Literal["", "better", "worse"] = ""  # of the change


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under titles; the first cell of a row is its name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell | None]]  # None: there is no such number
    note: str = ""
    # What a page draws beside each row: shares of 1, one after another, of these parts.
    parts: Sequence[str] = ()
    shares: Sequence[Sequence[float]] = ()

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"{self.title}: ragged"
        assert not self.shares or len(self.shares) == len(self.rows), f"{self.title}: bars"


@dataclass(frozen=True, slots=True)
class Section:
    """One subject: what it is about, what was found, and its tables."""

    title: str
    lead: str
    findings: Sequence[str] = ()
    tables: Sequence[Table] = ()


class Tile(NamedTuple):
    """A number to remember."""

    title: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    facts: str
    command: str  # that makes it again
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    notes: Sequence[str]


def cell(value: str | Cell | None) -> Cell:
    """A cell, whatever was written."""
    if isinstance(value, Cell):
        return value
    return Cell(MISSING if value is None else value)
