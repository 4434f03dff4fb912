"""A policy of your own in twenty lines: the largest job that fits goes first.

python examples/largest_first.py
"""

from treadle import (
    Allocation,
    Cluster,
    Fit,
    Job,
    JobSpec,
    PerformanceModel,
    Placement,
    Policy,
    Profile,
    Rank,
    ScalingModel,
    Schedule,
    Scheduler,
    SimulatedEngine,
    Simulation,
    Snapshot,
    placement,
)
from treadle.reports.recorder import Recorder
from treadle.sim.experiment import recording


class LargestFirst(Policy):
    """The largest waiting job that fits goes first; no job is preempted."""

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


def job(name: str, size: int, length_s: float, at: float = 0.0) -> JobSpec:
    """A job that takes so long on exactly so many devices."""
    return JobSpec(name, length_s, (size,), profile=Profile(size=size), submit_at=at)


def main() -> None:
    jobs = [job("small", 1, 5.0), job("large", 8, 100.0), job("half", 4, 100.0, at=1.0)]
    recorder = Recorder()
    scheduler = Scheduler(LargestFirst(placement("consolidate")), Cluster.grid(2, 4))
    engine = SimulatedEngine(jobs, ScalingModel())
    Simulation(scheduler, engine, observers=(recording(recorder),)).run()
    for name, story in recorder.stories.items():
        print(f"{name:6} started at {story.first_start_at:g} s, ended at {story.ended_at:g} s")


if __name__ == "__main__":
    main()
