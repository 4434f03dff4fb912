"""`treadle sweep`: simulate every combination of policies, seeds and options, on all cores."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import click

from treadle.cli.numbers import Number
from treadle.cli.show.progress_bar import Progress
from treadle.cli.show.table import Column, table
from treadle.cli.study.options import interactive, names, run_options, settings, trace_options
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.wording import duration
from treadle.reports.export import check_writable, write_text
from treadle.reports.metrics import Summary
from treadle.sim.settings import BELIEFS, Settings
from treadle.sim.sweep import Task
from treadle.sim.sweep import sweep as run_sweep

SEEDS_MAX = 10_000
# Run options that --vary takes, and the types of their values.
_AXES: "Mapping[str, click.ParamType[Any]]" = {
    "belief": click.Choice(BELIEFS),
    "belief-error": Number(min=0),
    "length-error": Number(min=0),
    "sharing-error": Number(min=0, max=1, max_open=True),
    "restart-cost": click.STRING,
    "restart-charge": click.STRING,
    "effects": click.STRING,
    "sharing": click.STRING,
    "elastic": Number(min=0, max=1),
    "live": click.BOOL,
}
_COLUMNS = ("policy", "placement", "time", *_AXES, "seed")  # the options that distinguish runs
_FIGURES = ("finished", "JCT mean", "p99", "queue", "makespan")
_Done = Sequence[tuple[Task, Summary]]


@click.command()
@trace_options
@click.option(
    "--policies", default="fifo,srtf", show_default=True, metavar="A,B,C", help="Policies to run."
)
@click.option(
    "--placements", default="", metavar="A,B", help="Several placements, instead of --placement."
)
@click.option("--times", default="", metavar="A,B", help="Several times, instead of --time.")
@click.option(
    "--seeds",
    default="",
    metavar="0..9",
    help="Several seeds, instead of --seed; a generated trace is drawn again for each.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="OPTION=A,B",
    help=f"Several values of another option: {', '.join(_AXES)}. Repeatable.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of processes.  [default: all cores]"
)
@run_options
@click.option("--out", type=Path, metavar="FILE", help="Write all results to a .csv or .json file.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def sweep(
    trace: str,
    cluster_text: str,
    oversize: str,
    policies: str,
    placements: str,
    times: str,
    seeds: str,
    vary: tuple[str, ...],
    workers: int | None,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate TRACE under every combination, on all cores."""
    _check_target(out)
    base = settings("fifo", options)
    combinations = product(
        names(policies),
        names(placements, "--placements", "count,spread") if placements else [base.placement],
        names(times, "--times", "event,rounds:360") if times else [base.time],
        list(varied(vary)),
        seed_list(seeds) if seeds else [base.seed],
    )
    tasks = [
        Task(
            with_seed(trace, seed) if seeds else trace,
            cluster_text,
            oversize,
            replace(
                base,
                policy=policy,
                placement=placement,
                time=time_text,
                seed=seed,
                faults=replace(base.faults, seed=seed),
                **others,
            ),
        )
        for policy, placement, time_text, others, seed in combinations
    ]
    ended = _run(tasks, workers or os.cpu_count() or 1, show=interactive() and not as_json)
    failed = [one for one in ended if isinstance(one, TreadleError)]
    if len(failed) == len(tasks):
        raise failed[0]
    done = [
        (t, one) for t, one in zip(tasks, ended, strict=True) if not isinstance(one, TreadleError)
    ]
    rows = [_row(task, summary) for task, summary in done]
    lines = [json.dumps(rows, indent=1) if as_json else _table(done)]
    if out is not None:
        write_text(out, json.dumps(rows, indent=1) if out.suffix == ".json" else _csv(rows))
        lines.append(f"written {len(rows)} rows to {out}")
    click.echo("\n".join(lines[:1] if as_json else lines))
    if failed:
        raise TreadleError(
            f"{len(failed)} of {len(tasks)} runs failed, the first because {failed[0]}"
        )


def varied(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Every combination of `OPTION=A,B` texts, each as settings by name."""
    axes: dict[str, list[tuple[str, Any]]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        kind = _AXES.get(name)
        if kind is None or not values:
            raise InvalidInputError(
                f"--vary {text} is invalid; expected OPTION=A,B with one of {', '.join(_AXES)}"
            )
        # Values that contain commas themselves are separated by semicolons.
        parts = values.split(";" if ";" in values else ",")
        axes[name] = [(_field(name), kind.convert(part.strip(), None, None)) for part in parts]
    return (dict(chosen) for chosen in product(*axes.values()))


def _check_target(out: Path | None) -> None:
    """Refuse, before a long run, a file that could not be written after it."""
    if out is not None:
        check_writable(out)
        if out.suffix not in {".csv", ".json"}:
            raise InvalidInputError(f"--out {out} ends in {out.suffix!r}; expected .csv or .json")


def seed_list(text: str) -> list[int]:
    """`0..9` or `1,5,7`."""
    first, dots, last = text.partition("..")
    try:
        seeds = (
            list(range(int(first), int(last) + 1))
            if dots
            else [int(part) for part in text.split(",")]
        )
    except ValueError:
        seeds = []
    if not 0 < len(seeds) <= SEEDS_MAX:
        raise InvalidInputError(f"seeds {text!r} are invalid; expected 0..9 or 1,5,7")
    return seeds


def with_seed(trace: str, seed: int) -> str:
    """A generated trace with another seed; a file is not changed."""
    if not trace.startswith("generate:"):
        return trace
    kind, _, query = trace.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith("seed=")]
    return f"{kind}?{'&'.join([*kept, f'seed={seed}'])}"


def _run(tasks: list[Task], workers: int, *, show: bool) -> list[Summary | TreadleError]:
    progress = Progress(len(tasks), f"{len(tasks)} simulations")
    results: dict[int, Summary | TreadleError] = {}
    for place, one in run_sweep(tasks, workers):
        results[place] = one
        if show:
            progress.advance(1)
    progress.done()
    return [results[place] for place in range(len(tasks))]


def _differing(done: _Done) -> list[str]:
    """The policy, and the other options that differ between these runs."""
    values = {name: {_value(task.settings, name) for task, _ in done} for name in _COLUMNS}
    return [name for name in _COLUMNS if name == "policy" or len(values[name]) > 1]


def _value(chosen: Settings, name: str) -> Any:
    return getattr(chosen, _field(name))


def _field(option: str) -> str:
    return option.replace("-", "_")


def _row(task: Task, summary: Summary) -> dict[str, object]:
    return {
        "trace": task.trace,
        "cluster": task.cluster,
        **{_field(name): _value(task.settings, name) for name in _COLUMNS},
        **{key: value for key, value in summary.as_dict().items() if key != "policy"},
    }


def _csv(rows: list[dict[str, object]]) -> str:
    flat = [{k: v for k, v in row.items() if not isinstance(v, dict)} for row in rows]
    text = StringIO()
    writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _table(done: _Done) -> str:
    """The columns that differ between runs, and the key figures."""
    differ = _differing(done)
    columns = [
        *(Column(name.replace("-", " "), always=True) for name in differ),
        *(Column(title, right=True) for title in _FIGURES),
    ]
    rows = []
    for task, one in done:
        figures = (one.jct_mean_s, one.jct_p99_s, one.queue_mean_s, one.makespan_s)
        rows.append(
            [
                *(str(_value(task.settings, name)) for name in differ),
                str(one.finished),
                *(duration(figure) or "-" for figure in figures),
            ]
        )
    return table(columns, rows)
