"""Lower bounds on the mean completion time: what no policy can beat on a workload.

Both bounds relax the cluster to one pooled machine that has no nodes, no whole sizes, no restart
cost, no placement effects and no faults, and on which every job is as fast as it can ever be.

**Work.** Let v(n) be a job's speed on n devices of the best placement, with the best plan, alone.
While it runs on n devices, it makes at most v(n) of progress a second and uses n device-seconds a
second. So each iteration costs at least c = min over n of n / v(n) device-seconds, and the job at
least w = iterations · c. All running jobs together use at most D devices.

**Pooled shortest-remaining-first.** Any schedule without sharing is therefore a schedule of the
works w on one preemptive machine of speed D (give each job, at each moment, the device-seconds that
it uses; it ends no later). On such a machine, shortest remaining processing time first has the
least sum of completion times (Schrage, 1968), so its mean is a lower bound.

**Ideal run times.** No job takes less than p = iterations / max over n of v(n), so the mean of p is
a bound too, with or without sharing.

**Sharing.** Jobs that share devices take turns at four resources: storage, CPU, device and network
(`treadle.models.tokens`). Let u(r) be the share of its time alone that a job spends at resource r.
At a share x of its speed alone it keeps the resource busy for x · u(r) of every second, on each of
its devices, and a resource with L(r) lanes is busy for at most L(r): the utilisation law, which
needs no assumption about turns. So in any group the sum of x · u(r) over the jobs on a device is at
most L(r), and for any weights y(r) of 0 or more

    sum over jobs of x · (sum over r of y(r) · u(r))  <=  sum over r of y(r) · L(r).

This is the pooled machine again, with the work w · (y · u) for each job and the speed D · (y · L).
Every choice of weights gives a valid bound; the largest over the subsets of resources is taken.
With all weights equal, it is the capacity of D devices times the best possible sum of speeds.

The law is one of queues, and the token model approximates a queue: its mean value analysis is exact
where stages are longer than half a turn and resources have one lane, and exceeds the lanes by up to
0.4 % elsewhere (40,000 drawn groups; tests/unit/league/test_lower_bounds.py repeats some). `SLACK`
is added to the lanes for that. It is proven for jobs that share all their devices. A job that
shares only some runs at the speed that it would have beside all its sharers everywhere, which is
slower but in odd groups; if such a run ever gets below the bound, the league says so.

**Mean busy times.** Let M be the mean moment at which a job's work is done. A job does at most a
share 1/p of its work in a second, so its work cannot be packed closer to its end than evenly over
the last p seconds: its completion is at least M + p/2. On the pooled machine, always serving the
job with the least whole work has the least sum of M (each unit of work of a job has the same weight
1/w; an exchange of two units shows it; Goemans, 1997). So the mean of M + p/2 is a bound as well,
the best one where queues are short and jobs long.

Where a cluster has CPU slots, the devices of each kind are resources of their own with any weights:
a job that runs on g GPUs and s slots uses g + weight · s.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product
from math import inf
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel
from treadle.models.plans.planned import PlannedModel
from treadle.models.plans.space import dense
from treadle.models.stages import StageTimes
from treadle.models.tokens import LANES
from treadle.models.workers import Count, WorkersModel
from treadle.sim.beliefs import base_model
from treadle.sim.settings import Settings

SLACK = 0.02  # by which groups in the token model may exceed the lanes of a resource
ROUNDING = 1e-6  # by which a mean may lie below a bound
_SLOT_WEIGHTS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of a CPU slot beside a GPU
_CORES_ENOUGH = 1e6  # more than any host has


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds on the mean completion time, in seconds."""

    alone_s: float  # of policies that never let jobs share devices
    shared_s: float  # of any policy


class Speed(NamedTuple):
    """A job's best speed on so many GPUs and CPU slots."""

    iterations_per_s: float
    gpus: int
    slots: int = 0


def lower_bounds(jobs: Sequence[JobSpec], cluster: Cluster, settings: Settings) -> Bounds:
    """The bounds for these jobs, as they truly are, in a run with these settings.

    With another model of sharing than tokens, `shared_s` is only the mean ideal run time.
    """
    if not jobs:
        return Bounds(0.0, 0.0)
    model = base_model(cluster, settings)
    speeds = [list(best_speeds(job, model, cluster)) for job in jobs]
    submitted = [job.submit_at for job in jobs]
    ideal = [
        job.iterations / max(one.iterations_per_s for one in some)
        for job, some in zip(jobs, speeds, strict=True)
    ]
    ideal_s = sum(ideal) / len(jobs)
    slots = sum(node.device_count for node in cluster.nodes if node.has_slots)
    gpus = cluster.device_count - slots
    alone_s = shared_s = ideal_s
    shares = _resource_shares(jobs, StageTimes(settings.seed))
    for weight in _SLOT_WEIGHTS if slots and gpus else (1.0,):
        capacity = gpus + weight * slots
        works = [_work(job, some, weight) for job, some in zip(jobs, speeds, strict=True)]
        alone_s = max(alone_s, pooled_shortest_first(submitted, works, capacity))
        if settings.sharing != "tokens":
            continue
        for weights in _subsets():
            lanes = sum(y * (lanes + SLACK) for y, lanes in zip(weights, LANES, strict=True))
            parts = [
                work * sum(y * u for y, u in zip(weights, share, strict=True))
                for work, share in zip(works, shares, strict=True)
            ]
            total = capacity * lanes
            busy_s = _busy_bound(submitted, parts, ideal, total)
            shared_s = max(shared_s, busy_s, pooled_shortest_first(submitted, parts, total))
    return Bounds(alone_s, shared_s)


