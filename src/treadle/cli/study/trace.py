"""`treadle trace`: describe, convert and generate traces."""

import json
from pathlib import Path

import click

from treadle.cli.numbers import Number
from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.traces.clusters import cluster as cluster_of
from treadle.traces.convert import check_writable, write
from treadle.traces.describe import describe as describe_workload
from treadle.traces.load import load as load_workload
from treadle.traces.synthetic import KINDS, generate
from treadle.traces.treadle_csv import text_lines
from treadle.traces.workload import Workload

_CLUSTER_HELP = "8x8, 231x8+321x2, philly, philly-fixed, philly-mini, or a file."


@click.group()
def trace() -> None:
    """Describe, convert and generate traces."""


@trace.command()
@click.argument("file")
@click.option(
    "--cluster", metavar="CLUSTER", help=f"Show the load on this cluster: {_CLUSTER_HELP}"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(file: str, cluster: str | None, *, as_json: bool) -> None:
    """Describe FILE, a trace of any known format or generate:KIND?jobs=1000&seed=0."""
    machines = None if cluster is None else cluster_of(cluster)
    described = describe_workload(load_workload(file, cluster=machines), machines)
    if as_json:
        click.echo(json.dumps(described.as_dict(), indent=2, ensure_ascii=False))
    else:
        click.echo(described.text())


@trace.command()
@click.argument("file")
@click.argument("out")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
def convert(file: str, out: str, *, force: bool) -> None:
    """Convert FILE to Treadle's own CSV; OUT may be - for standard output, .gz compresses."""
    _check_out(out, force=force)
    _put(load_workload(file), out, force=force, then=f"treadle trace describe {out}")


@trace.command("generate")
@click.argument("kind", metavar="KIND")
@click.argument("out", default="-")
@click.option("--jobs", type=int, default=1000, show_default=True, help="Number of jobs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--load",
    type=Number(),
    default=0.9,
    show_default=True,
    help="Work relative to the cluster's capacity.",
)
@click.option("--cluster", default="8x8", show_default=True, help=_CLUSTER_HELP)
@click.option("--arrivals", default="", help="For aiturbo: bursts, daily or poisson.")
@click.option(
    "--longest",
    type=int,
    metavar="SECONDS",
    help="For philly: the longest job.  [default: 60 days]",
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print a description as JSON.")
def generate_trace(
    kind: str,
    out: str,
    *,
    jobs: int,
    seed: int,
    load: float,
    cluster: str,
    arrivals: str,
    longest: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Generate a workload of KIND for a cluster; OUT may be - for standard output."""
    machines = cluster_of(cluster)
    _check_out(out, force=force)
    drawn = generate(
        kind,
        jobs=jobs,
        seed=seed,
        load=load,
        cluster=machines,
        arrivals=arrivals,
        longest_s=longest,
    )
    then = "" if as_json else f"treadle simulate {out} --cluster {cluster}"
    _put(drawn, out, force=force, then=then)
    if as_json:
        described = describe_workload(drawn, machines).as_dict()
        click.echo(json.dumps(described, indent=2, ensure_ascii=False), err=out == "-")


generate_trace.epilog = "\b\n" + "\n".join(f"{name:<9} {line}" for name, line in KINDS.items())


def _check_out(out: str, *, force: bool) -> None:
    """Refuse an OUT that cannot be written, before any work is done."""
    if not out:
        raise InvalidInputError("OUT is empty; expected a file name, or - for standard output")
    if out != "-":
        check_writable(Path(out), force=force)


def _put(workload: Workload, out: str, *, force: bool, then: str) -> None:
    """Write the workload, and suggest the next command."""
    if out == "-":
        for line in text_lines(workload):
            click.echo(line, nl=False)
        return
    write(workload, Path(out), force=force)
    if then:
        click.echo(f"wrote {several(len(workload.jobs), 'job')} to {out}")
        for note in workload.notes:
            click.echo(f"  note: {note}")
        click.echo(f"next: {then}")
