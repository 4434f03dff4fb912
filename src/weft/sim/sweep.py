"""Many simulations over all cores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal
from time import perf_counter

from weft.core.cluster import Cluster
from weft.core.errors import WeftError
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


def sweep(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Summary | WeftError]]:
    """Run all; yields the place of a task and its summary, or what went wrong, as each ends."""
    numbered = list(enumerate(tasks))
    if workers == 1 or len(tasks) == 1:
        yield from map(_run, numbered)
        return
    # Fresh processes rather than forks: nothing of this one's state can leak into a result. They
    # are stopped at once when this generator is closed or interrupted.
    with get_context("spawn").Pool(min(workers, len(tasks)), _leave_interrupts) as pool:
        yield from pool.imap_unordered(_run, numbered)


def _leave_interrupts() -> None:
    """Let the parent deal with Ctrl-C; it stops the workers."""
    signal(SIGINT, SIG_IGN)


def _run(numbered: tuple[int, Task]) -> tuple[int, Summary | WeftError]:
    """One simulation from its words; a mistake in one does not cost the others."""
    place, task = numbered
    try:
        workload, machines = _read(task.trace, task.cluster, task.oversize)
        experiment = prepare(workload, machines, task.settings, stopwatch=perf_counter)
        return place, experiment.finish()
    except WeftError as error:
        return place, error


@lru_cache(maxsize=4)
def _read(trace: str, machines: str, oversize: str) -> tuple[Workload, Cluster]:
    parsed = cluster(machines)
    return fit_to(load(trace, cluster=parsed), parsed, oversize), parsed
