"""What quotas are worth: Rubick's base workload, every second job guaranteed, on 4 nodes of 8.

    python benchmarks/quotas.py TRACE     (../shared/traces/rubick_workload_base.csv.gz)

Tenant A's jobs are guaranteed and B's are best-effort; A's quota is the whole cluster, under the
live decision.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace

from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

POLICIES = tuple(
    f"{name}{quota}" for name in ("weave", "weave-l", "rubick") for quota in ("", "?quotas=A:32")
)


def tenants(workload: Workload) -> Workload:
    """Every second job, alternately A's and B's."""
    jobs = tuple(
        replace(job, guaranteed=number % 2 == 0, tenant="AB"[number % 2])
        for number, job in enumerate(workload.jobs[::2])
    )
    return replace(workload, jobs=jobs)


def means(workload: Workload, policy: str) -> Iterator[float]:
    """Mean completion time of guaranteed jobs, and of the others."""
    settings = Settings(policy=policy, restart_cost="78", speeds="plans", live=True)
    experiment = prepare(workload, cluster("4x8"), settings)
    experiment.finish()
    for guaranteed in (True, False):
        times = [
            history.ended_at - history.submitted_at
            for history in experiment.recorder.histories.values()
            if history.spec.guaranteed is guaranteed and history.ended_at is not None
        ]
        yield sum(times) / len(times)


def main() -> None:
    workload = tenants(load(sys.argv[1], cluster=cluster("4x8")))
    for policy in POLICIES:
        guaranteed, others = means(workload, policy)
        print(f"{policy:22} guaranteed {guaranteed:6.0f} s   best effort {others:6.0f} s")


if __name__ == "__main__":
    main()
