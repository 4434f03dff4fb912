"""Every policy with the live decision around it, on the workloads of the league.

    python -m benchmarks.live_league --jobs 2 --json after.json [--bare] [--first N]
    python -m benchmarks.live_league --compare before.json after.json

The workloads and their settings are the league's, cut to the first jobs of FIRST; only the policy's
name differs. --bare leaves the live decision away. --compare lists the cells that got worse, and
exits with 1 if there are any.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from importlib import import_module
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from signal import ITIMER_PROF, SIGPROF, setitimer, signal
from typing import Any, Never

from treadle.core.actions import Action, Stop
from treadle.core.cluster import Cluster
from treadle.core.errors import TreadleError
from treadle.core.events import Event, JobFailed, JobFinished, JobStarted
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.league.workload_list import LeagueWorkload, chosen, standard
from treadle.policies.registry import BUILT_IN
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

Row = dict[str, Any]
Key = tuple[str, str]  # workload and policy

# Where the live decision's name of a policy is made, the newest first.
NAMING = ("treadle.policies.live.naming", "treadle.control.loop.live_policy")
# Jobs of the workloads that take longest; all of the others. The first and not every n-th, so that
# the load stays what it is. With these a run of all policies needs about 20 minutes of CPU time.
FIRST: Mapping[str, int] = {
    "rigid-philly": 1200,
    "rigid-muri": 300,
    "rigid-muri-long": 400,
    "rigid-itp": 400,
    "elastic-afs": 350,
    "mixed-muri": 600,
}
MEAN_MAX, P99_MAX = 1.02, 1.10  # after over before; above this a cell got worse


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation."""

    workload: str
    policy: str
    jobs: Workload
    cluster: Cluster
    settings: Settings
    limit_s: float


class CutOffError(BaseException):
    """The cell has had its CPU time; no `except Exception` of a policy may catch it."""


class Restarts:
    """Device-seconds between an order to start or change a job and its first step."""

    def __init__(self) -> None:
        self.device_s = 0.0
        self._begun: dict[JobId, tuple[float, int]] = {}  # when, and on how many devices

    def observe(
        self,
        now: float,
        events: Sequence[Event],
        actions: Sequence[Action],
        scheduler: Scheduler,  # noqa: ARG002
    ) -> None:
        for event in events:
            if isinstance(event, JobStarted | JobFailed | JobFinished):
                self._end(event.job, now)
        for action in actions:
            self._end(action.job, now)
            if not isinstance(action, Stop):
                self._begun[action.job] = (now, action.allocation.size)

    def _end(self, job: JobId, now: float) -> None:
        begun_at, size = self._begun.pop(job, (now, 0))
        self.device_s += size * (now - begun_at)


