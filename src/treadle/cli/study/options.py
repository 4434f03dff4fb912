"""Options that several verbs share, and what they build."""

import sys
from collections.abc import Callable, Iterable, Mapping
from math import inf, isnan
from typing import Any

import click

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


class Number(click.FloatRange):
    """A number of a range; not-a-number is in none, which comparisons alone do not notice."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def _beginning(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Shell completion by names that begin with what was typed."""
    return lambda _context, _option, typed: [name for name in names() if name.startswith(typed)]


def policy_choice(default: str) -> Callable[[Command], Command]:
    """One policy, that one unless another is named."""
    return click.option(
        "--policy",
        default=default,
        show_default=True,
        metavar="NAME[?PARAMETER=VALUE&...]",
        shell_complete=_beginning(policy_names),
        help="One of `treadle policies`.",
    )


policy_option = policy_choice("fifo")


_RUN_OPTIONS = (
    click.option(
        "--placement",
        shell_complete=_beginning(lambda: PLACEMENTS),
        default="consolidate",
        show_default=True,
        metavar="|".join(PLACEMENTS),
        help="Which devices a job gets.",
    ),
    click.option(
        "--time",
        "time_text",
        default="event",
        show_default=True,
        metavar="event|rounds:S",
        help="Decide when something happens, or only at the end of rounds of S seconds.",
    ),
    click.option(
        "--restart-cost",
        default="none",
        show_default=True,
        metavar="none|SECONDS|profile|measured|FILE.csv",
        help="Seconds without progress when a job's allocation changes.",
    ),
    click.option(
        "--restart-charge",
        default="changes",
        show_default=True,
        metavar="changes|starts|warm|decisions|groups",
        help="Charge it where something changes; to first starts as well; as that, but growing "
        "jobs train on; or (replications only) to every running job at every decision, its own or "
        "that of its whole group.",
    ),
    click.option(
        "--effects",
        default="none",
        show_default=True,
        metavar="none|philly|nodes=F,racks=F,sharing=F",
        help="What crossing nodes or racks, or sharing, does to speed.",
    ),
    click.option(
        "--speeds",
        shell_complete=_beginning(lambda: SPEEDS),
        default="scaling",
        show_default=True,
        metavar="|".join(SPEEDS),
        help="How speed follows from devices: by each job's curve, or by execution plans for the "
        "models that `treadle plan` knows.",
    ),
    click.option(
        "--sharing",
        shell_complete=_beginning(lambda: SHARING),
        default="tokens",
        show_default=True,
        metavar="|".join(SHARING),
        help="How jobs on the same devices slow each other: fair turns at each resource, or the "
        "lock step of Muri's simulator.",
    ),
    click.option(
        "--elastic",
        type=Number(min=0, max=1),
        metavar="SERIAL",
        help="Let jobs run on 1 to twice their devices; SERIAL is the share that "
        "does not speed up (0.05, say).",
    ),
    click.option(
        "--belief",
        shell_complete=_beginning(lambda: BELIEFS),
        default="known",
        show_default=True,
        metavar="|".join(BELIEFS),
        help="What policies know of speeds: the truth, what jobs were seen to do, or nothing.",
    ),
    click.option(
        "--belief-error",
        type=Number(min=0),
        default=0.0,
        metavar="SPREAD",
        help="Make policies mispredict speeds by a log-normal factor of this spread; with "
        "--belief learned, each measurement is off by one; with --speeds plans, every factor of "
        "the plan models is, until they are learned.",
    ),
    click.option(
        "--lengths",
        shell_complete=_beginning(lambda: LENGTHS),
        default="known",
        show_default=True,
        metavar="|".join(LENGTHS),
        help="What policies know of lengths: what jobs say, or what the losses of generated "
        "AITurbo jobs tell so far; optimus and aiturbo ask.",
    ),
    click.option(
        "--length-error",
        type=Number(min=0),
        default=0.0,
        metavar="SPREAD",
        help="Tell policies lengths that are wrong by a log-normal factor of this spread.",
    ),
    click.option(
        "--job-failures",
        type=Number(min=0),
        default=0.0,
        metavar="RATE",
        help="Let jobs fail as in the Philly study (1), less or more often; 0 never.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(min=0, max=100),
        help="How often a failed job is tried again.  [default: as the trace says, or never]",
    ),
    click.option(
        "--retry",
        shell_complete=_beginning(lambda: RETRY),
        default="fixed",
        show_default=True,
        metavar="|".join(RETRY),
        help="Try failed jobs again whatever failed, or only where another try may help.",
    ),
    click.option(
        "--node-mtbf",
        type=Number(min=0, min_open=True),
        metavar="HOURS",
        help="Mean time between failures of one node.",
    ),
    click.option(
        "--node-repair",
        type=Number(min=0, min_open=True),
        default=1.0,
        show_default=True,
        metavar="HOURS",
        help="How long a lost node stays away.",
    ),
    click.option(
        "--checkpoint-every",
        type=Number(min=0, min_open=True),
        default=1800.0,
        show_default=True,
        metavar="SECONDS",
        help="Work since the last checkpoint is lost when a job fails.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Seeds every draw."),
)


def trace_options(command: Command) -> Command:
    """A trace on a cluster."""
    command = click.option(
        "--oversize",
        type=click.Choice(["error", "skip", "cut"]),
        default="error",
        show_default=True,
        help="What to do with jobs larger than the whole cluster.",
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
    """Everything but the policy that a run depends on."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command


def settings(policy: str, options: dict[str, Any]) -> Settings:
    """The settings that the run options spell."""
    mtbf_h: float | None = options["node_mtbf"]
    return Settings(
        policy=policy,
        placement=options["placement"],
        time=options["time_text"],
        restart_cost=options["restart_cost"],
        restart_charge=options["restart_charge"],
        effects=options["effects"],
        speeds=options["speeds"],
        sharing=options["sharing"],
        belief=options["belief"],
        belief_error=options["belief_error"],
        lengths=options["lengths"],
        length_error=options["length_error"],
        elastic=options["elastic"],
        retries=options["retries"],
        retry=options["retry"],
        faults=FaultSettings(
            seed=options["seed"],
            job_failures=options["job_failures"],
            node_mtbf_s=inf if mtbf_h is None else 3600.0 * mtbf_h,
            node_repair_s=3600.0 * options["node_repair"],
            checkpoint_every_s=options["checkpoint_every"],
        ),
        seed=options["seed"],
    )


def names(policies: str) -> list[str]:
    """The policies of a comma-separated list, each once."""
    listed = [name.strip() for name in policies.split(",") if name.strip()]
    if not listed:
        raise InvalidInputError("--policies names no policy; write fifo,srtf, say")
    return list(dict.fromkeys(listed))


def read(trace: str, cluster_text: str, oversize: str) -> tuple[Workload, Cluster]:
    """The trace and the cluster, fitted to each other."""
    cluster = parse_cluster(cluster_text)
    workload = fit_to(load(trace, cluster=cluster), cluster, oversize)
    if not workload.jobs:
        raise InvalidInputError(f"{workload.source} holds no jobs to run")
    return workload, cluster


def warn_never_fit(unfit: Mapping[str, str]) -> None:
    """Say which jobs could never run, without drowning the screen."""
    if not unfit:
        return
    job, sentence = next(iter(unfit.items()))
    more = f" ({len(unfit) - 1} more jobs never fit)" if len(unfit) > 1 else ""
    click.echo(f"treadle: job {job} never fits: {sentence}{more}", err=True)


def interactive() -> bool:
    """Whether a person is looking at standard error."""
    return sys.stderr.isatty()
