"""Run cells in processes of their own, each with a limit on its CPU time.

A process for each cell, so that a policy that takes too long, runs out of memory or crashes ends
that cell and no other. They are forked from one server that has imported the simulator and run
nothing: a start takes 20 ms, and no state leaks from one cell into another.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.forkserver import ensure_running
from signal import (
    ITIMER_PROF,
    SIG_BLOCK,
    SIG_IGN,
    SIG_UNBLOCK,
    SIGINT,
    SIGKILL,
    SIGPROF,
    pthread_sigmask,
    setitimer,
    signal,
)
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.core.errors import TreadleError
from treadle.league.cell import Figures, run_cell
from treadle.league.policy_file import PolicyFile, offered
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one cell: figures, or why there are none."""

    figures: Figures | None = None
    cut_off_s: float = 0.0  # it took more CPU time than this and was stopped; 0: it was not
    error: str = ""

    @property
    def trouble(self) -> str:
        """Why the cell has no figures that count; empty if it has."""
        if self.cut_off_s:
            return f"cut off after {self.cut_off_s:g} CPU s"
        return self.error if self.figures is None else self.figures.doubt

    def limited(self, limit_s: float) -> "Outcome":
        """The outcome as a limit on CPU time leaves it."""
        if self.figures is not None and self.figures.cpu_s > limit_s:
            return Outcome(cut_off_s=limit_s)
        return replace(self, cut_off_s=limit_s) if self.cut_off_s else self


class Input(NamedTuple):
    """What a cell's process is given."""

    workload: Workload
    cluster: Cluster
    settings: Settings
    policy_files: tuple[PolicyFile, ...] = ()


def run_cells(
    inputs: Sequence[Callable[[], Input]], *, workers: int, limit_s: float
) -> Generator[tuple[int, Outcome], None, None]:
    """Run all; yields the place of each and its outcome, as each ends.

    inputs: read when their turn comes, because jobs of many workloads take memory.
    """
    context = _server()
    running: dict[Connection, tuple[int, ForkServerProcess]] = {}
    waiting = list(enumerate(inputs))[::-1]
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                place, read = waiting.pop()
                try:
                    given = read()
                except TreadleError as error:
                    yield place, Outcome(error=str(error))
                    continue
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(theirs, given, limit_s), daemon=True)
                # A process with half of its input prints an error, and one that is not in the
                # table is not stopped.
                with _uninterrupted():
                    process.start()
                    running[ours] = (place, process)
                theirs.close()
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                place, process = running.pop(ready)
                yield place, _outcome(ready, process, limit_s)
    finally:
        for connection, (_, process) in running.items():
            process.kill()
            process.join()
            connection.close()


def _server() -> ForkServerContext:
    """A server of processes that ignore Ctrl-C from their first moment: the league stops them."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["treadle.league.cell"])
    before = signal(SIGINT, SIG_IGN)  # A process that is started now inherits this.
    try:
        ensure_running()
    finally:
        signal(SIGINT, before)
    return context


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block has ended."""
    pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        yield
    finally:
        pthread_sigmask(SIG_UNBLOCK, {SIGINT})


def _outcome(connection: Connection, process: ForkServerProcess, limit_s: float) -> Outcome:
    """What a process sent, or how it ended without sending anything."""
    try:
        sent = connection.recv()
    except EOFError:
        sent = None
    connection.close()
    process.join()
    if isinstance(sent, Outcome):
        return sent.limited(limit_s)
    if process.exitcode == -SIGPROF:
        return Outcome(cut_off_s=limit_s)
    if process.exitcode == -SIGKILL:
        return Outcome(error="its process was killed, perhaps for want of memory")
    return Outcome(error=f"its process ended with exit code {process.exitcode}")


def _work(connection: Connection, given: Input, limit_s: float) -> None:
    """In the process of a cell: simulate and send the outcome."""
    # Nothing handles the signal, so the kernel ends the process, also inside a library.
    setitimer(ITIMER_PROF, limit_s)
    try:
        with offered(given.policy_files):
            outcome = Outcome(run_cell(given.workload, given.cluster, given.settings))
    except TreadleError as error:
        outcome = Outcome(error=str(error))
    with suppress(BrokenPipeError):  # The league was killed meanwhile.
        connection.send(outcome)
    connection.close()
