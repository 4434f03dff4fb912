"""A trace file as a table: each column is read by a function that names what it could not read.

    size = table.count("num_gpu")
    for row in table.rows():
        size(row)   # 4, or "trace.csv line 7: num_gpu is '1.5'; expected a whole number from 1"
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite

from weft.core.errors import InvalidInputError
from weft.core.job import JobId, JobSpec, Profile
from weft.traces.workload import Workload

JOBS_MAX = 10_000_000

Row = list[str]


class Table:
    """The rows of one file, and the jobs made from them so far."""

    def __init__(
        self,
        name: str,
        header: Sequence[str],
        lines: Iterable[str],
        *,
        delimiter: str = ",",
        lines_before: int = 1,  # lines of the file already taken, the header's among them
    ) -> None:
        self.name = name
        self.header = tuple(column.strip() for column in header)
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        self._reader = csv.reader(lines, delimiter=delimiter, quoting=quoting)
        self._lines_before = lines_before
        self._jobs: list[JobSpec] = []
        self._lines: dict[JobId, int] = {}
        self._statuses: dict[JobId, str] = {}
        self._skipped: Counter[str] = Counter()
        self._profiles: dict[tuple[int, str, float], tuple[tuple[int, ...], Profile]] = {}

    @property
    def line(self) -> int:
        """The line of the file that the newest row ends on, from 1."""
        return self._lines_before + self._reader.line_num

    def error(self, message: str) -> InvalidInputError:
        return InvalidInputError(f"{self.name} line {self.line}: {message}")

    def rows(self) -> Iterator[Row]:
        """The rows that are not blank, each as wide as the header."""
        width = len(self.header)
        try:
            for row in self._reader:
                if len(row) != width:
                    if not row:
                        continue
                    raise self.error(
                        f"{len(row)} columns; expected {width} ({', '.join(self.header)})"
                    )
                yield row
        except csv.Error as error:
            raise self.error(f"not a line of a table: {error}") from None

    # -- columns --------------------------------------------------------------------------------

    def text(self, column: str, *, required: bool = False) -> Callable[[Row], str]:
        """A word; empty where the file has no such column and it is not required."""
        if column not in self.header and not required:
            return lambda _: ""
        index = self.header.index(column)

        def read(row: Row) -> str:
            value = row[index].strip()
            if required and not value:
                raise self.error(f"{column} is empty; expected a name")
            return value

        return read

    def count(self, column: str, *, least: int = 1) -> Callable[[Row], int]:
        """A whole number from `least`."""
        index = self.header.index(column)

        def read(row: Row) -> int:
            try:
                value = int(row[index])
            except ValueError:
                value = least - 1
            if value < least:
                raise self.error(
                    f"{column} is {row[index]!r}; expected a whole number from {least}"
                )
            return value

        return read

    def length(
        self, column: str, *, unit_s: float = 1.0, unit: str = "seconds"
    ) -> Callable[[Row], float]:
        """A number above 0, times the unit."""
        return self._number(column, unit_s, f"{unit} above 0", zero=False)

    def moment(
        self, column: str, *, unit_s: float = 1.0, unit: str = "seconds"
    ) -> Callable[[Row], float]:
        """A number from 0, times the unit."""
        return self._number(column, unit_s, f"{unit} from 0", zero=True)

    def _number(
        self, column: str, unit_s: float, expected: str, *, zero: bool
    ) -> Callable[[Row], float]:
        index = self.header.index(column)

        def read(row: Row) -> float:
            try:
                value = float(row[index])
            except ValueError:
                value = -1.0
            if not (value > 0 or (zero and value == 0)) or not isfinite(value):
                found = repr(row[index]) if row[index].strip() else "missing"
                raise self.error(f"{column} is {found}; expected {expected}")
            return value * unit_s

        return read

    # -- jobs -----------------------------------------------------------------------------------

    def shape(
        self, size: int, model: str = "", compute_s: float = 1.0
    ) -> tuple[tuple[int, ...], Profile]:
        """The sizes and profile of a rigid job; equal jobs share them.

        Sharing pays: the 66,280 jobs of Philly's log have 12 shapes.
        """
        key = (size, model, compute_s)
        if key not in self._profiles:
            profile = Profile(compute_s=compute_s, size=size, model=model)
            self._profiles[key] = (size,), profile
        return self._profiles[key]

    def add(self, spec: JobSpec, status: str = "") -> None:
        """Take a job; its id must be new."""
        if spec.id in self._lines:
            raise self.error(
                f"job {spec.id} was already given on line {self._lines[spec.id]}; "
                "every job needs its own id"
            )
        if len(self._jobs) >= JOBS_MAX:
            raise self.error(f"more than {JOBS_MAX:,} jobs; cut the trace into parts")
        self._lines[spec.id] = self._reader.line_num + self._lines_before
        self._jobs.append(spec)
        if status:
            self._statuses[spec.id] = status

    def skip(self, reason: str) -> None:
        """Leave the newest row out, and say so in the notes."""
        self._skipped[reason] += 1

    def workload(self, format_name: str, *notes: str) -> Workload:
        """What was taken."""
        skipped = [f"left out {count:,}: {why}" for why, count in sorted(self._skipped.items())]
        if not self._jobs:
            why = f" ({'; '.join(skipped)})" if skipped else ""
            raise InvalidInputError(f"{self.name} holds no jobs{why}; expected one a line")
        return Workload.of(
            self.name,
            self._jobs,
            format=format_name,
            notes=(*notes, *skipped),
            lines=self._lines,
            statuses=self._statuses,
        )
