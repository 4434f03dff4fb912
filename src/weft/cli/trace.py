"""`weft trace`: describe, convert and generate traces."""

import json
from pathlib import Path

import click

from weft.traces.clusters import cluster as cluster_of
from weft.traces.convert import write
from weft.traces.describe import describe as describe_workload
from weft.traces.load import load as load_workload
from weft.traces.own import text_lines
from weft.traces.synthetic import KINDS, generate
from weft.traces.workload import Workload

_CLUSTER_HELP = "8x8, 231x8+321x2, philly, philly-fixed, philly-mini, or a file."


@click.group()
def trace() -> None:
    """Describe, convert and generate traces."""


@trace.command()
@click.argument("file")
@click.option("--cluster", metavar="CLUSTER", help=f"Say the load on this: {_CLUSTER_HELP}")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(file: str, cluster: str | None, *, as_json: bool) -> None:
    """Say what is in FILE, a trace of any known format or generate:KIND?jobs=1000&seed=0."""
    machines = cluster_of(cluster) if cluster else None
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
    """Write FILE as Weft's own CSV to OUT; - is the standard output, .gz packs it."""
    _put(load_workload(file), out, force=force, then=f"weft trace describe {out}")


@trace.command("generate")
@click.argument("kind", metavar="KIND")
@click.argument("out", default="-")
@click.option("--jobs", type=int, default=1000, show_default=True, help="How many jobs.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="The same seed, the same jobs."
)
@click.option("--load", type=float, default=0.9, show_default=True, help="Work over capacity.")
@click.option("--cluster", default="8x8", show_default=True, help=_CLUSTER_HELP)
@click.option("--arrivals", default="", help="For aiturbo: bursts, daily or poisson.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print what was drawn as JSON.")
def generate_trace(
    kind: str,
    out: str,
    *,
    jobs: int,
    seed: int,
    load: float,
    cluster: str,
    arrivals: str,
    force: bool,
    as_json: bool,
) -> None:
    """Draw a workload of KIND for a cluster and write it to OUT; - is the standard output."""
    machines = cluster_of(cluster)
    drawn = generate(kind, jobs=jobs, seed=seed, load=load, cluster=machines, arrivals=arrivals)
    then = "" if as_json else f"weft simulate {out} --cluster {cluster}"
    _put(drawn, out, force=force, then=then)
    if as_json:
        described = describe_workload(drawn, machines).as_dict()
        click.echo(json.dumps(described, indent=2, ensure_ascii=False), err=out == "-")


generate_trace.epilog = "\b\n" + "\n".join(f"{name:<9} {line}" for name, line in KINDS.items())


def _put(workload: Workload, out: str, *, force: bool, then: str) -> None:
    """Write the workload and say so, with what to do next."""
    if out == "-":
        for line in text_lines(workload):
            click.echo(line, nl=False)
        return
    write(workload, Path(out), force=force)
    if then:
        click.echo(f"wrote {len(workload.jobs):,} jobs to {out}")
        for note in workload.notes:
            click.echo(f"  note: {note}")
        click.echo(f"next: {then}")
