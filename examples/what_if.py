"""Fork a running simulation and ask what another policy would make of it.

python examples/what_if.py
"""

import time
from collections.abc import Sequence

from treadle.core.actions import Action
from treadle.core.events import Event, JobFinished
from treadle.core.scheduler import Scheduler
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import policy
from treadle.traces.clusters import cluster
from treadle.traces.load import load


def main() -> None:
    machines = cluster("4x8")
    workload = load("generate:poisson?jobs=300&load=1.1&seed=7", cluster=machines)
    experiment = prepare(workload, machines, Settings(policy="fifo"), stopwatch=time.perf_counter)
    now = workload.jobs[150].submit_at
    experiment.simulation.run(until=now)
    waiting = len(experiment.simulation.scheduler.ranking.queue)
    print(f"at {now:g} s under fifo, {waiting} jobs wait")
    for name in ("fifo", "backfill", "srtf"):
        ends = Ends()
        twin = experiment.simulation.fork(observers=(ends,))
        twin.scheduler.set_policy(policy(name), now)
        twin.run()
        mean_s = sum(ends.at.values()) / len(ends.at) - now
        print(f"under {name:8} the {len(ends.at)} jobs left end in {mean_s:.0f} s on average")


class Ends:
    """An observer that notes when jobs finish."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def __call__(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        self.at.update({event.job: now for event in events if isinstance(event, JobFinished)})


if __name__ == "__main__":
    main()
