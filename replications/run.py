"""Print measured and published figures, and fail if one differs.

    make replications

`peers/expected.csv` has the averages that other public simulators print for the same workloads with
the same semantics. Treadle must match every printed digit (tolerance: half of the last one).
"""

import csv
import os
import sys
import time
from pathlib import Path

from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load

HERE = Path(__file__).parent
TRACES = Path(os.environ.get("TREADLE_SHARED", HERE.parents[1] / "shared")) / "traces"
TOLERANCE_S = 0.005


def expected() -> list[dict[str, str]]:
    """The rows of the table."""
    with (HERE / "peers" / "expected.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def measure(row: dict[str, str]) -> tuple[float, float]:
    """Average completion time and last end of one row's run."""
    settings = Settings(policy=row["policy"], placement=row["placement"], time=row["time"])
    machines = cluster(row["cluster"])
    workload = load(str(TRACES / f"{row['trace']}.csv.gz"), cluster=machines)
    summary = prepare(workload, machines, settings, stopwatch=time.perf_counter).finish()
    assert summary.jct_mean_s is not None, "every job of these traces finishes"
    assert summary.end_s is not None, "every job of these traces finishes"
    return summary.jct_mean_s, summary.end_s


def agrees(row: dict[str, str], jct_mean_s: float, end_s: float) -> bool:
    close = abs(jct_mean_s - float(row["jct_mean_s"])) <= TOLERANCE_S
    return close and end_s == float(row["end_s"])


def main() -> int:
    if not TRACES.is_dir():
        print(f"no traces at {TRACES}; set TREADLE_SHARED to the folder that holds traces/")
        return 0
    wrong = 0
    print(
        f"{'trace':16} {'policy':9} {'placement':12} {'time':11} {'measured':>9} {'published':>9}"
    )
    for row in expected():
        jct_mean_s, end_s = measure(row)
        right = agrees(row, jct_mean_s, end_s)
        wrong += not right
        words = f"{row['trace']:16} {row['policy']:9} {row['placement']:12} {row['time']:11}"
        figures = f"{jct_mean_s:9.2f} {float(row['jct_mean_s']):9.2f}"
        print(f"{words} {figures}  {'=' if right else 'DIFFERS'}  {row['published_for']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
