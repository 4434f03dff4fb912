"""`weft demo`: policies compared on a generated Philly-like day, with a report to look at."""

import os
import sys
import webbrowser
from pathlib import Path

import click

from weft.cli.compare import notes, run_all, write
from weft.cli.options import names
from weft.reports.comparison import Comparison
from weft.reports.export import make_directory
from weft.reports.table import comparison_table
from weft.sim.settings import Settings
from weft.traces.clusters import cluster as parse_cluster
from weft.traces.describe import describe
from weft.traces.load import load

# A day's work for 160 devices and a tenth more, without the few jobs that run for weeks, so that
# the whole of it can be seen. Of five seeds this one has the median result under fifo.
TRACE = "generate:philly?jobs=1500&seed=4&load=1.1&longest=43200"
CLUSTER = "20x8"
POLICIES = "fifo,backfill,srtf,las,tiresias"
RESTART_COST = "30"


@click.command()
@click.option(
    "--out",
    type=Path,
    default=Path("weft-demo"),
    show_default=True,
    metavar="DIR",
    help="Where to put the report.",
)
@click.option("--open/--no-open", "open_page", default=None, help="Open it in a browser, or not.")
def demo(out: Path, open_page: bool | None) -> None:
    """Compare policies on a generated Philly-like day and show the report."""
    make_directory(out)
    cluster = parse_cluster(CLUSTER)
    workload = load(TRACE, cluster=cluster)
    click.echo(describe(workload, cluster).text())
    click.echo(f"\nThe same jobs under five policies; a restart costs {RESTART_COST} s.\n")
    base = Settings(restart_cost=RESTART_COST)
    runs = run_all(workload, cluster, base, names(POLICIES), show=sys.stderr.isatty())
    report = out / "report.html"
    command = (
        f"weft compare '{TRACE}' --cluster {CLUSTER} --policies {POLICIES} "
        f"--restart-cost {RESTART_COST} --report {report}"
    )
    comparison = Comparison(
        title="A Philly-like day",
        command=command,
        notes=notes(workload, cluster, base),
        cluster=cluster,
        runs=runs,
    )
    click.echo(comparison_table([run.summary for run in runs]))
    write(comparison, report, None, None)
    click.echo(f"The report: {report.resolve().as_uri()}")
    click.echo(f"The same again, to change as you like:\n  {command}")
    if open_page or (open_page is None and _has_screen()):
        webbrowser.open(report.resolve().as_uri())


def _has_screen() -> bool:
    """Whether a person sits at a terminal with a desktop around it."""
    desktop = sys.platform in {"darwin", "win32"} or "DISPLAY" in os.environ
    return sys.stdout.isatty() and (desktop or "WAYLAND_DISPLAY" in os.environ)
