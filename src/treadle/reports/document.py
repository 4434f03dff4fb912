"""A report of text and tables, to print in a terminal or as a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MISSING = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under titles; the first cell of a row is its name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | None]]  # None: there is no such number
    note: str = ""
    # A page draws a stacked bar beside each row: the shares of these parts, which add up to 1.
    parts: Sequence[str] = ()
    shares: Sequence[Sequence[float]] = ()

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"{self.title}: ragged"
        assert not self.shares or len(self.shares) == len(self.rows), f"{self.title}: bars"


@dataclass(frozen=True, slots=True)
class Section:
    """One section: an introduction, findings and tables."""

    title: str
    lead: str
    findings: Sequence[str] = ()
    tables: Sequence[Table] = ()


class Tile(NamedTuple):
    """A key number."""

    title: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    facts: str
    command: str  # that reproduces it
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    notes: Sequence[str]


def cell(value: str | None) -> str:
    """What stands in a cell."""
    return MISSING if value is None else value
