"""`treadle league`: every policy on the league's workloads, beside lower bounds."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from treadle.cli.numbers import Number
from treadle.cli.show.progress_bar import Progress
from treadle.cli.study.options import command_line, interactive, names
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.wording import several
from treadle.league.competition import VARIANTS, Plan, cells, play
from treadle.league.league_document import document, for_page, league_object, list_object, list_text
from treadle.league.policy_file import PolicyFile, offered
from treadle.league.result_cache import ResultCache
from treadle.league.standings import Played, Row, standings
from treadle.league.workload_list import (
    OPTIONS,
    SEEDS_MAX,
    LeagueWorkload,
    chosen,
    from_file,
    joined,
    option,
    standard,
)
from treadle.models.scaling import ScalingModel
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.reports.document_page import document_page
from treadle.reports.document_text import document_text
from treadle.reports.export import check_directory, check_writable, write_text
from treadle.reports.json_numbers import finite

TRACES = "../shared/traces"


@click.command()
@click.option(
    "--workloads",
    default="",
    metavar="A,B",
    help="Workloads, or patterns such as 'rigid-*'.  [default: all]",
)
@click.option("--policies", default="", metavar="A,B", help="Policies.  [default: all]")
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=SEEDS_MAX),
    default=3,
    show_default=True,
    metavar="N",
    help="Runs of a generated workload, each with another seed.",
)
@click.option(
    "--jobs",
    "workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: all cores]",
)
@click.option(
    "--traces", default=TRACES, show_default=True, metavar="DIR", help="Folder of trace files."
)
@click.option(
    "--add", type=Path, multiple=True, metavar="FILE.toml", help="Add workloads. Repeatable."
)
@click.option(
    "--policy-file",
    "policy_files",
    multiple=True,
    metavar="FILE.py:FACTORY",
    help="Add a policy. Repeatable.",
)
@click.option(
    "--one-class", is_flag=True, help="Rank policies with and without lengths in one class."
)
@click.option(
    "--against",
    default="",
    metavar="A,B",
    help="Set these policies against the best of the others on each workload.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Override an option of every workload, such as restart_cost=60. Repeatable.",
)
@click.option(
    "--cpu-limit",
    type=Number(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="CPU time of one run, after which it is cut off.",
)
@click.option(
    "--cache",
    type=Path,
    metavar="DIR",
    help="Folder of results; a run that is there is not repeated.  [default: "
    "treadle/league in the user's cache folder]",
)
@click.option("--fresh", is_flag=True, help="Repeat all runs and replace cached results.")
@click.option("--list", "as_list", is_flag=True, help="List the workloads and exit.")
@click.option(
    "--json", "json_file", type=Path, metavar="FILE", help="Write one JSON object; - prints it."
)
@click.option("--html", type=Path, metavar="FILE.html", help="Write one self-contained page.")
@click.pass_context
def league(
    context: click.Context,
    /,
    workloads: str,
    policies: str,
    seeds: int,
    workers: int | None,
    traces: str,
    add: tuple[Path, ...],
    policy_files: tuple[str, ...],
    one_class: bool,
    against: str,
    overrides: tuple[str, ...],
    cpu_limit: float,
    cache: Path | None,
    fresh: bool,
    as_list: bool,
    json_file: Path | None,
    html: Path | None,
) -> None:
    """Run policies on the league's workloads and rank them beside lower bounds."""
    listed = joined(standard(), *map(from_file, add))
    patterns = _words(workloads, "--workloads", "tenants")
    wanted = [_overridden(one, overrides) for one in chosen(listed, patterns)]
    printing = json_file is not None and str(json_file) == "-"
    if as_list:
        sizes = {one.name: _size(one, traces) for one in wanted}
        shown = json.dumps(list_object(wanted, sizes), indent=1)
        click.echo(shown if json_file is not None else list_text(wanted, sizes))
        return
    for path in (html, None if printing else json_file):
        if path is not None:
            check_writable(path)
    skipped = _skipped(wanted, traces)
    for name, reason in skipped.items():
        click.echo(f"treadle: workload {name} is skipped: {reason}", err=True)
    files = [PolicyFile.parse(text) for text in policy_files]
    folder = cache or _cache_folder()
    check_directory(folder)
    with offered(files):
        plan = Plan(
            [one for one in wanted if one.name not in skipped],
            _policies(policies, files),
            seeds=seeds,
            traces=traces,
            cpu_limit_s=cpu_limit,
            policy_files=files,
            one_class=one_class,
            against=_words(against, "--against"),
        )
        _check_against(plan)
        if not plan.workloads:
            raise InvalidInputError("no workload is left to run; see --traces and --workloads")
        processes = workers or os.cpu_count() or 1
        rows = standings(_play(plan, processes, ResultCache(folder), fresh=fresh))
        command = command_line(context)
        result = json.dumps(finite(league_object(plan, rows, skipped, command)), indent=1) + "\n"
        report = document(plan, rows, skipped, command)
    click.echo(result if printing else document_text(report), nl=False)
    if json_file is not None and not printing:
        write_text(json_file, result)
    if html is not None:
        write_text(html, document_page(for_page(report)))
    _complain(rows)


