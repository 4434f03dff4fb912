"""A trace file as a table. Each column has a reader function whose errors name the bad value.

size = table.count("num_gpu")
for row in table.rows():
    size(row)   # 4, or "trace.csv line 7: num_gpu is '1.5'; expected a whole number from 1"
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from sys import intern

from treadle.traces.collector import DURATION_MAX_S, SUBMIT_MAX_S, Collector

Row = list[str]
COUNT_MAX = 10**12
AMOUNT_MAX = 1e15  # of work in iterations, steps or GPU-seconds


class Table(Collector):
    """The rows of one file. Blank lines do not count as rows."""

    def __init__(
        self,
        path: str,
        header: Sequence[str],
        lines: Iterable[str],
        *,
        delimiter: str = ",",
        lines_before: int = 1,  # lines of the file already read, including the header
    ) -> None:
        super().__init__(path)
        self.header = tuple(header)
        # Commands in tab-separated traces hold quotation marks that mean nothing.
        self._reader = (
            csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            if delimiter == "\t"
            else csv.reader(lines, delimiter=delimiter)
        )
        self._lines_before = lines_before

    def rows(self) -> Iterator[Row]:
        """The rows, each as wide as the header."""
        reader, before, width = self._reader, self._lines_before, len(self.header)
        try:
            for row in reader:
                self.line = before + reader.line_num
                if len(row) == width:
                    yield row
                elif row:
                    names = (ascii(name)[1:-1] for name in self.header)
                    raise self.error(f"{len(row)} columns; expected {width} ({', '.join(names)})")
        except csv.Error as error:
            self.line = before + reader.line_num
            raise self.error(f"not a line of a table ({error})") from None

    def text(self, column: str, *, required: bool = False) -> Callable[[Row], str]:
        """Text, stripped; empty if the column is missing."""
        if column not in self.header:
            assert not required, f"a format without {column} must not ask for it"
            return lambda _: ""
        index = self.header.index(column)

        def read(row: Row) -> str:
            value = row[index].strip()
            if required and not value:
                raise self.error(f"{column} is empty; expected a name")
            return value if required else intern(value)  # Tenants and models recur.

        return read

    def count(
        self, column: str, *, least: int = 1, default: int | None = None
    ) -> Callable[[Row], int]:
        """A whole number from `least`; the default replaces a missing column only."""
        if default is not None and column not in self.header:
            return lambda _: default
        index = self.header.index(column)

        def read(row: Row) -> int:
            try:
                value = int(row[index])
            except ValueError:
                value = least - 1
            if value < least:
                found = repr(row[index]) if row[index].strip() else "missing"
                raise self.error(f"{column} is {found}; expected a whole number from {least}")
            if value > COUNT_MAX:
                raise self.error(f"{column} is {row[index][:40]!r}; expected at most {COUNT_MAX:,}")
            return value

        return read

    def length(
        self, column: str, *, unit: str = "seconds", times: int = 1, over: int = 1
    ) -> Callable[[Row], float]:
        """A number above 0 in this unit, times `times`, divided by `over`."""
        return self._number(column, unit, times, over, most=DURATION_MAX_S, zero=False)

    def amount(self, column: str, unit: str) -> Callable[[Row], float]:
        """An amount of work above 0; `add` checks the time that it takes."""
        return self._number(column, unit, 1, 1, most=AMOUNT_MAX, zero=False)

    def moment(
        self, column: str, *, unit: str = "seconds", times: int = 1, over: int = 1
    ) -> Callable[[Row], float]:
        """A number from 0 in this unit, times `times`, divided by `over`."""
        return self._number(column, unit, times, over, most=SUBMIT_MAX_S, zero=True)

    def _number(
        self, column: str, unit: str, times: int, over: int, *, most: float, zero: bool
    ) -> Callable[[Row], float]:
        index = self.header.index(column)
        expected = f"{unit} from 0" if zero else f"{unit} above 0"

        def read(row: Row) -> float:
            try:
                value = float(row[index])
            except ValueError:
                value = -1.0
            if not (value > 0 or (zero and value == 0)) or not isfinite(value):
                found = repr(row[index]) if row[index].strip() else "missing"
                raise self.error(f"{column} is {found}; expected {expected}")
            # Whole factors, not 0.001: 4,100 milliseconds are 4.1 seconds and nothing more.
            value = value * times / over
            if value > most:
                raise self.error(
                    f"{column} is {row[index].strip()[:40]!r}; expected at most "
                    f"{most * over / times:g} {unit}"
                )
            return value

        return read
