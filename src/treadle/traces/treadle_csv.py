"""Treadle's own trace format: a CSV with every field of a JobSpec; a round trip is lossless.

csv_columns.py has the columns. Lines that begin with # before the header are notes. A file has
only the columns in which a job differs from the defaults.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId, JobSpec, Profile
from treadle.core.wording import did_you_mean
from treadle.traces.csv_columns import COLUMNS, STATUS, Column
from treadle.traces.table import Row, Table
from treadle.traces.workload import Workload

Cell = Callable[[JobSpec], str]  # what stands in a column for a job

_DEFAULTS = JobSpec("-", 1.0)
_PROFILE = "profile."
_KEPT = 4096  # values of a column that are kept: most cells recur, and equal values are shared
_SHOWN = 60  # characters of a bad cell that an error quotes


def text_lines(workload: Workload) -> Iterator[str]:
    """The file's lines, notes first."""
    for note in workload.notes:
        yield f"# {' '.join(note.split())}\n"
    used = _used(workload)
    yield ",".join(used) + "\n"
    cells = list(used.values())
    for spec in workload.jobs:
        yield ",".join([_quoted(cell(spec)) for cell in cells]) + "\n"


def _used(workload: Workload) -> dict[str, Cell]:
    """The columns that say something of a job, with their cells."""
    # Jobs share profiles: writing 60,000 jobs takes 1.05 s so, and 1.28 s by looking at each.
    shapes = {(id(spec.profile), spec.sizes[-1]): spec for spec in workload.jobs}
    used = {}
    for column in COLUMNS:
        cell = _cell_of(column, workload.statuses)
        jobs = shapes.values() if column.field.startswith(_PROFILE) else workload.jobs
        if column.required or any(map(cell, jobs)):
            used[column.name] = cell
    return used


def _cell_of(column: Column, statuses: Mapping[JobId, str]) -> Cell:
    """What stands in a column for a job; empty for the default."""
    if column.field == STATUS:
        return lambda spec: statuses.get(spec.id, "")
    value, write, required = attrgetter(column.field), column.kind.write, column.required
    default = None if required else value(_DEFAULTS)

    def cell(spec: JobSpec) -> str:
        found = value(spec)
        usual = spec.sizes[-1] if column.as_largest else default
        return "" if found == usual and not required else write(found)

    return cell


def _quoted(text: str) -> str:
    """Quoted where CSV needs it."""
    quote = any(mark in text for mark in ',"\r\n#')
    return '"' + text.replace('"', '""') + '"' if quote else text


def read_treadle_csv(table: Table) -> Workload:
    """The workload of such a file; missing columns and empty cells get the defaults."""
    present = [column for column in COLUMNS if column.name in table.header]
    job = _reader(table, [column for column in present if not column.field.startswith(_PROFILE)])
    profile = _profiles(table, present)
    for row in table.rows():
        fields = job(row)
        status, sizes, asked = fields.pop(STATUS, ""), fields["sizes"], fields.get("asked")
        if asked and asked not in sizes:
            raise table.error(f"asked is {asked}; expected one of the sizes {sizes}")
        table.add(JobSpec(profile=profile(row, sizes[-1]), **fields), status)
    return table.workload("treadle", *_unknown(table.header))


def _reader(table: Table, columns: Sequence[Column]) -> Callable[[Row], dict[str, Any]]:
    """The fields that these columns of a row give, by name; those with defaults are left out."""
    places = [
        (column, table.header.index(column.name), lru_cache(_KEPT)(column.kind.read))
        for column in columns
    ]

    def read(row: Row) -> dict[str, Any]:
        fields = {}
        for column, index, value in places:
            text = row[index] if column.kind.exact else row[index].strip()
            if not text:
                if column.required:
                    raise table.error(f"{column.name} is missing; expected {column.kind.expected}")
                continue
            try:
                fields[column.field] = value(text)
            except (ValueError, InvalidInputError) as error:
                raise table.error(_wrong(column, text, error)) from None
        return fields

    return read


def _wrong(column: Column, text: str, error: Exception) -> str:
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    more = f" ({error})" if isinstance(error, InvalidInputError) else ""
    return f"{column.name} is {cut!r}; expected {column.kind.expected}{more}"


def _profiles(table: Table, present: Sequence[Column]) -> Callable[[Row, int], Profile]:
    """Profiles; equal ones are shared."""
    columns = [column for column in present if column.field.startswith(_PROFILE)]
    read = _reader(table, columns)
    cells = itemgetter(0, 0, *(table.header.index(column.name) for column in columns))
    known: dict[object, Profile] = {}

    def profile(row: Row, largest: int) -> Profile:
        fields = {name.removeprefix(_PROFILE): value for name, value in read(row).items()}
        try:
            return Profile(**{"size": largest, **fields})
        except InvalidInputError as error:
            raise table.error(str(error)) from None

    def find(row: Row, largest: int) -> Profile:
        key = largest, *cells(row)[2:]
        if key not in known:
            known[key] = profile(row, largest)
        return known[key]

    return find


def _unknown(header: Sequence[str]) -> list[str]:
    """What to say of columns that are none of this format's."""
    names = [column.name for column in COLUMNS]
    return [
        f"the column {name!r} is not known and was not read{did_you_mean(name, names)}"
        for name in header
        if name not in names
    ]
