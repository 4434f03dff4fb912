"""`treadle replicate`: rerun a paper's experiments and compare with the published figures."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click

from treadle.cli.study.options import names
from treadle.cli.study.run_json import facts
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.replications.paper import Paper
from treadle.replications.rows import Row, text
from treadle.reports.metrics import Summary
from treadle.sim.experiment import fit_to, prepare
from treadle.traces.clusters import cluster as parse_cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

# Modules of treadle.replications, loaded on use.
PAPERS = ("afs", "aiturbo", "muri", "rubick", "philly")


@click.command()
@click.argument("paper", type=click.Choice(PAPERS))
@click.option("--trace", metavar="FILE", help="Apply the paper's settings to this trace instead.")
@click.option("--policies", default="", metavar="A,B,C", help="With --trace: the policies to run.")
@click.option(
    "--autopack",
    type=click.Choice(["on", "off"]),
    help="With muri --trace: split groups that lose by sharing; off in most published figures.  "
    "[default: off]",
)
@click.option(
    "--cluster",
    "cluster_text",
    metavar="NODESxGPUS|FILE|PRESET",
    help="With --trace: a cluster other than the paper's.",
)
@click.option(
    "--oversize",
    type=click.Choice(["error", "skip", "cut"]),
    default="error",
    show_default=True,
    help="With --trace: jobs larger than the whole cluster: refuse, skip or cut to size.",
)
@click.option(
    "--traces",
    "folder",
    type=Path,
    metavar="DIR",
    help="Folder of the paper's traces.  [default: TREADLE_SHARED/traces, or ../shared/traces]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replicate(
    paper: str,
    trace: str | None,
    policies: str,
    autopack: str | None,
    cluster_text: str | None,
    oversize: str,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Rerun the experiments of PAPER and compare; exit 1 if a figure is out of tolerance."""
    chosen: Paper = import_module(f"treadle.replications.{paper}").PAPER
    options = {} if autopack is None else {"autopack": autopack}
    unknown = [name for name in options if name not in chosen.options]
    if unknown:
        raise InvalidInputError(f"--{unknown[0]} does not apply to {paper}; remove it")
    if trace is not None:
        listed = names(policies) if policies else list(chosen.policies)
        cluster = parse_cluster(cluster_text or chosen.cluster)
        workload = fit_to(load(trace, cluster=cluster), cluster, oversize)
        _run_on(chosen, workload, cluster, listed, options, as_json=as_json)
        return
    if policies or options or cluster_text:
        raise InvalidInputError("--policies, --autopack and --cluster need --trace FILE")
    sections = _compare(chosen, folder, as_json=as_json)
    if as_json:
        found = {title: [row.as_dict() for row in rows] for title, rows in sections.items()}
        click.echo(json.dumps(found, indent=1))
    if not all(row.holds for rows in sections.values() for row in rows):
        raise SystemExit(1)


def _run_on(
    paper: Paper,
    workload: Workload,
    cluster: Cluster,
    policies: list[str],
    options: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    """Run any trace with the paper's settings; the JSON is that of `treadle simulate`."""
    if not workload.jobs:
        raise InvalidInputError(f"{workload.source} contains no jobs to run")
    experiments = [
        prepare(workload, cluster, paper.settings(policy, options)) for policy in policies
    ]
    results: list[dict[str, object]] = []
    summaries: list[Summary] = []
    spent_s = 0.0
    for policy, experiment in zip(policies, experiments, strict=True):
        summary = replace(experiment.finish(), policy=policy)
        if paper.from_zero:
            summary = replace(summary, makespan_s=summary.end_s)
        summaries.append(summary)
        now_s = time.process_time()
        results.append(facts(workload, experiment, summary, now_s - spent_s))
        spent_s = now_s
    if as_json:
        click.echo(json.dumps(results, indent=1))
    else:
        from treadle.reports.table import comparison_table  # noqa: PLC0415  # loads slowly

        click.echo(comparison_table(summaries), nl=False)


def _compare(paper: Paper, folder: Path | None, *, as_json: bool) -> dict[str, list[Row]]:
    """All figures by heading; each table is printed when it is complete."""
    cluster = parse_cluster(paper.cluster)
    sections: dict[str, list[Row]] = {}
    for title, row in paper.figures(lambda trace: _load(folder, trace, cluster), cluster):
        if sections and title not in sections and not as_json:
            _print(sections)
        sections.setdefault(title, []).append(row)
    if not as_json:
        _print(sections)
    return sections


def _print(sections: Mapping[str, list[Row]]) -> None:
    """Print the last table."""
    title = list(sections)[-1]
    click.echo(f"{title}\n{text(sections[title])}\n")


def _load(folder: Path | None, name: str, cluster: Cluster) -> Workload:
    shared = Path(os.environ.get("TREADLE_SHARED", Path("..") / "shared"))
    path = (folder or shared / "traces") / f"{name}.csv.gz"
    if not path.exists():
        raise InvalidInputError(
            f"there is no {path}; give the folder of the traces with --traces DIR"
        )
    return load(str(path), cluster=cluster)
