"""The order of jobs of unknown length: least attained service against the Gittins index.

    python benchmarks/blind_order.py TRACES_FOLDER

Both preempt and know no lengths. The index is that of the distribution that the learner has of the
jobs like it, and of the job's age. Beside them stands the shortest remaining time first, which
knows every length.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

from treadle.core.actions import Action
from treadle.core.events import Event, JobFinished
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import Policy
from treadle.core.ranking import Rank
from treadle.core.scheduler import Scheduler
from treadle.models.learning.kinds import by_spec
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.lengths.distribution import Lengths
from treadle.models.lengths.gittins import gittins
from treadle.models.scaling import ScalingModel
from treadle.policies.base.ordered import Ordered
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.sim.engine import SimulatedEngine
from treadle.sim.experiment import fit_to
from treadle.sim.run import Simulation
from treadle.traces.clusters import cluster
from treadle.traces.load import load

CASES = (
    ("afs_vc_e13805", 300, "4x4"),
    ("afs_vc_103959", 600, "4x4"),
    ("common960", 400, "6x8"),
    ("elasticflow_195job", 195, "6x8"),
)
KEEP = 2.0  # a running job goes on unless another's index is so many times as high
AGAIN = 1.3  # an index is looked at again when the age has grown by so much


class Blind:
    """Ranks by the index over what the learner knows of each kind."""

    def __init__(self) -> None:
        self._knowledge = Knowledge()
        self._specs: dict[JobId, JobSpec] = {}  # of jobs that were ranked
        self._lengths: dict[tuple[str, ...], Lengths] = {}

    def rank(self, job: Job, now: float) -> Rank:
        self._specs[job.id] = job.spec
        kinds, age_s = by_spec(job.spec), job.held_at(now)
        lengths = self._lengths.get(kinds)
        if lengths is None:
            lengths = self._knowledge.expect(kinds, job.spec.asked).length
            self._lengths[kinds] = lengths
        index = gittins(lengths, age_s) / job.spec.asked
        if job.allocation is None:
            return Rank(-index)
        return Rank(-KEEP * index, until=now + max(60.0, (AGAIN - 1.0) * age_s))

    def learn(
        self,
        now: float,  # noqa: ARG002
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG002
        seen: Scheduler,  # noqa: ARG002
    ) -> None:
        for event in events:
            if isinstance(event, JobFinished) and event.job in self._specs:
                spec = self._specs.pop(event.job)
                done = Outcome(spec.asked, spec.iterations, whole=True)
                self._knowledge.observe(by_spec(spec), done)
                self._lengths.clear()


def mean_s(jobs: Sequence[JobSpec], machines: str, chosen: Policy, blind: Blind) -> float:
    grid = cluster(machines)
    ended: dict[JobId, float] = {}

    def watch(
        now: float,
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG001
        seen: Scheduler,  # noqa: ARG001
    ) -> None:
        ended.update((event.job, now) for event in events if isinstance(event, JobFinished))

    run = Simulation(
        Scheduler(chosen, grid),
        SimulatedEngine(jobs, ScalingModel.on(grid)),
        observers=(watch, blind.learn),
    )
    run.run()
    return sum(ended[job.id] - job.submit_at for job in jobs) / len(jobs)


def _named(name: str) -> tuple[Policy, Blind]:
    return policy(name, placement("count"), ScalingModel()), Blind()


def _gittins() -> tuple[Policy, Blind]:
    blind = Blind()
    return Ordered(blind.rank, placement("count"), preemptive=True), blind


def main() -> None:
    folder = Path(sys.argv[1])
    print(f"{'workload':22}{'las s':>12}{'gittins':>10}{'srtf':>10}   (over las)")
    for name, count, machines in CASES:
        whole = load(str(folder / f"{name}.csv.gz"))
        cut = fit_to(replace(whole, jobs=whole.jobs[:count]), cluster(machines), "cut")
        jobs = [replace(job, sizes=(job.asked,)) for job in cut.jobs]
        begun = process_time()
        las = mean_s(jobs, machines, *_named("las"))
        blind = mean_s(jobs, machines, *_gittins())
        srtf = mean_s(jobs, machines, *_named("srtf"))
        print(
            f"{name:22}{las:12,.0f}{blind / las:10.3f}{srtf / las:10.3f}"
            f"   {process_time() - begun:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
