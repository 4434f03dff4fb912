"""What a cluster goes through in a bad week, one fault at a time, and what is seen of it.

    python -m benchmarks.ray_drills [--drills head-stopped,cut] [--parallel 2] [--into FILE]

A real Ray cluster of four nodes in network namespaces, a real daemon with the default `--failover`
of ten minutes, and four jobs that fill it: one on two nodes, and three that write a line twice a
second. Each drill begins with a fresh cluster. Meanwhile what `nodes`, `ps` and `why` say is noted,
and in the end, by the files of the ranks alone: which died, what ran twice, and the longest gap.

Needs root and network namespaces, as benchmarks/ray_chaos.py.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.control.daemons import Daemon
from tests.on_ray.chaos_cluster import ChaosCluster, children
from tests.on_ray.chaos_network import why_not
from tests.on_ray.chaos_plan import HEAD, NODES, SLOTS

from treadle.cli.live.nodes import health_text
from treadle.client.client import Client
from treadle.core.errors import TreadleError
from treadle.engines.node import processes
from treadle.engines.node.processes import ProcessId
from treadle.wire.jobs import JobRequest, State

VICTIM = NODES[1]
LINE_S = 0.5
WELL_WITHIN_S = 300.0  # after a fault, until all nodes can be used again
LOOK_S = 0.5
PROGRAM = f"""
import os, sys, time
name = "{{0[TREADLE_JOB_ID]}}.{{0[TREADLE_ATTEMPT]}}.{{0[RANK]}}".format(os.environ)
with open(f"{{sys.argv[1]}}/{{name}}.{{os.getpid()}}", "a", buffering=1) as file:
    while True:
        print(time.clock_gettime(time.CLOCK_BOOTTIME), file=file)
        time.sleep({LINE_S})
"""
_numbers = count(100)  # of networks


class Bench:
    """A cluster, a daemon, and jobs that run."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="td-"))
        self.records = self.folder / "records"
        self.records.mkdir()
        self.cluster = ChaosCluster(next(_numbers))
        self.daemon = self.daemon_on(HEAD)
        self.jobs: list[str] = []

    def daemon_on(self, node: str) -> Daemon:
        address = ("--engine", "ray", "--address", self.cluster.address)
        words = (*address, "--no-port", "--no-warm", "--policy", "backfill?share=off")
        return Daemon(self.folder, *words, through=self.cluster.through(node))

    def begin(self) -> None:
        self.cluster.start()
        self.daemon.start()
        _until(self.is_whole, "not all nodes are used")
        command = (sys.executable, "-IS", "-c", PROGRAM, str(self.records))
        with self.client() as client:
            for devices in (2 * SLOTS, SLOTS, SLOTS):
                request = JobRequest(command=command, devices=str(devices), workdir="/")
                self.jobs.append(client.submit(request).id)
        _until(lambda: len(list(self.records.iterdir())) == SLOTS * len(NODES), "no job runs")

    def end(self) -> None:
        with suppress(Exception):
            self.daemon.stop()
        self.cluster.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self) -> Client:
        return Client(f"unix:{self.daemon.socket}")

    def is_whole(self) -> bool:
        with suppress(TreadleError), self.client() as client:
            nodes = client.nodes()
            return len(nodes) == len(NODES) and all(node.health == "answers" for node in nodes)
        return False

    def said(self) -> dict[str, Any]:
        """Of the node that is hurt, and of the jobs there, in the words that people read."""
        try:
            with self.client() as client:
                now = time.time()
                node = next((n for n in client.nodes() if n.name == VICTIM), None)
                states = {job: client.job(job).job.state.value for job in self.jobs}
                why = {job: client.why(job).sentence for job in self.jobs}
        except TreadleError as error:
            return {"error": str(error)}
        health = "is no node" if node is None else health_text(node, now)
        return {"node": health, "states": states, "why": sorted({*why.values()})}

    def gcs(self) -> ProcessId:
        words = ("gcs_server", str(self.cluster.folder))
        lines = {pid: processes.command_of(pid) for pid in processes.all_pids()}
        (pid,) = [pid for pid, line in lines.items() if all(word in line for word in words)]
        return ProcessId(pid, processes.start_of(pid) or 0)

    def driver(self) -> ProcessId:
        return next(
            each
            for each in children(self.daemon.pid)
            if "treadle.engines.clusters.ray.driver" in processes.command_of(each.pid)
        )


# -- what is done to it: a generator that does it, and yields for how long it lasts ----------------

Fault = Callable[[Bench], Iterator[float]]


def stopped(which: Callable[[Bench], ProcessId], lasts_s: float) -> Fault:
    def fault(bench: Bench) -> Iterator[float]:
        process = which(bench)
        processes.send(process, signal.SIGSTOP)
        yield lasts_s
        processes.send(process, signal.SIGCONT)

    return fault


def cut(lasts_s: float) -> Fault:
    def fault(bench: Bench) -> Iterator[float]:
        bench.cluster.cut(VICTIM)
        yield lasts_s
        bench.cluster.heal(VICTIM)

    return fault


def killed_head(bench: Bench) -> Iterator[float]:
    processes.send(bench.gcs(), signal.SIGKILL)
    yield 20.0  # `ray start --block` ends, and is started again by the service manager


def killed_raylet(bench: Bench) -> Iterator[float]:
    bench.cluster.kill_raylet(VICTIM, 20.0)
    yield 20.0


def moved_controller(bench: Bench) -> Iterator[float]:
    bench.daemon.kill()
    yield 15.0
    bench.daemon = bench.daemon_on(NODES[2])
    bench.daemon.start()