def _words(text: str, option: str, such_as: str = "fifo,srtf") -> list[str]:
    return names(text, option, such_as) if text else []


def _policies(text: str, files: Sequence[PolicyFile]) -> list[str]:
    """The chosen policies and those of files; every name and parameter is checked here."""
    everyone = [*registry.names(), *VARIANTS]
    listed = [*(_words(text, "--policies") or everyone), *(one.policy for one in files)]
    for name in dict.fromkeys(listed):
        registry.policy(name, placement("consolidate"), ScalingModel())
    return list(dict.fromkeys(listed))


def _check_against(plan: Plan) -> None:
    for name in plan.against:
        if name not in plan.policies:
            raise InvalidInputError(
                f"--against {name} is not one of the policies that run; add it to --policies"
            )


def _overridden(one: LeagueWorkload, overrides: Sequence[str]) -> LeagueWorkload:
    """The workload with these options; they are checked here, before any run."""
    options = dict(one.options)
    for text in overrides:
        key, equals, value = text.partition("=")
        if key not in OPTIONS or not equals:
            raise InvalidInputError(
                f"--set {text} is invalid; expected OPTION=VALUE with one of {', '.join(OPTIONS)}"
            )
        options[key] = option(key, value)
    changed = replace(one, options=options)
    changed.check()
    return changed


def _where(one: LeagueWorkload) -> str:
    """What to do about a trace file that is not there."""
    if "{traces}" in one.trace:
        return "give the folder of traces with --traces"
    return "its path counts from the current folder, or from that of --traces if it is {traces}/..."


def _skipped(workloads: Sequence[LeagueWorkload], traces: str) -> dict[str, str]:
    """The workloads whose trace file is not there, with the reason."""
    return {
        one.name: f"{path} does not exist; {_where(one)}"
        for one in workloads
        if (path := one.missing(traces))
    }


def _size(one: LeagueWorkload, traces: str) -> str:
    if one.missing(traces):
        return "trace not found"
    workload, _ = one.read(traces, one.seed)
    return several(len(workload.jobs), "job")


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "treadle" / "league"


def _play(plan: Plan, workers: int, cache: ResultCache, *, fresh: bool) -> list[Played]:
    """All cells in the plan's order, with progress on standard error."""
    planned = cells(plan)
    progress = Progress(len(planned), f"{len(planned)} runs")
    left = {one.name: 0 for one in plan.workloads}
    for cell in planned:
        left[cell.workload.name] += 1
    found: dict[tuple[str, str, int], Played] = {}
    cached = 0
    for played, from_cache in play(plan, workers=workers, cache=cache, fresh=fresh):
        found[played.workload, played.policy, played.seed] = played
        cached += from_cache
        left[played.workload] -= 1
        if interactive():
            progress.advance(1)
        elif not left[played.workload]:
            done = f"{len(found)} of {len(planned)} runs, {cached} of them from the cache"
            click.echo(f"{played.workload} is done ({done})", err=True)
    progress.done()
    return [found[cell.workload.name, cell.policy, cell.seed] for cell in planned]


def _complain(rows: Sequence[Row]) -> None:
    """Raise if a policy has no figures on some workload: it was cut off, or it failed."""
    lost = [row for row in rows if row.trouble]
    if lost:
        first = lost[0]
        raise TreadleError(
            f"{several(len(lost), 'row is a loss', 'rows are losses')}, the first "
            f"{first.policy} on {first.workload}: {first.trouble}"
        )
