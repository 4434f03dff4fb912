"""Sia (Jayaram Subramanya et al., SOSP'23), as Rubick's authors run it: one type of device.

Every time something happens, all jobs are given new sizes, so that the sum of their costs is the
least there is. What a size costs a job is its speed there, over that of its smallest size and times
that size, to the power of `power`, which is negative: the first devices count the most. A job
without devices costs `idle`. Changing a running job makes its new sizes look slower by
(T − N·S) / (T + S), where T is its time with devices, N its restarts so far and S what one costs.

Only jobs that do not split their model grow and shrink, under their user's kind of plan with more
or fewer copies; the others get the size and the plan that was asked for, or nothing. Sia itself
looks once a minute, adapts batches and knows several types of devices; it lets a job at most double
at a time. None of that is here.
"""

from collections.abc import Sequence

import numpy as np

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.change_costs import resize_s
from treadle.models.plans.sensitivity import Curves
from treadle.models.plans.space import shape_of
from treadle.policies.base.placement import Placement
from treadle.policies.base.restarts import Restarts
from treadle.policies.base.shares import Sharing
from treadle.policies.rubick.kinds import RESTART_S

Options = Sequence[tuple[int, float]]  # sizes with their speeds, or their costs


class Sia(Sharing):
    """Sizes for all jobs at once, fair by speed; only jobs that split nothing are elastic (Sia).

    power: how soon more devices count for less, below 0. idle: what a waiting job costs, where
    running on its smallest size of one device costs 1. restart_s: what a change costs a job.
    """

    def __init__(
        self,
        placement: Placement,
        belief: PerformanceModel,
        *,
        power: float = -0.5,
        idle: float = 1.1,
        restart_s: float = RESTART_S,
    ) -> None:
        if not power < 0:
            raise InvalidInputError(f"sia power must be below 0, not {power:g}")
        if not idle > 0:
            raise InvalidInputError(f"sia idle must be above 0, not {idle:g}")
        if not restart_s >= 0:
            raise InvalidInputError(f"sia restart_s must be 0 or more, not {restart_s:g}")
        super().__init__(placement)
        self._curves = Curves(belief, plans=False, pure=True)
        self._power = power
        self._idle = idle
        self._restart_s = restart_s

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        if not cluster.nodes:
            return self._fit.never(spec.sizes[0], cluster)
        self._curves.on(cluster)
        return self._fit.never(self._curves.of(spec).sizes[0][0], cluster)

    def offers(self, job: Job) -> Sequence[int]:
        return [size for size, _ in self._curves.of(job.spec).sizes]

    def decide(self, snapshot: Snapshot) -> Schedule:
        cluster = snapshot.cluster
        self._curves.on(cluster)
        restarts = Restarts(snapshot)
        jobs = sorted([*snapshot.holding(), *snapshot.waiting()], key=lambda job: job.sequence)
        options = [self._options(job, snapshot.now, restarts.of(job)) for job in jobs]
        chosen = cheapest(options, snapshot.supply, self._idle)
        sizes = {job.id: size for job, size in zip(jobs, chosen, strict=True) if size}
        largest_first = dict(sorted(sizes.items(), key=lambda pair: -pair[1]))
        placed = self.schedule(snapshot, largest_first)
        changes = {job: self._planned(snapshot, job, new) for job, new in placed.changes.items()}
        return Schedule(changes, memory=restarts.after(changes))

    def _options(self, job: Job, now: float, restarts: int) -> Options:
        sizes: Options = self._curves.of(job.spec).sizes
        smallest, slowest = sizes[0]
        factor = 1.0
        if job.allocation is not None:
            held_s, change_s = job.held_at(now), resize_s(job.spec, self._restart_s)
            factor = (held_s - restarts * change_s) / (held_s + change_s or 1.0)
            factor = max(factor, 1e-3)
            if all(size != job.size for size, _ in sizes):
                # By now fewer devices are believed to do: the size it has still takes no restart.
                below = [speed for size, speed in sizes if size < job.size]
                sizes = (*sizes, (job.size, below[-1] if below else slowest))
        return [
            (
                size,
                (smallest * speed / slowest * (1 if size == job.size else factor)) ** self._power,
            )
            for size, speed in sizes
        ]

    def _planned(self, snapshot: Snapshot, job: JobId, new: Allocation | None) -> Allocation | None:
        if new is None:
            return None
        found = self._curves.speed(snapshot.jobs[job].spec, shape_of(new))
        return new if found is None else Allocation(new.devices, found.plan)


def cheapest(jobs: Sequence[Options], devices: int, idle: float) -> list[int]:
    """One size for each job, or 0, with the least sum of costs that so many devices allow.

    Exact: the least cost for every number of devices, job after job.
    """
    costs = np.zeros(devices + 1)
    chosen: list[np.ndarray] = []
    for options in jobs:
        best = costs + idle
        sizes = np.zeros(devices + 1, dtype=int)
        for size, cost in options:
            if size <= devices:
                with_size = costs[: devices + 1 - size] + cost
                better = with_size < best[size:] - 1e-12
                best[size:][better] = with_size[better]
                sizes[size:][better] = size
        costs = best
        chosen.append(sizes)
    answer: list[int] = []
    for sizes in reversed(chosen):
        answer.append(int(sizes[devices]))
        devices -= answer[-1]
    return answer[::-1]
