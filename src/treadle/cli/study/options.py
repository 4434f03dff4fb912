"""Options that several commands share, and the settings that they make."""

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from math import inf
from typing import Any

import click
from click.core import ParameterSource

from treadle.cli.numbers import Number
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.policies.base.placement import PLACEMENTS
from treadle.policies.registry import names as policy_names
from treadle.sim.experiment import fit_to
from treadle.sim.faults import FaultSettings
from treadle.sim.settings import BELIEFS, LENGTHS, RETRY, SHARING, SPEEDS, Settings
from treadle.traces.clusters import cluster as parse_cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

Command = Callable[..., Any]


def _beginning(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Shell completion with the names that begin with the typed text."""
    return lambda _context, _option, typed: [name for name in names() if name.startswith(typed)]


def policy_choice(default: str) -> Callable[[Command], Command]:
    """The --policy option with that default."""
    return click.option(
        "--policy",
        default=default,
        show_default=True,
        metavar="NAME[?PARAMETER=VALUE&...]",
        shell_complete=_beginning(policy_names),
        help="Policy name; `treadle policies` lists them.",
    )


policy_option = policy_choice("fifo")


def _chosen(
    option: str, default: str, help_: str, *, among: Iterable[str] = (), metavar: str = ""
) -> Callable[[Command], Command]:
    """An option for a text: one of several, or of a form that its metavar shows."""
    return click.option(
        *option.split(),
        default=default,
        show_default=True,
        metavar=metavar or "|".join(among),
        shell_complete=_beginning(lambda: among),
        help=help_,
    )


def _number(
    option: str, metavar: str, help_: str, *, default: float | None = 0.0, **limits: Any
) -> Callable[[Command], Command]:
    """An option for a number; a default of none or 0 means that there is no such thing."""
    return click.option(
        option,
        type=Number(min=0, **limits),
        default=default,
        show_default=bool(default),
        metavar=metavar,
        help=help_,
    )


_RUN_OPTIONS = (
    click.option(
        "--live",
        is_flag=True,
        help="Decide as the daemon does: with priorities, host memory and cores, device types, "
        "reservations and sharing around the policy.",
    ),
    _chosen("--placement", "consolidate", "How devices are chosen for a job.", among=PLACEMENTS),
    _chosen(
        "--time",
        "event",
        "Decide at every event, or only at the end of rounds of S seconds.",
        metavar="event|rounds:S",
    ),
    _chosen(
        "--restart-cost",
        "none",
        "Seconds without progress when a job's allocation changes.",
        metavar="none|SECONDS|profile|measured|FILE.csv",
    ),
    _chosen(
        "--restart-charge",
        "changes",
        "When the restart cost is paid: at changes; also at first starts; the same, but "
        "growing jobs keep training; or (replications only) by every running job at every "
        "decision, of its own or of its whole group.",
        metavar="changes|starts|warm|decisions|groups",
    ),
    _chosen(
        "--effects",
        "none",
        "Slowdown by crossing nodes or racks; with --sharing factor, also by sharing.",
        metavar="none|philly|nodes=F,racks=F,sharing=F",
    ),
    _chosen(
        "--speeds",
        "scaling",
        "Speed model: each job's scaling curve, or execution plans for the models of "
        "docs/rubick.md.",
        among=SPEEDS,
    ),
    _chosen(
        "--sharing",
        "tokens",
        "How jobs on the same devices slow each other down: fair turns at each resource, "
        "the lock step of Muri's simulator, or the factor of --effects.",
        among=SHARING,
    ),
    _number(
        "--sharing-error",
        "SHARE",
        "Jobs on the same devices run slower than policies believe, by this share of their speed.",
        max=1,
        max_open=True,
    ),
    _number(
        "--elastic",
        "SERIAL",
        "Make jobs elastic, from 1 device to twice their request; SERIAL is the share of "
        "the work that does not speed up, such as 0.05.",
        default=None,
        max=1,
    ),
    _chosen(
        "--belief",
        "known",
        "What policies know about speeds: the truth, what was observed, or nothing.",
        among=BELIEFS,
    ),
    _number(
        "--belief-error",
        "SPREAD",
        "Log-normal error of predicted speeds; with --belief learned, of each measurement; "
        "with --speeds plans, of every factor of the plan models until they are learned.",
    ),
    _chosen(
        "--lengths",
        "auto",
        "What policies know about job lengths: the stated length; a forecast from the losses "
        "of generated AITurbo jobs (used by optimus and aiturbo); what jobs like it took, until it "
        "reports its steps; or that alone. auto: known, and steps with --belief learned.",
        among=LENGTHS,
    ),
    _number("--length-error", "SPREAD", "Log-normal error of the job lengths that policies see."),
    _number("--job-failures", "RATE", "Job failures relative to the Philly study (1); 0: none."),
    click.option(
        "--retries",
        type=click.IntRange(min=0, max=100),
        help="Retries of a failed job.  [default: as in the trace, or 0]",
    ),
    _chosen(
        "--retry",
        "fixed",
        "Retry every failure, or only those where a retry may help.",
        among=RETRY,
    ),
    _number(
        "--node-mtbf",
        "HOURS",
        "Mean time between failures of one node.",
        default=None,
        min_open=True,
    ),
    _number("--node-repair", "HOURS", "Repair time of a lost node.", default=1.0, min_open=True),
    _number(
        "--checkpoint-every",
        "SECONDS",
        "Checkpoint interval; a failing job loses the work since the last one.",
        default=1800.0,
        min_open=True,
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Random seed."),
)


def trace_options(command: Command) -> Command:
    """Add the arguments for a trace and a cluster."""
    command = click.option(
        "--oversize",
        type=click.Choice(["error", "skip", "cut"]),
        default="error",
        show_default=True,
        help="Jobs larger than the whole cluster: refuse, skip or cut to size.",
    )(command)
    command = click.option(
        "--cluster",
        "cluster_text",
        default="8x8",
        show_default=True,
        metavar="NODESxGPUS|FILE|PRESET",
        help="The cluster: 8x8, 231x8+321x2, a YAML file, or a preset (philly).",
    )(command)
    return click.argument("trace", metavar="TRACE")(command)


def run_options(command: Command) -> Command:
    """Add the options of a run, except the policy."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command


def settings(policy: str, options: dict[str, Any]) -> Settings:
    """The settings that the run options describe."""
    mtbf_h: float | None = options["node_mtbf"]
    faults = FaultSettings(
        seed=options["seed"],
        job_failures=options["job_failures"],
        node_mtbf_s=inf if mtbf_h is None else 3600.0 * mtbf_h,
        node_repair_s=3600.0 * options["node_repair"],
        checkpoint_every_s=options["checkpoint_every"],
    )
    others = [each.name for each in fields(Settings) if each.name in options]
    return Settings(policy=policy, faults=faults, **{name: options[name] for name in others})


def names(text: str, option: str = "--policies", such_as: str = "fifo,srtf") -> list[str]:
    """The names of an option's comma-separated list, each once."""
    listed = [name.strip() for name in text.split(",") if name.strip()]
    if not listed:
        raise InvalidInputError(f"{option} is empty; expected names such as {such_as}")
    return list(dict.fromkeys(listed))


def read(trace: str, cluster_text: str, oversize: str) -> tuple[Workload, Cluster]:
    """The trace and the cluster, fitted to each other."""
    cluster = parse_cluster(cluster_text)
    workload = fit_to(load(trace, cluster=cluster), cluster, oversize)
    if not workload.jobs:
        raise InvalidInputError(f"{workload.source} contains no jobs to run")
    return workload, cluster


def warn_never_fit(unfit: Mapping[str, str]) -> None:
    """Warn about jobs that can never run, in one line."""
    if not unfit:
        return
    job, sentence = next(iter(unfit.items()))
    more = f" ({len(unfit) - 1} more jobs never fit)" if len(unfit) > 1 else ""
    click.echo(f"treadle: job {job} never fits: {sentence}{more}", err=True)


def interactive() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


# Policies that decide how many devices a job gets.
_SIZING = ("afs", "afs-p", "max-min", "optimus", "sia", "themis")


def rigid_notes(workload: Workload, settings: Settings) -> list[str]:
    """What to say of a policy that sizes jobs, on jobs that have one size each."""
    name = settings.policy.partition("+")[0].partition("?")[0]
    rigid = settings.elastic is None and all(len(job.sizes) == 1 for job in workload.jobs)
    if name not in _SIZING or not rigid:
        return []
    effect = "every job of this trace has a single size, so the policy can only order and preempt"
    return [f"{effect}; --elastic SERIAL makes jobs elastic"]


def command_line(context: click.Context) -> str:
    """The present command, its arguments and the given options, to be run again."""
    words = context.command_path.split()
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        value = context.params.get(name)
        if isinstance(parameter, click.Argument):
            words.append(str(value))
        elif given and parameter.param_type_name == "option" and value is not None:
            options.append(parameter.opts[0])
            if not (isinstance(parameter, click.Option) and parameter.is_flag):
                options.append(str(value))
    return shlex.join([*words, *options])