def best_speeds(job: JobSpec, model: PerformanceModel, cluster: Cluster) -> Iterator[Speed]:
    """The job's speed on each size, placed as well as can be, under its best plan."""
    for size in sorted({*job.sizes, *((1,) if job.trial else ())}):
        if size > cluster.device_count:
            continue
        match model:
            case WorkersModel():
                slots = sum(n.device_count for n in cluster.nodes if n.has_slots)
                gpus = cluster.device_count - slots
                for used in range(max(0, size - slots), min(size, gpus) + 1):
                    count = Count(used, size - used)
                    yield Speed(model.mixed(job, count), *count)
            case PlannedModel():
                yield Speed(max(model.alone(job, size), _planned(job, size, model)), size)
            case _:
                yield Speed(model.alone(job, size), size)


def pooled_shortest_first(
    submitted: Sequence[float], works: Sequence[float], capacity: float
) -> float:
    """The mean completion time on one machine, shortest remaining work first."""
    return (sum(_ends(submitted, works, capacity)) - sum(submitted)) / len(works)


def _planned(job: JobSpec, size: int, model: PlannedModel) -> float:
    """The speed under the best of the job's plans, with as many host cores as it can use."""
    kind, own = model.planner.type_of(job), job.plans[0]
    if kind is None or own == DATA_PARALLEL:
        return 0.0
    # The model's seconds in the trace's: as asked for, the job takes its profiled time.
    own_s = kind.iteration_s(own, dense(job.asked, model.node), cores=model.planner.cores)
    scale = model.alone(job, job.asked) * own_s
    shape = dense(size, model.node)
    plans = [plan for plan in job.plans if plan != DATA_PARALLEL and plan.fits(size)]
    return scale / min(
        (kind.iteration_s(plan, shape, cores=_CORES_ENOUGH) for plan in plans), default=inf
    )


def _work(job: JobSpec, speeds: Sequence[Speed], slot: float) -> float:
    """The least weighted device-seconds that the job can take."""
    return job.iterations * min(
        (one.gpus + slot * one.slots) / one.iterations_per_s
        for one in speeds
        if one.iterations_per_s > 0
    )


def _resource_shares(jobs: Sequence[JobSpec], times: StageTimes) -> list[tuple[float, ...]]:
    """The share of its time alone that each job spends at each resource."""
    found = []
    for job in jobs:
        *stages, alone_s = times.of(job)
        found.append(tuple(min(stage, alone_s) / alone_s for stage in stages))
    return found


def _subsets() -> Iterator[tuple[int, ...]]:
    """Weights of 0 or 1 for each resource; at least one counts."""
    return (weights for weights in product((0, 1), repeat=len(LANES)) if any(weights))


def _ends(submitted: Sequence[float], works: Sequence[float], capacity: float) -> list[float]:
    """When each job ends on the pooled machine, shortest remaining work first."""
    ends = list(submitted)
    waiting: list[tuple[float, int]] = []
    now = 0.0
    for place in [*sorted(range(len(works)), key=submitted.__getitem__), -1]:
        until = submitted[place] if place >= 0 else inf
        while waiting and now < until:
            left, job = heappop(waiting)
            done_at = now + left / capacity
            if done_at > until:
                heappush(waiting, (left - (until - now) * capacity, job))
                now = until
            else:
                now = ends[job] = done_at
        if place >= 0:
            now = max(now, until)
            heappush(waiting, (works[place], place))
    return ends


def _busy_bound(
    submitted: Sequence[float], works: Sequence[float], ideal: Sequence[float], capacity: float
) -> float:
    """The mean of the moments at which work is done, least whole work first, plus half of each
    ideal run time."""
    busy = [0.0] * len(works)  # integral of the moment over the work done
    waiting: list[tuple[float, int]] = []
    left = list(works)
    now = 0.0
    for place in [*sorted(range(len(works)), key=submitted.__getitem__), -1]:
        until = submitted[place] if place >= 0 else inf
        while waiting and now < until:
            job = waiting[0][1]
            to_at = min(until, now + left[job] / capacity)
            busy[job] += (to_at - now) * capacity * (now + to_at) / 2
            left[job] -= (to_at - now) * capacity
            if to_at < until or left[job] <= 0:
                heappop(waiting)
            now = to_at
        if place >= 0:
            now = max(now, until)
            heappush(waiting, (works[place], place))
    total_s = 0.0
    for at, work, moments, ideal_s in zip(submitted, works, busy, ideal, strict=True):
        total_s += (moments / work if work else at) - at + ideal_s / 2
    return total_s / len(works)
