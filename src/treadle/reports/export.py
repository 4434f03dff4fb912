"""Write results to files, atomically."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from math import isfinite
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.files import obstacle, why_refused, writing
from treadle.reports.bookkeeping import WAIT_CAUSES
from treadle.reports.comparison import Comparison, Run
from treadle.reports.metrics import finish_time_fairness
from treadle.reports.run_history import JobHistory

_ROWS_AT_ONCE = 2000
_WHOLE_MAX = 1e15  # larger numbers stay floats: 1e308, not 308 zeros
_JOB_COLUMNS = (
    *("policy", "id", "tenant", "size", "submit_s", "first_start_s", "end_s", "jct_s", "waited_s"),
    *("gpu_s", "status", "starts", "restarts", "preemptions", "interruptions", "resizes", "moves"),
    *("failures", "lost_gpu_s", "fairness", "overtaken"),
)
_SERIES_COLUMNS = (
    "policy",
    "at_s",
    "busy_devices",
    "waiting_jobs",
    "running_jobs",
    "useful_devices",
)


def write_tables(comparison: Comparison, directory: Path) -> list[Path]:
    """Write summary.csv, summary.json, jobs.csv and series.csv; creates the directory."""
    make_directory(directory)
    contents: dict[str, Iterable[str]] = {
        "summary.csv": _summary_csv(comparison),
        "summary.json": [json.dumps(summary_object(comparison), indent=2, allow_nan=False) + "\n"],
        "jobs.csv": _csv(_JOB_COLUMNS, _job_rows(comparison)),
        "series.csv": _csv(_SERIES_COLUMNS, _series_rows(comparison)),
    }
    paths = []
    for name, chunks in contents.items():
        _write(directory / name, chunks)
        paths.append(directory / name)
    return paths


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part."""
    _write(path, [text])


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, like `write_text`."""
    _write(path, [content])


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before any work is done."""
    if found := obstacle(path):
        raise InvalidInputError(f"cannot write {path}: {found}")


def check_directory(directory: Path) -> None:
    """Refuse a directory that cannot be created or written to, before any work is done."""
    nearest = directory
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InvalidInputError(f"cannot write in {directory}: {nearest} is not a directory")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InvalidInputError(f"cannot write in {directory}: no permission to write in {nearest}")


def make_directory(directory: Path) -> None:
    """Create a directory for results if it does not exist."""
    check_directory(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"cannot make {directory}: {why_refused(error)}") from error


def summary_object(comparison: Comparison) -> dict[str, object]:
    """The comparison as one JSON object, without its series and jobs."""
    return comparison.header() | {"runs": [run.summary.as_dict() for run in comparison.runs]}


# -- rows ---------------------------------------------------------------------------------------


def _summary_csv(comparison: Comparison) -> Iterator[str]:
    rows = [_flat(run) for run in comparison.runs]
    return _csv(tuple(rows[0]), (tuple(row.values()) for row in rows))


def _flat(run: Run) -> dict[str, object]:
    """A summary as flat columns, one for each cause of waiting; the JSON has causes by size."""
    row = run.summary.as_dict()
    causes = run.summary.wait_causes
    del row["wait_causes"], row["wait_causes_by_size"]
    return row | {
        f"wait_{cause.replace(' ', '_')}": causes[cause] if causes else None
        for cause in WAIT_CAUSES
    }


def _job_rows(comparison: Comparison) -> Iterator[Sequence[object]]:
    for run in comparison.runs:
        for history in run.recorder.histories.values():
            yield _job_row(run, history)


def _job_row(run: Run, history: JobHistory) -> Sequence[object]:
    spec, end_at = history.spec, history.ended_at
    finished = history.status == "finished"
    is_aside = spec.id in run.never_fit and not history.starts
    status = "never_fit" if is_aside else history.status
    return (
        *(run.policy, spec.id, spec.tenant, spec.asked),
        *(history.submitted_at, history.first_start_at, end_at),
        end_at - history.submitted_at if finished and end_at is not None else None,
        *(history.waited_s, history.service_s, status, history.starts, max(history.starts - 1, 0)),
        *(
            history.preemptions,
            history.interruptions,
            history.resizes,
            history.moves,
            history.failures,
        ),
        history.lost_s,
        finish_time_fairness(history, run.summary.devices) if finished else None,
        history.overtaken,
    )


def _series_rows(comparison: Comparison) -> Iterator[Sequence[object]]:
    for run in comparison.runs:
        series = run.recorder.series
        for values in zip(
            series.at, series.busy, series.waiting, series.running, series.useful, strict=True
        ):
            yield (run.policy, *values)


def _csv(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """CSV text in chunks, so that millions of rows need no memory."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(titles)
    for number, row in enumerate(rows, start=1):
        writer.writerow([_cell(value) for value in row])
        if number % _ROWS_AT_ONCE == 0:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _cell(value: object) -> object:
    """Whole numbers without a decimal point: 60, not 60.0. Empty if not finite."""
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < _WHOLE_MAX else value


# -- files --------------------------------------------------------------------------------------


def _write(path: Path, chunks: Iterable[str | bytes]) -> None:
    check_writable(path)
    try:
        with writing(path) as file:
            file.writelines(_encoded(chunk) for chunk in chunks)
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {why_refused(error)}") from error


def _encoded(chunk: str | bytes) -> bytes:
    # A lone surrogate in a job's id must not break the whole report.
    return chunk if isinstance(chunk, bytes) else chunk.encode(errors="backslashreplace")
