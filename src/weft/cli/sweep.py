"""`weft sweep`: every combination of policies, placements, times and seeds, over all cores."""

import csv
import json
import os
from dataclasses import replace
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import click

from weft.cli.compare import names
from weft.cli.options import interactive, run_options, settings, trace_options
from weft.cli.progress import Progress
from weft.core.errors import InvalidInputError, WeftError
from weft.reports.export import check_writable, write_text
from weft.reports.metrics import Summary
from weft.reports.table import duration
from weft.sim.sweep import Task
from weft.sim.sweep import sweep as run_sweep

SEEDS_MAX = 10_000
_COLUMNS = ("policy", "placement", "time", "seed")


@click.command()
@trace_options
@click.option("--policies", default="fifo,srtf", show_default=True, metavar="A,B,C")
@click.option("--placements", default="", metavar="A,B", help="Instead of one --placement.")
@click.option("--times", default="", metavar="A,B", help="Instead of one --time.")
@click.option(
    "--seeds",
    default="",
    metavar="0..9",
    help="Instead of one --seed. A generated trace is drawn anew for each.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes.  [default: all cores]")
@run_options
@click.option("--out", type=Path, metavar="FILE", help="Write all numbers, as .csv or .json.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def sweep(
    trace: str,
    cluster_text: str,
    oversize: str,
    policies: str,
    placements: str,
    times: str,
    seeds: str,
    workers: int | None,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run TRACE under every combination, over all cores."""
    if out is not None:
        check_writable(out)
        if out.suffix not in {".csv", ".json"}:
            raise InvalidInputError(f"--out {out} ends in {out.suffix!r}; expected .csv or .json")
    base = settings("fifo", options)
    combinations = product(
        names(policies),
        names(placements) if placements else [base.placement],
        names(times) if times else [base.time],
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
            ),
        )
        for policy, placement, time_text, seed in combinations
    ]
    ended = _run(tasks, workers or os.cpu_count() or 1, show=interactive() and not as_json)
    failed = [one for one in ended if isinstance(one, WeftError)]
    if len(failed) == len(tasks):
        raise failed[0]
    done = [(t, one) for t, one in zip(tasks, ended, strict=True) if not isinstance(one, WeftError)]
    rows = [_row(task, summary) for task, summary in done]
    if out is not None:
        write_text(out, json.dumps(rows, indent=1) if out.suffix == ".json" else _csv(rows))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        click.echo(_table([task for task, _ in done], [summary for _, summary in done]))
        if out is not None:
            click.echo(f"written {len(rows)} rows to {out}")
    if failed:
        raise WeftError(f"{len(failed)} of {len(tasks)} runs failed, the first because {failed[0]}")


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
        raise InvalidInputError(f"seeds {text!r} are not known; write 0..9 or 1,5,7")
    return seeds


def with_seed(trace: str, seed: int) -> str:
    """The same generated trace with another seed; files stay as they are."""
    if not trace.startswith("generate:"):
        return trace
    kind, _, query = trace.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith("seed=")]
    return f"{kind}?{'&'.join([*kept, f'seed={seed}'])}"


def _run(tasks: list[Task], workers: int, *, show: bool) -> list[Summary | WeftError]:
    progress = Progress(len(tasks), f"{len(tasks)} simulations")
    results: dict[int, Summary | WeftError] = {}
    for place, one in run_sweep(tasks, workers):
        results[place] = one
        if show:
            progress.advance(1)
    progress.done()
    return [results[place] for place in range(len(tasks))]


def _row(task: Task, summary: Summary) -> dict[str, object]:
    chosen = task.settings
    return {
        "trace": task.trace,
        "cluster": task.cluster,
        **dict(zip(_COLUMNS, _words(task), strict=True)),
        "seed": chosen.seed,
        **{key: value for key, value in summary.as_dict().items() if key != "policy"},
    }


def _words(task: Task) -> tuple[str, ...]:
    chosen = task.settings
    return (chosen.policy, chosen.placement, chosen.time, str(chosen.seed))


def _csv(rows: list[dict[str, object]]) -> str:
    flat = [{k: v for k, v in row.items() if not isinstance(v, dict)} for row in rows]
    text = StringIO()
    writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _table(tasks: list[Task], results: list[Summary]) -> str:
    """The columns that differ between runs, and the key figures."""
    words = [_words(task) for task in tasks]
    vary = [i for i in range(len(_COLUMNS)) if i == 0 or len({w[i] for w in words}) > 1]
    titles = [*(_COLUMNS[i] for i in vary), "finished", "JCT mean", "p99", "queue", "makespan"]
    rows = [titles]
    for chosen, one in zip(words, results, strict=True):
        figures = (one.jct_mean_s, one.jct_p99_s, one.queue_mean_s, one.makespan_s)
        rows.append(
            [
                *(chosen[i] for i in vary),
                str(one.finished),
                *(duration(figure) or "-" for figure in figures),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(titles))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < len(vary) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
