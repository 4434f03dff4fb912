"""The order of jobs of unknown length: least attained service against the Gittins index.

    python benchmarks/blind_order.py TRACES_FOLDER

Both preempt and know no lengths: jobs never report (`--belief learned --lengths survival`). The
index is that of the distribution that the learner has of the jobs like it, and of the job's age.
Beside them stands the shortest remaining time first, which knows every length.
"""

import sys
from dataclasses import replace
from pathlib import Path
from time import process_time

from treadle.sim.experiment import fit_to, prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

CASES = (
    ("afs_vc_e13805", 300, "4x4"),
    ("afs_vc_103959", 600, "4x4"),
    ("common960", 400, "6x8"),
    ("elasticflow_195job", 195, "6x8"),
)
BLIND = Settings(placement="count", belief="learned", lengths="survival")


def mean_s(workload: Workload, machines: str, settings: Settings) -> float:
    run = prepare(workload, cluster(machines), settings, stopwatch=process_time)
    summary = run.finish()
    assert summary.jct_mean_s is not None
    return summary.jct_mean_s


def main() -> None:
    folder = Path(sys.argv[1])
    print(f"{'workload':22}{'las s':>12}{'gittins':>10}{'srtf':>10}   (over las)")
    for name, count, machines in CASES:
        whole = load(str(folder / f"{name}.csv.gz"))
        cut = fit_to(replace(whole, jobs=whole.jobs[:count]), cluster(machines), "cut")
        fixed = replace(cut, jobs=tuple(replace(job, sizes=(job.asked,)) for job in cut.jobs))
        begun = process_time()
        las = mean_s(fixed, machines, replace(BLIND, policy="las"))
        blind = mean_s(fixed, machines, replace(BLIND, policy="gittins"))
        srtf = mean_s(fixed, machines, Settings(placement="count", policy="srtf"))
        print(
            f"{name:22}{las:12,.0f}{blind / las:10.3f}{srtf / las:10.3f}"
            f"   {process_time() - begun:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
