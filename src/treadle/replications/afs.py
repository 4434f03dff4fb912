"""AFS (Hwang et al., NSDI'21) on two virtual clusters of the Philly log.

The per-trace tables of the paper are not public; the figures here are of an independent run on the
same job log (one job-to-model draw), taken as a regression target with a band of 10 %. Policies go
by Treadle's names: what that run calls FIFO passes jobs that do not fit and is backfill, and its
max-min takes no turns. Its Tiresias serves a queue by arrival. Max-min with turns is shown too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from treadle.core.cluster import Cluster
from treadle.replications.paper import Find, Paper, hours
from treadle.replications.rows import Row
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

SETTINGS = Settings(policy="afs", placement="count")
NO_TURNS, TURNS = "max-min?turns=off", "max-min"
POLICIES = ("srtf", "srsf", "backfill", "tiresias-l", NO_TURNS, TURNS, "optimus", "afs-p")
# Settings of the reference run that have a name of their own here. No name of the registry may be
# among them: a user who asks for a policy gets that policy.
NAMED = {"tiresias-l": "tiresias?limits=180000&by_arrival=on"}
BAND = 0.10
# Hours of AFS-L, then average completion time over AFS-L's, by policy.
PUBLISHED: dict[str, tuple[float, dict[str, float]]] = {
    "afs_vc_103959": (
        3.14,
        {
            "srtf": 1.93,
            "srsf": 1.92,
            "backfill": 1.99,
            "tiresias-l": 1.93,
            NO_TURNS: 1.09,
            "optimus": 1.13,
            "afs-p": 1.01,
        },
    ),
    "afs_vc_e13805": (
        15.32,
        {
            "srtf": 1.56,
            "srsf": 1.57,
            "backfill": 3.49,
            "tiresias-l": 2.41,
            NO_TURNS: 1.17,
            "optimus": 1.32,
            "afs-p": 1.01,
        },
    ),
}
# Hours of AFS-L if every start and resize costs 10, 30 or 60 s, and if jobs train while growing.
COSTS: dict[str, dict[str, tuple[float, float, float]]] = {
    "afs_vc_103959": {"starts": (3.15, 3.18, 3.22), "warm": (3.15, 3.16, 3.17)},
    "afs_vc_e13805": {"starts": (15.38, 15.42, 15.47), "warm": (15.37, 15.38, 15.40)},
}
COST_BAND = 0.01
LEGAL_LIMIT = 1.01  # whole-node counts cost at most a hundredth
# Treadle's own settings: consolidated placement, and 30 s at every change of an allocation.
HONEST = Settings(restart_cost="30")


def settings(name: str, options: Mapping[str, str]) -> Settings:  # noqa: ARG001  # it has none
    """The reference run's settings for a policy by its name here or in the registry."""
    return replace(SETTINGS, policy=NAMED.get(name, name))


def figures(find: Find, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """Every figure under its heading."""
    for name in PUBLISHED:
        workload = find(name)

        def mean_h(chosen: Settings, jobs: Workload = workload) -> float:
            return hours(prepare(jobs, cluster, chosen).finish())

        for row in _as_published(name, mean_h):
            yield name, row
        base = mean_h(replace(HONEST, policy="afs"))
        heading = f"{name}, 30 s wherever an allocation changes"
        yield heading, Row("AFS-L, hours", base, PUBLISHED[name][0])
        for label in POLICIES:
            measured = mean_h(replace(HONEST, policy=NAMED.get(label, label))) / base
            yield heading, Row(f"{label} over AFS-L", measured, PUBLISHED[name][1].get(label))


def _as_published(name: str, mean_h: Callable[[Settings], float]) -> Iterator[Row]:
    published_h, ratios = PUBLISHED[name]
    base = mean_h(SETTINGS)
    yield Row("AFS-L, hours", base, published_h, BAND)
    for label in POLICIES:
        measured = mean_h(settings(label, {})) / base
        published = ratios.get(label)
        yield Row(f"{label} over AFS-L", measured, published, BAND if published else None)
    packed = mean_h(replace(SETTINGS, policy="afs?packed=on")) / base
    yield Row("counts that tile nodes, over AFS-L", packed, LEGAL_LIMIT, at_most=True)
    for charge, costs_h in COSTS[name].items():
        for cost, cost_h in zip(("10", "30", "60"), costs_h, strict=True):
            chosen = replace(SETTINGS, restart_cost=cost, restart_charge=charge)
            how = "growing is warm" if charge == "warm" else "stop and resume"
            yield Row(f"AFS-L at {cost} s, {how}", mean_h(chosen), cost_h, COST_BAND)


PAPER = Paper(
    cluster="16x4",
    policies=("afs", *POLICIES),
    figures=figures,
    settings=settings,
)
