"""Run many simulations on all cores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal

from treadle.core.cluster import Cluster
from treadle.core.errors import TreadleError
from treadle.reports.metrics import Summary
from treadle.sim.experiment import fit_to, prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Task:
    """One simulation, as text that can be sent to another process."""

    trace: str
    cluster: str
    oversize: str
    settings: Settings


def sweep(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Summary | TreadleError]]:
    """Run all; yields the index of a task and its summary or error, as each ends."""
    numbered = list(enumerate(tasks))
    if workers == 1 or len(tasks) == 1:
        yield from map(_run, numbered)
        return
    # Fresh processes rather than forks, so that no state of this process leaks into a result. They
    # are stopped when this generator is closed or interrupted.
    with get_context("spawn").Pool(min(workers, len(tasks)), _leave_interrupts) as pool:
        yield from pool.imap_unordered(_run, numbered)


def _leave_interrupts() -> None:
    """Ignore Ctrl-C here; the parent handles it and stops the workers."""
    signal(SIGINT, SIG_IGN)


def _run(numbered: tuple[int, Task]) -> tuple[int, Summary | TreadleError]:
    """Run one simulation; an error in one does not stop the others."""
    place, task = numbered
    try:
        workload, machines = _read(task.trace, task.cluster, task.oversize)
        experiment = prepare(workload, machines, task.settings)
        return place, experiment.finish()
    except TreadleError as error:
        return place, error


@lru_cache(maxsize=4)
def _read(trace: str, machines: str, oversize: str) -> tuple[Workload, Cluster]:
    parsed = cluster(machines)
    return fit_to(load(trace, cluster=parsed), parsed, oversize), parsed
