"""AFS (Hwang et al., NSDI'21) on two virtual clusters of the Philly log.

The per-trace tables of the paper are not public; the figures here are of an independent run on the
same job log (one job-to-model draw), taken as a regression target with a band of 10 %. What it
calls FIFO passes jobs that do not fit, and its Tiresias serves a queue by arrival.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.core.cluster import Cluster
from weft.replications.rows import Row
from weft.reports.metrics import Summary
from weft.sim.experiment import prepare
from weft.sim.settings import Settings
from weft.traces.workload import Workload

CLUSTER = "16x4"
SETTINGS = Settings(policy="afs", placement="count")
POLICIES = {
    "srtf": "srtf",
    "srsf": "srsf",
    "fifo": "backfill",
    "tiresias-l": "tiresias?limits=180000&by_arrival=on",
    "max-min": "max-min",
    "optimus": "optimus",
    "afs-p": "afs-p",
}
BAND = 0.10
# Hours of AFS-L, then average completion time over AFS-L's, by policy.
PUBLISHED: dict[str, tuple[float, dict[str, float]]] = {
    "afs_vc_103959": (
        3.14,
        {
            "srtf": 1.93,
            "srsf": 1.92,
            "fifo": 1.99,
            "tiresias-l": 1.93,
            "max-min": 1.09,
            "optimus": 1.13,
            "afs-p": 1.01,
        },
    ),
    "afs_vc_e13805": (
        15.32,
        {
            "srtf": 1.56,
            "srsf": 1.57,
            "fifo": 3.49,
            "tiresias-l": 2.41,
            "max-min": 1.17,
            "optimus": 1.32,
            "afs-p": 1.01,
        },
    ),
}
# Hours of AFS-L if every start and resize costs 10, 30 or 60 s, and if growing jobs train on.
COSTS: dict[str, dict[str, tuple[float, float, float]]] = {
    "afs_vc_103959": {"starts": (3.15, 3.18, 3.22), "warm": (3.15, 3.16, 3.17)},
    "afs_vc_e13805": {"starts": (15.38, 15.42, 15.47), "warm": (15.37, 15.38, 15.40)},
}
COST_BAND = 0.01
LEGAL_LIMIT = 1.01  # whole-node counts cost at most a hundredth


RUNS = 2 + len(POLICIES) + 6  # for each virtual cluster


def compare(workload: Workload, cluster: Cluster, name: str) -> Iterator[Row]:
    """Every figure for one virtual cluster, as it is measured."""
    hours, ratios = PUBLISHED[name]
    base = _hours(workload, cluster, SETTINGS)
    yield Row("AFS-L, hours", base, hours, BAND)
    for label, published in ratios.items():
        measured = _hours(workload, cluster, replace(SETTINGS, policy=POLICIES[label])) / base
        yield Row(f"{label} over AFS-L", measured, published, BAND)
    packed = _hours(workload, cluster, replace(SETTINGS, policy="afs?packed=on")) / base
    yield Row("counts that tile nodes, over AFS-L", packed, LEGAL_LIMIT, at_most=True)
    for charge, published_h in COSTS[name].items():
        for cost, published in zip(("10", "30", "60"), published_h, strict=True):
            settings = replace(SETTINGS, restart_cost=cost, restart_charge=charge)
            what = (
                f"AFS-L at {cost} s, {'growing is warm' if charge == 'warm' else 'stop and resume'}"
            )
            yield Row(what, _hours(workload, cluster, settings), published, COST_BAND)


def run(workload: Workload, cluster: Cluster, policies: Sequence[str]) -> list[Summary]:
    """The same settings on any trace, under policies by their names here or in the registry."""
    known = {"afs": "afs", **POLICIES}
    chosen = [replace(SETTINGS, policy=known.get(name, name)) for name in policies]
    return [_summary(workload, cluster, settings) for settings in chosen]


def _hours(workload: Workload, cluster: Cluster, settings: Settings) -> float:
    mean_s = _summary(workload, cluster, settings).jct_mean_s
    assert mean_s is not None, "every job of these traces finishes"
    return mean_s / 3600.0


def _summary(workload: Workload, cluster: Cluster, settings: Settings) -> Summary:
    return prepare(workload, cluster, settings, stopwatch=time.perf_counter).finish()
