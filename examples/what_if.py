"""Fork a running simulation and ask what another policy would make of it.

python examples/what_if.py
"""

import time
from collections.abc import Sequence

from weft.core.actions import Action
from weft.core.events import Event, JobFinished
from weft.core.scheduler import Scheduler
from weft.sim.experiment import prepare
from weft.sim.settings import Settings
from weft.testing.builders import policy
from weft.traces.clusters import cluster
from weft.traces.load import load


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
