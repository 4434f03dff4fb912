"""Muri's merge order: whether jobs of the first or the last rank share first on scarce devices.

    .venv/bin/python benchmarks/merge_order.py

Average completion time in hours on the first jobs of Muri's traces, on 8 nodes of 8 devices, where
only a change of an allocation costs a restart.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.load import load
from treadle.traces.workload import Workload

TRACES = ("trace3", "trace3_pr", "trace4", "trace4_pr", "testbed400")
POLICIES = ("muri-s", "muri-l")
SHARING = ("staggered", "tokens")
CLUSTER = Cluster.grid(8, 8)


class Means(NamedTuple):
    """Hours, where jobs of the first or of the last rank share first."""

    first_h: float
    last_h: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    parser.add_argument("--jobs", type=int, default=300, help="of each trace, the first so many")
    options = parser.parse_args()
    print("| trace | policy | sharing | first | last | last over first |")
    print("|---|---|---|---|---|---|")
    for name in TRACES:
        whole = load(str(options.traces / f"muri_{name}.csv.gz"))
        workload = replace(whole, jobs=whole.jobs[: options.jobs])
        for policy, sharing, means in measured(workload):
            ratio = means.last_h / means.first_h
            hours = f"{means.first_h:.1f} | {means.last_h:.1f}"
            print(f"| {name} | {policy} | {sharing} | {hours} | {ratio:.3f} |", flush=True)


def measured(workload: Workload) -> Iterator[tuple[str, str, Means]]:
    for policy in POLICIES:
        for sharing in SHARING:
            hours = [mean_h(workload, f"{policy}?merge={m}", sharing) for m in ("first", "last")]
            yield policy, sharing, Means(*hours)


def mean_h(workload: Workload, policy: str, sharing: str) -> float:
    settings = Settings(policy=policy, restart_cost="measured", sharing=sharing)
    found = prepare(workload, CLUSTER, settings).finish().jct_mean_s
    assert found is not None, "every job of these traces finishes"
    return found / 3600.0


if __name__ == "__main__":
    main()
