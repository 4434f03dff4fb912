"""The time of one live decision with 10,000 jobs queued on 16 devices, by policy: longest of three.

    python benchmarks/decisions.py [POLICY ...]

Six elastic jobs run and may be resized; half of the queue is resumable. Policies have the same
wrappers as live.
"""

import sys
import time

from treadle.control.loop import PolicyInCharge, belief_on
from treadle.core.actions import Action, Start
from treadle.core.cluster import Cluster, Node
from treadle.core.events import Event, JobStarted, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.policies.live.naming import PLACEMENT
from treadle.policies.registry import BUILT_IN

QUEUED = 10_000
BUDGET_S = 0.2


def main() -> int:
    missed = 0
    for name in sys.argv[1:] or BUILT_IN:
        took_s = longest_s(name)
        missed += took_s > BUDGET_S
        print(f"  {name:<12} {took_s:8.3f} s  {'MISSED' if took_s > BUDGET_S else ''}", flush=True)
    return 1 if missed else 0


def longest_s(name: str) -> float:
    cluster = Cluster((Node("here", 16),))
    policy = PolicyInCharge().make(name, PLACEMENT, belief_on(cluster))
    scheduler = Scheduler(policy, cluster)
    elastic = [job(f"elastic-{number}", (1, 2, 4)) for number in range(6)]
    started(scheduler, scheduler.step(map(JobSubmitted, elastic), 0.0), 1.0)
    waiting = [job(f"job-{n}", (1 + n % 4,), resumable=bool(n % 2)) for n in range(QUEUED)]
    scheduler.take(map(JobSubmitted, waiting), 2.0)
    longest = 0.0
    for number in range(3):
        now = 100.0 * (1 + number)
        scheduler.take([JobSubmitted(job(f"late-{number}", (1,)))], now)
        begun = time.perf_counter()
        actions = scheduler.decide(now)
        longest = max(longest, time.perf_counter() - begun)
        started(scheduler, actions, now + 1.0)
    return longest


def job(name: str, sizes: tuple[int, ...], *, resumable: bool = True) -> JobSpec:
    profile = Profile(size=sizes[-1], serial=0.1)
    return JobSpec(name, 3600.0, sizes, profile=profile, resumable=resumable)


def started(scheduler: Scheduler, actions: list[Action], now: float) -> None:
    reports: list[Event] = [
        JobStarted(action.job, action.id, 0.0, 1.0)
        for action in actions
        if isinstance(action, Start)
    ]
    scheduler.take(reports, now)


if __name__ == "__main__":
    sys.exit(main())
