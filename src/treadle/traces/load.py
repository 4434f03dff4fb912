"""Load any trace as a Workload. The file's content decides its format, never its name."""

from collections.abc import Iterator
from itertools import chain

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.traces.formats import BARE_FORMATS, FORMATS, NOT_JOBS
from treadle.traces.source import blocks, lines
from treadle.traces.table import Table
from treadle.traces.workload import Workload

GENERATE = "generate:"
_NOTES_MAX = 1000  # lines of notes before a header
_SHOWN = 40  # characters of an unknown first line that an error quotes


def load(source: str, *, cluster: Cluster | None = None) -> Workload:
    """The workload of a file, or of `generate:KIND?jobs=1000&seed=0&load=0.9` for a cluster."""
    if source.startswith(GENERATE):
        # Drawing needs tables that reading does not: 4 ms of every start.
        from treadle.traces.synthetic import from_address  # noqa: PLC0415

        return from_address(source.removeprefix(GENERATE), cluster or Cluster.grid(8, 8))
    parts = blocks(source)
    first = next(parts, b"")
    whole = chain((first,), parts)
    if first.lstrip()[:1] in {b"[", b"{"}:
        from treadle.traces.philly_log import read_philly_log  # noqa: PLC0415 (as above)

        return read_philly_log(source, whole)
    return _read_table(source, lines(source, whole))


def _read_table(name: str, text: Iterator[str]) -> Workload:
    notes, first, before = _head(text)
    if not first:
        raise InvalidInputError(f"{name} is empty; expected a header and one job a line")
    for bare in BARE_FORMATS:
        if len(first.split("\t")) == len(bare.columns):
            rows = chain((first,), text)
            table = Table(name, bare.columns, rows, delimiter="\t", lines_before=before)
            return bare.read(table).noted(notes)
    header = [column.strip().strip('"') for column in first.split(",")]
    for known in FORMATS:
        if set(known.columns) <= set(header):
            _check_twice(name, header)
            table = Table(name, header, text, lines_before=before + 1)
            return known.read(table).noted(notes)
    raise _unknown(name, first, header)


def _head(text: Iterator[str]) -> tuple[list[str], str, int]:
    """The notes, the first line after them, and the number of lines before it."""
    notes: list[str] = []
    for before, line in enumerate(text):
        if line.startswith("#") and before < _NOTES_MAX:
            notes.append(line.lstrip("# ").rstrip())
        elif line.strip():
            return notes, line, before
    return notes, "", 0


def _check_twice(name: str, header: list[str]) -> None:
    for column in header:
        if header.count(column) > 1:
            raise InvalidInputError(f"{name} has the column {column!r} twice; keep one")


def _unknown(name: str, first: str, header: list[str]) -> InvalidInputError:
    for columns, what in NOT_JOBS:
        if set(columns) <= set(header):
            return InvalidInputError(f"{name} is {what}; expected a trace of jobs")
    known = ", ".join(one.name for one in (*FORMATS, *BARE_FORMATS))
    return InvalidInputError(
        f"{name} begins with {first.strip()[:_SHOWN]!r}, which is no known format; expected one of "
        f"{known}, or Philly's job log in JSON; docs/add-a-trace.md has their columns"
    )
