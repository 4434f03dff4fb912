"""What not knowing costs: mean completion time with everything learned, over that with it known.

    python benchmarks/regret.py TRACES_FOLDER [--policies afs,muri-l,rubick,aiturbo]

Nothing is known at first. `learned`: speeds, company and lengths come from the learner, and jobs
report their steps once they run. `silent`: the same for jobs that never report.
"""

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time

from treadle.core.cluster import Cluster
from treadle.sim.experiment import fit_to, prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

POLICIES = ("afs", "muri-l", "rubick", "aiturbo")
ALLOWED = 1.10


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, and the settings that suit it."""

    trace: str
    jobs: int
    machines: str
    settings: Settings = field(default_factory=lambda: Settings(placement="count"))


CASES = (
    Case("afs_vc_e13805", 300, "16x4"),
    Case("afs_vc_103959", 400, "16x4"),
    Case("muri_testbed400", 200, "8x8"),
    Case("elasticflow_195job", 195, "8x8"),
    Case("common960", 300, "4x8", Settings(placement="count", elastic=0.1)),
    # Plan models begin with factors that are off by e^0.7 and are fitted again.
    Case("rubick_workload_base", 150, "8x8", Settings(placement="count", speeds="plans")),
)


def mean_s(workload: Workload, machines: Cluster, settings: Settings) -> float:
    summary = prepare(workload, machines, settings, stopwatch=process_time).finish()
    assert summary.jct_mean_s is not None
    return summary.jct_mean_s


def learned(settings: Settings, lengths: str) -> Settings:
    error = 0.7 if settings.speeds == "plans" else 0.0
    return replace(settings, belief="learned", belief_error=error, lengths=lengths)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--policies", default=",".join(POLICIES))
    chosen = parser.parse_args()
    worst = 0.0
    print(f"{'workload':22}{'policy':10}{'known s':>10}{'learned':>9}{'silent':>8}")
    for case in CASES:
        machines = cluster(case.machines)
        whole = load(str(chosen.folder / f"{case.trace}.csv.gz"))
        workload = fit_to(replace(whole, jobs=whole.jobs[: case.jobs]), machines, "cut")
        for name in chosen.policies.split(","):
            settings = replace(case.settings, policy=name)
            known = mean_s(workload, machines, settings)
            reporting = mean_s(workload, machines, learned(settings, "steps")) / known
            silent = mean_s(workload, machines, learned(settings, "survival")) / known
            worst = max(worst, reporting)
            row = f"{case.trace:22}{name:10}{known:10,.0f}{reporting:9.3f}{silent:8.3f}"
            print(row + ("  MISSED" if reporting > ALLOWED else ""), flush=True)
    print(f"the worst is {worst:.3f}; allowed are {ALLOWED}")
    return 0 if worst <= ALLOWED else 1


if __name__ == "__main__":
    raise SystemExit(main())
