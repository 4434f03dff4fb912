"""Many simulations over all cores."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from time import perf_counter

from weft.core.cluster import Cluster
from weft.reports.metrics import Summary
from weft.sim.experiment import fit_to, prepare
from weft.sim.settings import Settings
from weft.traces.clusters import cluster
from weft.traces.load import load
from weft.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Task:
    """One simulation, as words that any process can read."""

    trace: str
    cluster: str
    oversize: str
    settings: Settings


def sweep(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Summary]]:
    """Run all; yields the place of a task and its summary as each ends, in any order."""
    if workers == 1 or len(tasks) == 1:
        for place, task in enumerate(tasks):
            yield place, run(task)
        return
    # Fresh processes rather than forks: nothing of this one's state can leak into a result.
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run, task): place for place, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def run(task: Task) -> Summary:
    """One simulation from its words."""
    workload, machines = _read(task.trace, task.cluster, task.oversize)
    return prepare(workload, machines, task.settings, stopwatch=perf_counter).finish()


@lru_cache(maxsize=4)
def _read(trace: str, machines: str, oversize: str) -> tuple[Workload, Cluster]:
    parsed = cluster(machines)
    return fit_to(load(trace, cluster=parsed), parsed, oversize), parsed
