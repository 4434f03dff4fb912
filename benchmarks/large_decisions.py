"""CPU time of one decision about many jobs on many devices, by policy: median and longest of 21.

    python benchmarks/large_decisions.py [POLICY ...]

Elastic and rigid jobs with four mixes of stages that share well, in a steady state: before each
decision one job ends and one arrives. The targets: 1,000 jobs on 512 devices within 50 ms, 5,000 on
10,000 within 1 s, and 10,000 waiting on 16 devices within 50 ms, also beside 16 CPU slots.
"""

import sys
import time
from random import Random
from statistics import median
from typing import NamedTuple

from treadle.core.actions import Action, Stop
from treadle.core.cluster import CPU, Cluster, Node
from treadle.core.events import Event, JobFinished, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy

ROUNDS = 21  # more than the decisions between two in which weave plans all anew


class Setting(NamedTuple):
    """Jobs on nodes of eight devices."""

    jobs: int
    nodes: int
    target_s: float
    slots: int = 0  # CPU slots beside the devices

    def cluster(self) -> Cluster:
        nodes = [Node(f"n{number}", 8) for number in range(self.nodes)]
        if self.slots:
            nodes.append(Node("slots", self.slots, device_type=CPU))
        return Cluster(tuple(nodes))

    def __str__(self) -> str:
        slots = f" and {self.slots} CPU slots" if self.slots else ""
        return f"{self.jobs:>6} jobs on {self.nodes * 8:>6} devices{slots}"


SETTINGS = (
    Setting(1_000, 64, 0.05),
    Setting(5_000, 1_250, 1.0),
    Setting(10_000, 2, 0.05),
    Setting(10_000, 2, 0.05, slots=16),
)
_STAGES = ((0.6, 0.1, 0.2, 0.1), (0.1, 0.6, 0.2, 0.1), (0.1, 0.1, 0.7, 0.1), (0.1, 0.1, 0.2, 0.6))


def main() -> int:
    missed = 0
    for name in sys.argv[1:] or ("weave", "weave-l", "afs", "muri-l"):
        for setting in SETTINGS:
            took = decisions_s(name, setting)
            late = median(took) > setting.target_s
            missed += late
            print(
                f"  {name:<8} {setting}: median "
                f"{median(took) * 1e3:7.1f} ms, longest {max(took) * 1e3:7.1f} ms"
                f"{'  MISSED' if late else ''}",
                flush=True,
            )
    return 1 if missed else 0


def decisions_s(name: str, setting: Setting) -> list[float]:
    """CPU seconds of decisions in a steady state."""
    random = Random(1)
    belief = TokenModel(ScalingModel(), StageTimes())
    scheduler = Scheduler(policy(name, placement("consolidate"), belief), setting.cluster())
    specs = [_job(f"job-{number}", random) for number in range(setting.jobs)]
    now = 0.0
    _carry_out(scheduler, scheduler.step(map(JobSubmitted, specs), now), now)
    took = []
    for number in range(ROUNDS):
        now += 60.0
        running = [job for job in scheduler.snapshot(now).holding() if job.iterations_per_s]
        facts: list[Event] = [JobSubmitted(_job(f"late-{number}", random))]
        if running:
            facts.append(JobFinished(running[0].id, running[0].attempt))
        scheduler.take(facts, now)
        begun_s = time.process_time()
        actions = scheduler.decide(now)
        took.append(time.process_time() - begun_s)
        _carry_out(scheduler, actions, now)
    return took


def _job(name: str, random: Random) -> JobSpec:
    load, prepare, compute, sync = random.choice(_STAGES)
    size = random.choice((1, 1, 2, 4))
    sizes = random.choice(((size,), tuple(range(1, 2 * size + 1))))
    profile = Profile(load, prepare, compute, sync, size=size, serial=random.choice((0.02, 0.1)))
    return JobSpec(name, random.uniform(1e4, 1e6), sizes, size, profile)


def _carry_out(scheduler: Scheduler, actions: list[Action], now: float) -> None:
    """As an engine would, at once: stops first, then what starts or changes."""
    stops: list[Event] = [
        JobStopped(action.job, action.id, 0.0) for action in actions if isinstance(action, Stop)
    ]
    others: list[Event] = [
        JobStarted(action.job, action.id, 0.0, 1.0)
        for action in actions
        if not isinstance(action, Stop)
    ]
    scheduler.take(stops, now)
    scheduler.take(others, now)


if __name__ == "__main__":
    sys.exit(main())
