"""Any trace in, one Workload out. The format is told by a file's content, never by its name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from weft.core.cluster import Cluster
from weft.core.errors import InvalidInputError
from weft.traces.philly import read_philly
from weft.traces.source import lines
from weft.traces.synthetic import from_address
from weft.traces.table import Table
from weft.traces.tiresias import read_chronus, read_muri, read_tiresias
from weft.traces.workload import Workload

GENERATE = "generate:"


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of table: a file is of the first format all of whose columns it has."""

    name: str
    columns: tuple[str, ...]
    read: Callable[[Table], Workload]


FORMATS = (
    Format(
        "muri",
        ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time", "priority"),
        read_muri,
    ),
    Format(
        "chronus",
        ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "best_effort"),
        read_chronus,
    ),
    Format("tiresias", ("job_id", "num_gpu", "submit_time", "duration"), read_tiresias),
    Format("philly", ("job_id", "submit_s", "num_gpus", "duration_s"), read_philly),
)


def load(source: str, *, cluster: Cluster | None = None) -> Workload:
    """The workload of a file, or of `generate:KIND?jobs=1000&seed=0&load=0.9` for a cluster."""
    if source.startswith(GENERATE):
        return from_address(source.removeprefix(GENERATE), cluster or Cluster.grid(8, 8))
    return _read(Path(source))


def _read(path: Path) -> Workload:
    text = lines(path)
    first = next(text, None)
    if first is None:
        raise InvalidInputError(f"{path.name} is empty; expected a trace of one job a line")
    header = [column.strip() for column in first.split(",")]
    for known in FORMATS:
        if set(known.columns) <= set(header):
            return known.read(Table(path.name, header, text))
    raise _unknown(path.name, first)


def _unknown(name: str, first: str) -> InvalidInputError:
    known = "; ".join(f"{one.name} ({', '.join(one.columns)})" for one in FORMATS)
    return InvalidInputError(
        f"{name} line 1 is {first.strip()[:80]!r}, the header of no known format; expected at "
        f"least the columns of one of: {known}"
    )
