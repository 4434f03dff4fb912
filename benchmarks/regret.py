"""What not knowing costs: mean completion time with everything learned, over that with it known.

    python benchmarks/regret.py TRACES_FOLDER [--policies afs,muri-l,rubick,aiturbo]

Nothing is known at first. `learned`: speeds, company and lengths come from the learner, and jobs
report their steps once they run. `silent`: the same for jobs that never report. `old`: what was
assumed before lengths were learned: an hour for every job, no gain beyond the sizes seen, stage
times drawn at random.
"""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.models.fitted import Point
from treadle.models.learning.belief import Learned, learning
from treadle.models.learning.curves import SERIAL, Curve
from treadle.models.learning.knowledge import Pace
from treadle.models.scaling import interpolate
from treadle.models.stages import StageTimes
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.reports.metrics import summarise
from treadle.reports.recorder import Recorder
from treadle.sim.beliefs import base_model
from treadle.sim.engine import SimulatedEngine
from treadle.sim.experiment import fit_to, prepare, recording
from treadle.sim.run import Simulation
from treadle.sim.settings import Settings, sharing
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

POLICIES = ("afs", "muri-l", "rubick", "aiturbo")
ALLOWED = 1.10
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, and the settings that suit it."""

    trace: str
    jobs: int
    machines: str
    settings: Settings = field(default_factory=lambda: Settings(placement="count"))


CASES = (
    Case("afs_vc_e13805", 300, "16x4"),
    Case("afs_vc_103959", 400, "16x4"),
    Case("muri_testbed400", 200, "8x8"),
    Case("elasticflow_195job", 195, "8x8"),
    Case("common960", 300, "4x8", Settings(placement="count", elastic=0.1)),
    # Plan models begin with factors that are off by e^0.7 and are fitted again.
    Case("rubick_workload_base", 150, "8x8", Settings(placement="count", speeds="plans")),
)


def mean_s(workload: Workload, machines: Cluster, settings: Settings) -> float:
    summary = prepare(workload, machines, settings, stopwatch=process_time).finish()
    assert summary.jct_mean_s is not None
    return summary.jct_mean_s


def learned(settings: Settings, lengths: str) -> Settings:
    error = 0.7 if settings.speeds == "plans" else 0.0
    return replace(settings, belief="learned", belief_error=error, lengths=lengths)


def old_mean_s(workload: Workload, machines: Cluster, settings: Settings) -> float | None:
    """With what the live controller assumed before; None where plans set the speeds."""
    if settings.speeds == "plans":
        return None
    truth = sharing("tokens", base_model(machines, settings), StageTimes(settings.seed))
    assumed = sharing("tokens", base_model(machines, settings), StageTimes(settings.seed + 1))
    belief = OldBelief(assumed, serial=SERIAL, gated=False)
    jobs = _elastic(workload, machines, settings)
    made = policy(settings.policy, placement(settings.placement), belief)
    scheduler = Scheduler(made, machines)
    engine = SimulatedEngine(jobs, truth, announced=_an_hour)
    recorder = Recorder(lambda spec, speed: speed / truth.alone(spec, spec.sizes[0]))
    watch = recording(recorder, {job.id: job for job in jobs})
    run = Simulation(scheduler, engine, observers=(watch, learning(belief)))
    run.run()
    recorder.close(run.now)
    return summarise(
        recorder,
        policy=settings.policy,
        devices=machines.device_count,
        decisions=scheduler.decisions,
        decide_cpu_s=0.0,
        never_fit=scheduler.unfit,
    ).jct_mean_s


def _elastic(workload: Workload, machines: Cluster, settings: Settings) -> list[JobSpec]:
    """The jobs as `prepare` gives them to an engine."""
    run = prepare(workload, machines, replace(settings, policy="fifo"), stopwatch=process_time)
    return list(run.jobs)


class Flat(NamedTuple):
    """Speeds as the old defaults had them: on lines between measured sizes, level beyond."""

    points: tuple[Point, ...]

    @property
    def measured(self) -> tuple[int, ...]:
        return tuple(size for size, _ in self.points)

    def seconds(self, size: int, asked: int) -> float:  # noqa: ARG002
        return interpolate(self.points, size)

    def carried(self, sizes: Iterable[int]) -> tuple[Point, ...]:  # noqa: ARG002
        return self.points


class OldBelief(Learned):
    """As the live controller believed before."""

    def curve(self, pace: Pace) -> Curve:
        return Flat(pace.points)


def _an_hour(spec: JobSpec) -> JobSpec:
    """A job of which nothing is known: it takes an hour, and what it does is drawn."""
    profile = Profile(size=spec.asked, serial=SERIAL, model="")
    return replace(spec, iterations=HOUR_S, profile=profile, estimate_s=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--policies", default=",".join(POLICIES))
    chosen = parser.parse_args()
    worst = 0.0
    print(f"{'workload':22}{'policy':10}{'known s':>10}{'learned':>9}{'silent':>8}{'old':>8}")
    for case in CASES:
        machines = cluster(case.machines)
        whole = load(str(chosen.folder / f"{case.trace}.csv.gz"))
        workload = fit_to(replace(whole, jobs=whole.jobs[: case.jobs]), machines, "cut")
        for name in chosen.policies.split(","):
            settings = replace(case.settings, policy=name)
            known = mean_s(workload, machines, settings)
            reporting = mean_s(workload, machines, learned(settings, "steps")) / known
            silent = mean_s(workload, machines, learned(settings, "survival")) / known
            old = old_mean_s(workload, machines, settings)
            worst = max(worst, reporting)
            shown = "-" if old is None else f"{old / known:.3f}"
            row = f"{case.trace:22}{name:10}{known:10,.0f}{reporting:9.3f}{silent:8.3f}{shown:>8}"
            print(row + ("  MISSED" if reporting > ALLOWED else ""), flush=True)
    print(f"the worst is {worst:.3f}; allowed are {ALLOWED}")
    return 0 if worst <= ALLOWED else 1


if __name__ == "__main__":
    raise SystemExit(main())
