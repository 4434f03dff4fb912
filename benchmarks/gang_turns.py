"""How long a gang waits beside a stream of small jobs, under the daemon's wrappers.

    python -m benchmarks.gang_turns [--again 4 1e9]

On one node with four devices a gang of four needs half an hour, and 700 jobs of a minute on one
device come at even gaps: one every 14 s, which is more than four devices can do, or every 18 s.
`--again`: after how many times what it has run a preempted gang has a reservation; 1e9: never.
"""

import argparse

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.policies.live import naming as live
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

GAPS_S, SMALL, SMALL_S, RESTART_S = (14.0, 18.0), 700, 60.0, 10


def measure(again: str, gap_s: float) -> str:
    policy = live.wrapped(live.DEFAULT).replace("+reserve", f"+reserve?again={again}")
    small = [JobSpec(f"s{n}", SMALL_S, (1,), submit_at=gap_s * n) for n in range(SMALL)]
    jobs = [JobSpec("gang", 4 * 1800.0, (4,), submit_at=30.0), *small]
    settings = Settings(policy=policy, restart_cost=str(RESTART_S))
    run = prepare(Workload.of("gang", jobs), Cluster.grid(1, 4), settings, stopwatch=lambda: 0.0)
    run.finish()
    ended = {name: row for name, row in run.recorder.histories.items() if row.ended_at is not None}
    took = {name: (row.ended_at or 0.0) - row.submitted_at for name, row in ended.items()}
    gang = took.pop("gang")
    mean_s = sum(took.values()) / len(took)
    return (
        f"| {again} | {gap_s:g} s | {gang / 3600:.1f} h | {ended['gang'].starts} "
        f"| {mean_s / 60:.1f} min |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--again", nargs="+", default=["4", "1e9"])
    print("| again | one every | the gang took | its starts | a small job took |")
    print("|---|---|---|---|---|")
    for again in parser.parse_args().again:
        for gap_s in GAPS_S:
            print(measure(again, gap_s), flush=True)


if __name__ == "__main__":
    main()
