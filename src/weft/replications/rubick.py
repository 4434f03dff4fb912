"""Rubick (Zhang et al., MLSys'25), Table 4: 406 jobs on eight servers of eight A800 GPUs.

The published figures are of a real cluster. Here every policy runs in the simulator, where a step
takes what the plan model of `weft plan` says and every change of a running job costs 78 s, the
paper's average. The authors' own simulator is no measure: it runs jobs whose devices were taken
away, up to 344 GPUs' worth of them on 64.

Times are shorter than published, for every policy. Four things differ: cores are not shared out; a
first start costs nothing; Synergy lets jobs that fit pass those that do not, which the authors do
not say of theirs (strictly in order it is several times slower, and the published figure lies
between the two); and in the authors' files of these two traces no job has a guarantee, so all are
best-effort. What promises cost is shown beside.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.core.cluster import Cluster
from weft.replications.paper import Find, Paper, hours, ready
from weft.replications.rows import Row
from weft.reports.metrics import Summary
from weft.sim.settings import Settings
from weft.traces.workload import Workload

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
# Shown beside the published policies, and not published.
_BESIDE = ("rubick?promises=on", "synergy?strict=on")
_WHAT = ("average completion time", "99th percentile of completion times", "makespan")


def settings(name: str, options: Mapping[str, str]) -> Settings:  # noqa: ARG001
    """The paper's settings for a policy. Rubick promises nothing unless told to."""
    base, _, query = name.partition("?")
    if base.startswith("rubick") and "promises=" not in query:
        query = f"{query}&promises=off" if query else "promises=off"
    return replace(SETTINGS, policy=f"{base}?{query}" if query else base)


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


def _run(workload: Workload, cluster: Cluster, name: str) -> tuple[float, float, float]:
    summary: Summary = ready(workload, cluster, settings(name, {})).finish()
    assert summary.jct_p99_s is not None, "every job of these traces finishes"
    assert summary.makespan_s is not None, "every job of these traces finishes"
    return hours(summary), summary.jct_p99_s / 3600.0, summary.makespan_s / 3600.0


PAPER = Paper(
    cluster="8x8",
    policies=tuple(_PUBLISHED[BASE]),
    figures=figures,
    count=sum(4 * (len(named) + len(_BESIDE)) - 1 for named in _PUBLISHED.values()),
    settings=settings,
)
