"""What pausing is worth: jobs without checkpoints, a few of which are urgent, under weave-l.

    python benchmarks/pausing.py [FOLDER]     (../shared/traces: with Muri's and Philly's traces)

No job can resume. Every fifth of the shorter half is guaranteed and has high priority; the others
are opportunistic and can be frozen. Completion times are means, in seconds.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from treadle.core.allocation import Pause
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

GENERATED = (("rigid-poisson", "generate:poisson?jobs=300&load=1.1&seed=1", "4x8", 1),)
FROM_FILES = (
    ("rigid-muri", "muri_testbed400.csv.gz", "8x8", 1),
    ("rigid-muri-long", "muri_trace4.csv.gz", "3x8", 4),
    ("rigid-philly", "philly_dev_aug14_oct31.csv.gz", "9x8", 25),
)
HIGH = 10


def mixed(workload: Workload, every: int) -> Workload:
    jobs = workload.jobs[::every]
    half = median(job.iterations * job.profile.iteration_s for job in jobs)
    short = 0
    found = []
    for job in jobs:
        short += job.iterations * job.profile.iteration_s <= half
        urgent = job.iterations * job.profile.iteration_s <= half and short % 5 == 0
        found.append(
            replace(
                job,
                resumable=False,
                guaranteed=urgent,
                priority=HIGH if urgent else 0,
                pauses=() if urgent else (Pause.FROZEN,),
            )
        )
    return replace(workload, jobs=tuple(found))


def outcome(workload: Workload, nodes: str, pause: str) -> Iterator[float]:
    """Mean completion time of urgent jobs, of the others, and how often one was paused."""
    policy = f"weave-l+live?pause={pause}"
    experiment = prepare(workload, cluster(nodes), Settings(policy=policy, live=True))
    experiment.finish()
    histories = experiment.recorder.histories.values()
    for urgent in (True, False):
        times = [
            each.ended_at - each.submitted_at
            for each in histories
            if (each.spec.priority == HIGH) is urgent and each.ended_at is not None
        ]
        yield sum(times) / len(times)
    yield sum(each.pauses for each in histories)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    named = [] if folder is None else [(n, str(folder / t), c, e) for n, t, c, e in FROM_FILES]
    for name, trace, nodes, every in (*GENERATED, *named):
        workload = mixed(load(trace, cluster=cluster(nodes)), every)
        for pause in ("off", "opportunistic"):
            urgent, others, pauses = outcome(workload, nodes, pause)
            print(
                f"{name:16} pause={pause:14} urgent {urgent:8.0f} s   others {others:8.0f} s   "
                f"{pauses:4.0f} pauses",
                flush=True,
            )


if __name__ == "__main__":
    main()