def run_cell(cell: Cell) -> Row:
    """The figures of one cell, or why it has none; in a process of its own."""
    signal(SIGPROF, _cut_off)
    setitimer(ITIMER_PROF, cell.limit_s)
    begun_s = time.process_time()
    row: Row = {"workload": cell.workload, "policy": cell.policy, "jobs": len(cell.jobs.jobs)}
    try:
        row |= _figures(cell)
    except CutOffError:
        row["trouble"] = f"cut off after {cell.limit_s:g} CPU s"
    except TreadleError as error:
        row["trouble"] = str(error)
    setitimer(ITIMER_PROF, 0.0)
    row["cpu_s"] = round(time.process_time() - begun_s, 3)
    row["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return row


def _cut_off(*_: object) -> Never:
    raise CutOffError


def _figures(cell: Cell) -> Row:
    restarts = Restarts()
    experiment = prepare(cell.jobs, cell.cluster, cell.settings, observers=(restarts.observe,))
    summary = experiment.finish()
    ended_s = [
        history.ended_at - history.submitted_at
        for history in experiment.recorder.histories.values()
        if history.status == "finished" and history.ended_at is not None
    ]
    left = summary.jobs - summary.finished - summary.failed
    return {
        "trouble": f"{left} of {summary.jobs} jobs did not end" if left else "",
        "finished": summary.finished,
        "mean_s": summary.jct_mean_s,
        "p99_s": summary.jct_p99_s,
        "longest_s": max(ended_s, default=None),
        "makespan_s": summary.makespan_s,
        "changes": summary.preemptions + summary.resizes + summary.moves,
        "preemptions": summary.preemptions,
        "resizes": summary.resizes,
        "moves": summary.moves,
        "restart_gpu_h": restarts.device_s / 3600.0,
        "redone_gpu_h": summary.lost_gpu_h,
        "decisions": summary.decisions,
        "decide_cpu_s": summary.decide_cpu_s,
    }


# -- all cells ------------------------------------------------------------------------------------


def live_name() -> Callable[[str], str]:
    """How a policy's name becomes that of the live decision around it."""
    for module in NAMING:
        try:
            found: Callable[[str], str] = import_module(module).wrapped
        except ModuleNotFoundError:
            continue
        return found
    raise SystemExit(f"no module of {', '.join(NAMING)} exists")


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    name: Callable[[str], str] = str if options.bare else live_name()
    for one in chosen(standard(), _words(options.workloads)):
        cut = _cut(one, options.first)
        jobs, cluster = cut.read(str(options.traces), one.seed)
        for policy in _words(options.policies) or BUILT_IN:
            settings = one.settings(name(policy), one.seed)
            yield Cell(one.name, policy, jobs, cluster, settings, options.limit)


def _cut(workload: LeagueWorkload, first: int) -> LeagueWorkload:
    """The workload with the fewest jobs that it, FIRST or the caller asks for."""
    limits = [limit for limit in (workload.first, FIRST.get(workload.name, 0), first) if limit]
    return replace(workload, first=min(limits, default=0))


def measure(options: argparse.Namespace) -> int:
    """Run all cells and write their rows; 1 if one has no figures."""
    begun_s = time.monotonic()
    rows: list[Row] = []
    context = get_context("forkserver")
    context.set_forkserver_preload(["treadle.sim.experiment"])
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        running = {pool.submit(run_cell, cell): cell for cell in cells(options)}
        for done in as_completed(running):
            rows.append(row := _row(done, running[done]))
            _write(options, rows)  # What is done survives if the rest is stopped.
            shown = row["trouble"] or f"mean {row['mean_s']:,.0f} s"
            where = f"{len(rows)}/{len(running)} {row['workload']} {row['policy']}"
            print(f"{where}: {shown}, {row['cpu_s']:.1f} CPU s", flush=True)
    cpu_s, wall_s = sum(row["cpu_s"] for row in rows), time.monotonic() - begun_s
    troubled = sum(bool(row["trouble"]) for row in rows)
    print(f"{len(rows)} cells, {troubled} without figures; {cpu_s:.0f} CPU s in {wall_s:.0f} s")
    return 1 if troubled else 0


def _row(done: Future[Row], cell: Cell) -> Row:
    error = done.exception()
    if error is None:
        return done.result()
    named = {"workload": cell.workload, "policy": cell.policy, "jobs": len(cell.jobs.jobs)}
    return {**named, "trouble": repr(error), "cpu_s": 0.0, "peak_mb": 0}


def _write(options: argparse.Namespace, rows: Sequence[Row]) -> None:
    if options.json is None:
        return
    ordered = sorted(rows, key=lambda row: (row["workload"], row["policy"]))
    document = {"live": not options.bare, "limit_s": options.limit, "rows": ordered}
    options.json.write_text(json.dumps(document, indent=1) + "\n")


# -- before and after -----------------------------------------------------------------------------


def compare(before: Mapping[Key, Row], after: Mapping[Key, Row]) -> int:
    """Print what changed; 1 if a cell got worse."""
    both = [key for key in before if key in after]
    whole = [key for key in both if _comparable(before[key], after[key])]
    print(f"{'policy':12}{'mean':>7}{'worst mean':>26}{'p99':>8}{'worst p99':>26}{'changes':>18}")
    for policy in sorted({policy for _, policy in whole}):
        print(_line(policy, [key for key in whole if key[1] == policy], before, after))
    print(_line("all", whole, before, after))
    for key in sorted(set(before) ^ set(after)):
        print(f"only {'before' if key in before else 'after'}: {' '.join(key)}")
    worse = [sentence for key in both for sentence in _worse(before[key], after[key])]
    print(f"worse by more than {MEAN_MAX - 1:.0%} in mean or {P99_MAX - 1:.0%} in p99:")
    print("\n".join(f"  {sentence}" for sentence in worse) or "  none")
    return 1 if worse or not whole else 0


def _line(
    policy: str, keys: Sequence[Key], before: Mapping[Key, Row], after: Mapping[Key, Row]
) -> str:
    if not keys:
        return f"{policy:12} no cell has figures before and after"
    shown = f"{policy:12}"
    for name in ("mean_s", "p99_s"):
        ratios = {key: after[key][name] / before[key][name] for key in keys}
        typical = exp(sum(map(log, ratios.values())) / len(ratios))
        worst = max(ratios, key=ratios.__getitem__)
        shown += f"{typical:8.3f}{ratios[worst]:8.3f} {worst[0]:17}"
    changes = [sum(rows[key]["changes"] for key in keys) for rows in (before, after)]
    return f"{shown}{changes[0]:8,} ->{changes[1]:8,}"


def _comparable(before: Row, after: Row) -> bool:
    same = before["jobs"] == after["jobs"]
    return same and not before["trouble"] and not after["trouble"]


def _worse(before: Row, after: Row) -> Iterator[str]:
    """In which ways one cell got worse."""
    where = f"{after['workload']} {after['policy']}"
    if before["jobs"] != after["jobs"]:
        yield f"{where}: not comparable, {before['jobs']} and then {after['jobs']} jobs"
    elif after["trouble"] and not before["trouble"]:
        yield f"{where}: {after['trouble']}"
    elif not before["trouble"]:
        for name, allowed in (("mean_s", MEAN_MAX), ("p99_s", P99_MAX)):
            if after[name] > allowed * before[name]:
                times = after[name] / before[name]
                yield f"{where}: {name} {before[name]:,.0f} -> {after[name]:,.0f} ({times:.3f})"


def _read(path: Path) -> dict[Key, Row]:
    return {(row["workload"], row["policy"]): row for row in json.loads(path.read_text())["rows"]}


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workloads", default="", help="names or patterns; all by default")
    parser.add_argument("--policies", default="", help="all of the registry by default")
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    parser.add_argument("--bare", action="store_true", help="without the live decision")
    parser.add_argument("--first", type=int, default=0, help="at most so many jobs of a workload")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds of a cell")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args()
    if options.compare:
        return compare(*map(_read, options.compare))
    return measure(options)


if __name__ == "__main__":
    raise SystemExit(main())
