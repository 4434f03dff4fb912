"""CPU time of one decision as the daemon makes it: median and longest.

    python -m benchmarks.live_decisions [--policy weave-l,srtf] [--nodes 200] [--rounds 11]
      [--types 1] [--unfit 800]

Nodes of eight devices with ten jobs for each node, of 1 to 16 devices, all of which were seen alone
and may share. Nodes are of so many types in turn; of several, half of the jobs name one. Before
each decision three jobs end and three arrive. --unfit: so many jobs wait besides that need more
host memory than any node has left. A job on each node holds the rest of it; three small jobs for
each node come and go.
"""

import argparse
import gc
import time
from dataclasses import replace
from random import Random
from statistics import median

from treadle.control.loop import PolicyInCharge, belief_on
from treadle.core.actions import Action, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import Event, JobFinished, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import JobId, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.policies.registry import names

SIZES = (1,) * 50 + (2,) * 20 + (4,) * 15 + (8,) * 12 + (16,) * 3
BUSY = (0.9, 0.85, 0.5, 0.4)
MEMORY_GIB = (20.0, 21.0, 22.0)
LENGTH_S = 600.0
HELD_GIB = 600.0  # of the 1,024 of a node
EVERY_S = 2.0
ENDS = 3


class Site:
    """A scheduler whose orders are carried out at once."""

    def __init__(self, policy: str, nodes: int, types: int) -> None:
        self.random = Random(1)
        self.residents: set[JobId] = set()  # that do not end
        self.types = types
        self.cluster = Cluster(
            tuple(
                Node(f"n{number}", 8, f"H20{number % types}", 96, 1024.0, f"r{number // 8}", 80.0)
                for number in range(nodes)
            )
        )
        made = PolicyInCharge().make(policy, "consolidate", belief_on(self.cluster))
        self.scheduler = Scheduler(made, self.cluster)
        self.now = 0.0
        self.submitted = 0

    def submit(self, count: int) -> None:
        self.scheduler.take([JobSubmitted(self._job()) for _ in range(count)], self.now)

    def end_some(self) -> None:
        rows = self.scheduler.jobs.values()
        running = [
            job for job in rows if job.phase is Phase.RUNNING and job.id not in self.residents
        ]
        chosen = self.random.sample(running, min(ENDS, len(running)))
        self.scheduler.take([JobFinished(job.id, job.action) for job in chosen], self.now)

    def decide_s(self) -> float:
        begun_s = time.process_time()
        orders = self.scheduler.decide(self.now)
        took_s = time.process_time() - begun_s
        self.scheduler.take([_done(order) for order in orders], self.now)
        return took_s

    def submit_unfit(self, count: int) -> None:
        """One job on each node, then jobs for which these leave too little memory."""
        for _ in self.cluster.nodes:
            self.submit_asking(HELD_GIB)
        self.decide_s()
        self.residents = {job.id for job in self.scheduler.jobs.values()}
        for number in range(count):
            self.submit_asking(HELD_GIB + number % 300)

    def submit_asking(self, gib: float) -> None:
        job = replace(self._job(), sizes=(1,), asked=1, host_memory_gib=gib)
        self.scheduler.take([JobSubmitted(job)], self.now)

    def _job(self) -> JobSpec:
        self.submitted += 1
        size, busy = self.random.choice(SIZES), self.random.choice(BUSY)
        return JobSpec(
            f"{self.submitted}",
            LENGTH_S,
            (size,),
            profile=Profile(
                size=size,
                busy=busy,
                memory_busy=busy / 2,
                memory_gib=self.random.choice(MEMORY_GIB),
                cores=3.5,
            ),
            owner="me",
            command=("train", "--size", f"{size}"),
            device_types=self._types(),
        )

    def _types(self) -> tuple[str, ...]:
        if self.types == 1 or self.random.random() < 0.5:
            return ("gpu",)
        return (f"h20{self.random.randrange(self.types)}",)


def _done(order: Action) -> Event:
    if isinstance(order, Stop):
        return JobStopped(order.job, order.id, 0.0)
    return JobStarted(order.job, order.id, 0.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", default="weave-l")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--types", type=int, default=1, choices=range(1, 10))
    parser.add_argument("--unfit", type=int, default=0)
    options = parser.parse_args()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)  # As in the daemon.
    for policy in names() if options.policy == "all" else options.policy.split(","):
        _measure(policy, options)


def _measure(policy: str, options: argparse.Namespace) -> None:
    site = Site(policy, options.nodes, options.types)
    if options.unfit:
        site.submit_unfit(options.unfit)
    jobs = options.nodes * (3 if options.unfit else 10)
    site.submit(jobs)
    first_s = site.decide_s()
    took: list[float] = []
    for _ in range(options.rounds):
        site.now += EVERY_S
        site.end_some()
        site.submit(ENDS)
        took.append(site.decide_s())
    print(
        f"{policy}, {8 * options.nodes} devices, {options.types} type(s), {jobs} jobs"
        f"{f' and {options.unfit} that fit nowhere' if options.unfit else ''}: "
        f"the first decision {first_s:.2f} s; "
        f"then median {1e3 * median(took):.0f} ms, longest {1e3 * max(took):.0f} ms"
    )


if __name__ == "__main__":
    main()
