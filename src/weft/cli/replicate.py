"""`weft replicate`: a paper's experiments, measured beside published."""

import json
import os
from pathlib import Path

import click

from weft.cli.compare import names
from weft.cli.options import interactive
from weft.cli.progress import Progress
from weft.core.errors import InvalidInputError
from weft.replications import afs
from weft.replications.rows import text
from weft.traces.clusters import cluster as parse_cluster
from weft.traces.load import load


@click.command()
@click.argument("paper", type=click.Choice(["afs"]))
@click.option("--trace", metavar="FILE", help="Apply the paper's settings to this trace instead.")
@click.option("--policies", default="", metavar="A,B,C", help="With --trace: which to run.")
@click.option(
    "--traces",
    "folder",
    type=Path,
    metavar="DIR",
    help="Where the paper's traces lie.  [default: WEFT_SHARED/traces, or ../shared/traces]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replicate(
    paper: str,  # noqa: ARG001  # the only one so far
    trace: str | None,
    policies: str,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Run the experiments of PAPER again and compare; exit 1 where a tolerance is missed."""
    machines = parse_cluster(afs.CLUSTER)
    if trace is not None:
        chosen = names(policies) if policies else ["afs", *afs.POLICIES]
        summaries = afs.run(load(trace, cluster=machines), machines, chosen)
        click.echo(json.dumps([summary.as_dict() for summary in summaries], indent=1))
        return
    missed = False
    progress = Progress(afs.RUNS * len(afs.PUBLISHED), "replicating afs")
    results: dict[str, list[dict[str, object]]] = {}
    for name in afs.PUBLISHED:
        rows = []
        for row in afs.compare(load(str(_find(folder, name)), cluster=machines), machines, name):
            rows.append(row)
            if interactive() and not as_json:
                progress.advance(1)
        progress.done()
        missed = missed or not all(row.holds for row in rows)
        results[name] = [row.as_dict() for row in rows]
        if not as_json:
            click.echo(f"{name}\n{text(rows)}\n")
    if as_json:
        click.echo(json.dumps(results, indent=1))
    if missed:
        raise SystemExit(1)


def _find(folder: Path | None, name: str) -> Path:
    shared = Path(os.environ.get("WEFT_SHARED", Path("..") / "shared"))
    path = (folder or shared / "traces") / f"{name}.csv.gz"
    if not path.exists():
        raise InvalidInputError(f"there is no {path}; say where the traces lie with --traces DIR")
    return path