def begun_beside_cut(bench: Bench) -> Iterator[float]:
    bench.cluster.cut(VICTIM)
    bench.daemon.kill()
    bench.daemon.start()
    yield 120.0
    bench.cluster.heal(VICTIM)


def hit_agent(number: signal.Signals) -> Fault:
    def fault(bench: Bench) -> Iterator[float]:
        assert bench.cluster.hit_agent(VICTIM, number)
        yield 20.0

    return fault


DRILLS: Mapping[str, tuple[str, Fault]] = {
    "head-stopped": ("Ray's head is stopped for 60 s", stopped(Bench.gcs, 60.0)),
    "head-stopped-long": ("Ray's head is stopped for 5 min", stopped(Bench.gcs, 300.0)),
    "head-killed": ("Ray's head is killed, and started again", killed_head),
    "raylet-killed": ("a raylet is killed, and started again", killed_raylet),
    "driver-hung": ("the driver is stopped for 60 s", stopped(Bench.driver, 60.0)),
    "controller-moved": ("the controller is killed, and started on another node", moved_controller),
    "agent-killed": ("an agent is killed", hit_agent(signal.SIGKILL)),
    "agent-hung": ("an agent is stopped", hit_agent(signal.SIGSTOP)),
    "begun-beside-cut": (
        "a node is cut off for 2 min, and the controller killed and started again meanwhile",
        begun_beside_cut,
    ),
    "cut": ("a node is cut off for 20 s", cut(20.0)),
    "cut-long": ("a node is cut off for 3 min", cut(180.0)),
    "cut-longer": ("a node is cut off for 15 min", cut(900.0)),
}


class Seen(NamedTuple):
    """What came of a drill."""

    died: int  # ranks whose process was another one afterwards, or is gone
    twice: int  # ranks of which two attempts wrote at the same time
    gap_s: float  # the longest that a rank wrote nothing
    attempts: tuple[int, ...]  # of each job
    well_after_s: float | None  # from the end of the fault; None: not within WELL_WITHIN_S
    said: list[tuple[float, dict[str, Any]]]  # seconds after the beginning of the fault
    problem: str = ""


def drill(name: str) -> Seen:
    title, fault = DRILLS[name]
    bench, said = Bench(), list[tuple[float, dict[str, Any]]]()
    try:
        bench.begin()
        _say(f"{name}: {title}")
        begun, steps = time.monotonic(), fault(bench)
        lasts_s = next(steps)
        for share in (0.25, 0.9):
            time.sleep(max(0.0, begun + share * lasts_s - time.monotonic()))
            said.append((round(time.monotonic() - begun), bench.said()))
        time.sleep(max(0.0, begun + lasts_s - time.monotonic()))
        next(steps, None)
        over = time.monotonic()
        with suppress(AssertionError):
            _until(bench.is_whole, "", WELL_WITHIN_S)
        well_s = time.monotonic() - over if bench.is_whole() else None
        time.sleep(10.0)
        said.append((round(time.monotonic() - begun), bench.said()))
        return _judged(bench, well_s, said)
    except Exception as error:  # Whatever it is, the drill has failed by it.
        return Seen(0, 0, 0.0, (), None, said, f"{type(error).__name__}: {error}")
    finally:
        bench.end()


def _judged(bench: Bench, well_s: float | None, said: list[tuple[float, Any]]) -> Seen:
    with bench.client() as client:
        details = {job: client.job(job) for job in bench.jobs}
    ranks: dict[tuple[str, str], list[list[float]]] = {}
    for path in sorted(bench.records.iterdir()):
        job, _, rank, _ = path.name.split(".")
        times = [float(line) for line in path.read_text().splitlines()]
        ranks.setdefault((job, rank), []).append(times)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    died = twice = 0
    gap_s = 0.0
    for runs in ranks.values():
        runs.sort()
        died += len(runs) > 1 or now - runs[-1][-1] > 5.0
        twice += any(before[-1] > after[0] for before, after in pairwise(runs))
        every = sorted(moment for run in runs for moment in run)
        gap_s = max(gap_s, *(b - a for a, b in pairwise(every)))
    attempts = tuple(len(detail.attempts) for detail in details.values())
    ended = [job for job, detail in details.items() if detail.job.state is not State.RUNNING]
    problem = f"not running: {', '.join(ended)}" if ended else ""
    return Seen(died, twice, round(gap_s, 1), attempts, well_s, said, problem)


def _until(true: Callable[[], bool], otherwise: str, within_s: float = 600.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(LOOK_S)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drills", default=",".join(DRILLS), help="names, with commas")
    parser.add_argument("--parallel", type=int, default=1, help="clusters at a time")
    parser.add_argument("--into", type=Path, help="a file for all that was seen")
    options = parser.parse_args()
    names = options.drills.split(",")
    if unknown := [name for name in names if name not in DRILLS]:
        parser.error(f"there is no drill {unknown[0]}; there are {', '.join(DRILLS)}")
    if why := why_not():
        parser.error(why)
    with ThreadPoolExecutor(options.parallel) as pool:
        found = dict(zip(names, pool.map(drill, names), strict=True))
    for name, seen in found.items():
        well = "never" if seen.well_after_s is None else f"{seen.well_after_s:.0f} s"
        _say(
            f"\n{DRILLS[name][0]}: {seen.died} ranks died, {seen.twice} ran twice, the longest gap "
            f"{seen.gap_s} s, attempts {seen.attempts}, whole again after {well}  {seen.problem}"
        )
        for at_s, words in seen.said:
            _say(f"  {at_s:4} s  {json.dumps(words)}")
    if options.into:
        options.into.write_text(json.dumps({k: v._asdict() for k, v in found.items()}, indent=1))
    return int(any(seen.twice or seen.problem for seen in found.values()))


if __name__ == "__main__":
    sys.exit(main())
