"""A policy of your own in twenty lines: the largest job that fits goes first.

python examples/largest_first.py
"""

from treadle import Cluster, Job, JobSpec, Policy, Rank, Schedule, Snapshot
from treadle.core.allocation import Allocation
from treadle.core.ports import PerformanceModel
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import Fit, Placement, placement
from treadle.reports.recorder import Recorder
from treadle.sim.engine import SimulatedEngine
from treadle.sim.experiment import recording
from treadle.sim.run import Simulation
from treadle.testing.builders import job


class LargestFirst(Policy):
    """The largest waiting job that fits goes first; nobody is preempted."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._fit = Fit(placement)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        return self._fit.never(spec.asked, cluster)

    def rank(self, job: Job, now: float) -> Rank:
        return Rank(-job.spec.asked)

    def decide(self, snapshot: Snapshot) -> Schedule:
        free = snapshot.free.copy()
        changes: dict[str, Allocation | None] = {}
        for waiting in snapshot.waiting():
            devices = self._placement.place(free, waiting.spec.asked)
            if devices is not None:
                free.take(devices)
                changes[waiting.id] = Allocation(devices)
        return Schedule(changes)


def largest_first(placement: Placement, belief: PerformanceModel) -> LargestFirst:
    """The largest job that fits goes first."""
    return LargestFirst(placement)


def main() -> None:
    cluster = Cluster.grid(2, 4)
    jobs = [job("small", size=1, length_s=5), job("large", size=8), job("half", size=4, at=1)]
    recorder = Recorder()
    policy = largest_first(placement("consolidate"), ScalingModel())
    engine = SimulatedEngine(jobs, ScalingModel())
    Simulation(Scheduler(policy, cluster), engine, observers=(recording(recorder),)).run()
    for name, story in recorder.histories.items():
        print(f"{name:6} started at {story.first_start_at:g} s, ended at {story.ended_at:g} s")


if __name__ == "__main__":
    main()
