"""Rubick (Zhang et al., MLSys'25), Table 4: 406 jobs on eight servers of eight A800 GPUs.

The published figures are from a real cluster. Here every policy runs in the simulator: the plan
model of the catalogue gives the time of a step, and every change of a running job costs 78 s, the
paper's average. The authors' own simulator is not a reference: it keeps running jobs whose devices
were taken away, up to 344 GPUs' worth of them on 64.

Times are shorter than published, for every policy. Three things differ: a first start is free;
Synergy lets jobs that fit overtake those that do not, and the authors do not say whether theirs
does (in strict order it is several times slower, and the published figure lies between the two);
and in the authors' files of these two traces no job has a guarantee, so all are best-effort. The
cost of promises is shown too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.replications.paper import Find, Paper, hours
from treadle.replications.rows import Row
from treadle.replications.rubick_promises import Promises
from treadle.reports.metrics import Group, Summary, by_tenant
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

SETTINGS = Settings(speeds="plans", restart_cost="78")
# The authors' files called base and bp are swapped: bp holds the random plans.
BASE, BEST_PLANS = "rubick_workload_bp", "rubick_workload_base"
# Hours: average and 99th percentile of completion times, and makespan.
_PUBLISHED: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    BASE: {
        "rubick": (0.96, 7.1, 15.3),
        "sia": (2.5, 12.2, 18.8),
        "synergy": (3.1, 13.5, 21.5),
        "rubick-e": (2.4, 10.9, 20.2),
        "rubick-r": (1.6, 9.9, 19.8),
        "rubick-n": (3.1, 12.8, 22.0),
    },
    BEST_PLANS: {
        "rubick": (0.96, 7.1, 15.3),
        "sia": (1.8, 9.0, 16.5),
        "synergy": (2.3, 10.8, 20.5),
    },
}
_CALLED = {BASE: "random plans (Base)", BEST_PLANS: "best plans (BP)"}
# Shown for comparison; not published.
_BESIDE = ("rubick?promises=on", "synergy?strict=on")
# Lower limits below the paper's ratios, which are from a real cluster; ablations in its order.
_EXPECTED = (
    ("synergy", "rubick", 2.2),
    ("sia", "rubick", 1.6),
    ("rubick-r", "rubick", 1.0),
    ("rubick-e", "rubick-r", 1.0),
    ("rubick-n", "rubick-e", 1.0),
)
# Two tenants: hours on average of all jobs, of the guaranteed ones and of the others. The traces
# here have no such file; tenants are drawn over the file of best plans, as the authors say. Their
# AntMan does not hoard devices, as Muri's does.
_TENANTS: Mapping[str, tuple[float, float, float]] = {
    "rubick?promises=on&quotas=A:64": (1.1, 0.85, 1.34),
    "antman?quotas=A:64": (1.75, 1.41, 2.1),
}
_QUOTAS = {"A": 64.0}
_WHOSE = ("all", "guaranteed", "best-effort")
_SEED, _PROMISED = 0, 194 / 406  # the share of guaranteed jobs in the authors' file
_WHAT = ("average completion time", "99th percentile of completion times", "makespan")


def settings(name: str, options: Mapping[str, str]) -> Settings:  # noqa: ARG001
    """The paper's settings for a policy. Rubick's promises are off unless the name sets them."""
    base, _, query = name.partition("?")
    if base.startswith("rubick") and "promises=" not in query:
        query = f"{query}&promises=off" if query else "promises=off"
    # AntMan's opportunistic jobs run in the gaps that guaranteed ones leave.
    sharing = "gaps" if base == "antman" else SETTINGS.sharing
    return replace(SETTINGS, policy=f"{base}?{query}" if query else base, sharing=sharing)


def figures(find: Find, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """Every figure under its heading."""
    for trace, published in _PUBLISHED.items():
        workload, called = find(trace), _CALLED[trace]
        measured = {name: _run(workload, cluster, name) for name in (*published, *_BESIDE)}
        for index, what in enumerate(_WHAT):
            for name, found in measured.items():
                row = Row(name, found[index], published[name][index] if name in published else None)
                yield f"{called}: {what}, hours", row
        ours = measured["rubick"][0]
        theirs = published["rubick"][0]
        for name, (mean_h, _, _) in measured.items():
            if name != "rubick":
                ratio = published[name][0] / theirs if name in published else None
                yield (
                    f"{called}: times longer than rubick on average",
                    Row(name, mean_h / ours, ratio),
                )
        if trace == BASE:
            for slower, faster, least in _EXPECTED:
                ratio = measured[slower][0] / measured[faster][0]
                yield (
                    f"{called}: what is expected of averages",
                    Row(f"{slower} over {faster}", ratio, least, at_least=True),
                )
    yield from _tenants(find(BEST_PLANS), cluster)


def _tenants(workload: Workload, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """One tenant has half the jobs and a quota of the whole cluster; the other has no quota."""
    called = "two tenants (MT)"
    shared = replace(workload, jobs=tuple(_divided(workload.jobs)))
    measured: dict[str, tuple[float, float, float]] = {}
    promises = Promises(_QUOTAS)
    for name, published in _TENANTS.items():
        experiment = prepare(shared, cluster, settings(name, {}))
        if name.startswith("rubick"):
            experiment.simulation.observe(promises)
        all_jobs = hours(experiment.finish())
        groups = {group.name: group for group in by_tenant(experiment.recorder)}
        found = (all_jobs, _mean_h(groups["A"]), _mean_h(groups["B"]))
        measured[name] = found
        for whose, value, known in zip(_WHOSE, found, published, strict=True):
            yield (
                f"{called}: average completion time, hours",
                Row(f"{name.partition('?')[0]}, {whose}", value, known),
            )
    published_ours, published_theirs = _TENANTS.values()
    ours, theirs = measured.values()
    for index, whose in enumerate(_WHOSE):
        yield (
            f"{called}: times longer than rubick on average",
            Row(
                f"antman, {whose}",
                theirs[index] / ours[index],
                published_theirs[index] / published_ours[index],
            ),
        )
    yield (
        f"{called}: guaranteed jobs below their promise for longer than a decision",
        Row("rubick", len(promises.broken), 0.0, at_most=True),
    )


def _divided(jobs: Sequence[JobSpec]) -> Iterator[JobSpec]:
    draw = Random(_SEED)
    for job in jobs:
        promised = draw.random() < _PROMISED
        yield replace(job, tenant="A" if promised else "B", guaranteed=promised)


def _mean_h(group: Group) -> float:
    assert group.jct_mean_s is not None, "every job of these traces finishes"
    return group.jct_mean_s / 3600.0


def _run(workload: Workload, cluster: Cluster, name: str) -> tuple[float, float, float]:
    summary: Summary = prepare(workload, cluster, settings(name, {})).finish()
    assert summary.jct_p99_s is not None, "every job of these traces finishes"
    assert summary.makespan_s is not None, "every job of these traces finishes"
    return hours(summary), summary.jct_p99_s / 3600.0, summary.makespan_s / 3600.0


PAPER = Paper(
    cluster="8x8",
    policies=tuple(_PUBLISHED[BASE]),
    figures=figures,
    settings=settings,
)
