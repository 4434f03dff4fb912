"""Chaos on real Ray clusters of four nodes in network namespaces, by seed.

    python -m benchmarks.ray_chaos --seeds 0-99 --parallel 4 --into results

Needs root, `ip`, `nsenter`, `unshare` and the right to make network namespaces. Elsewhere
`--without-cuts` leaves out the nodes that are cut off, and does all the rest on loopback.
One line for each seed: what was done, and how the attempts ended; then a summary, which is also in
FOLDER/ray_chaos.json. If anything is wrong it is said, the folder of that run is kept, and the exit
code is 1; `--seeds N` plays the same plan again.
"""

import argparse
import importlib.util
import json
import os
import platform
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.on_ray.chaos_network import sweep, why_not
from tests.on_ray.chaos_plan import plan_of

if importlib.util.find_spec("ray") is None:
    sys.exit("chaos on Ray needs Ray, which is not installed; pip install 'treadle[ray]'")

from tests.on_ray.chaos_cluster import ChaosCluster
from tests.on_ray.chaos_run import Outcome, Run

KINDS = ("cut", "raylet", "agent", "controller", "driver")


def seeds_in(text: str) -> list[int]:
    """ "0-9,42" as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Chaos:
    """All seeds, on as many clusters as were asked for."""

    def __init__(self, seeds: list[int], folder: Path, *, cuts: bool) -> None:
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        for seed in seeds:
            self._left.put(seed)
        self._folder, self._cuts = folder, cuts
        self._lock = threading.RLock()  # whoever gives up holds it for ever
        self._clusters: dict[int, ChaosCluster] = {}
        self._numbers = iter(range(999))
        self.outcomes: list[Outcome] = []
        self.wrong: list[str] = []  # about clusters as wholes

    def work(self) -> None:
        """Play until no seed is left, on a cluster that is replaced if a run went wrong on it."""
        while not self._left.empty():
            with self._lock:
                number = next(self._numbers)
                cluster = self._clusters[number] = ChaosCluster(number, cuts=self._cuts)
            self._play_on(cluster, number)

    def _play_on(self, cluster: ChaosCluster, number: int) -> None:
        whole = False
        try:
            cluster.start()
            while (seed := self._next()) is not None:
                if self._play(cluster, seed).wrong:
                    break  # What it has left would be found by the next run too.
            else:
                wrong = cluster.leave()
                self.wrong += wrong
                whole = not wrong
        except Exception as error:
            self.wrong.append(f"cluster {number}: {type(error).__name__}: {error}")
            say(self.wrong[-1])
        finally:
            with self._lock:
                left = cluster.end(keep=not whole)
                del self._clusters[number]
            self.wrong += left if whole else [f"logs of Ray: {cluster.folder}", *left]

    def _next(self) -> int | None:
        try:
            return self._left.get_nowait()
        except queue.Empty:
            return None

    def give_up(self) -> None:
        """Leave nothing behind when somebody ends this process."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        try:
            self._lock.acquire()  # No cluster is made any more.
            for cluster in list(self._clusters.values()):
                cluster.end()
        finally:
            os._exit(1)

    def _play(self, cluster: ChaosCluster, seed: int) -> Outcome:
        folder = self._folder / f"{seed}"
        outcome = Run(cluster, plan_of(seed, cuts=self._cuts), folder).play()
        self.outcomes.append(outcome)
        say(str(outcome))
        for sentence in outcome.wrong:
            say(f"    {sentence}")
        if outcome.wrong:
            say(f"    kept for a look: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        return outcome


def summary(chaos: Chaos, *, cuts: bool, took_s: float) -> dict[str, object]:
    outcomes = sorted(chaos.outcomes, key=lambda each: each.plan.seed)
    struck = Counter(fault.kind for each in outcomes for fault in each.struck)
    missed = Counter(fault.kind for each in outcomes for fault in each.missed)
    ends = sum((each.ends for each in outcomes), Counter[str]())
    seconds = sorted(each.took_s for each in outcomes)
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "took_s": round(took_s),
        "runs": len(outcomes),
        "run_s": {
            "median": round(seconds[len(seconds) // 2], 1) if seconds else None,
            "longest": round(seconds[-1], 1) if seconds else None,
        },
        "cuts_left_out": not cuts,
        "faults": {kind: struck[kind] for kind in KINDS},
        "faults_without_a_victim": {kind: missed[kind] for kind in KINDS if missed[kind]},
        "jobs": sum(len(each.plan.works) for each in outcomes),
        "attempts": sum(ends.values()),
        "ends": dict(sorted(ends.items())),
        "longest_standstill_s": round(max((e.standstill_s for e in outcomes), default=0.0), 1),
        "slowest_controller_start_s": round(max((e.restart_s for e in outcomes), default=0.0), 1),
        "failed_seeds": [each.plan.seed for each in outcomes if each.wrong],
        "wrong": chaos.wrong,
        "seeds": [each.document() for each in outcomes],
    }


def table(found: dict[str, object]) -> str:
    """The summary for people."""
    rows = [(name, value) for name, value in found.items() if name not in ("seeds", "wrong")]
    return "\n".join(f"{name.replace('_', ' '):30} {_words(value)}" for name, value in rows)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{each} {name}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Chaos on real Ray clusters.")
    parser.add_argument("--seeds", type=seeds_in, default="0-99", help="such as 0-99 or 3,7")
    parser.add_argument("--parallel", type=int, default=1, help="clusters at a time")
    parser.add_argument("--into", type=Path, help="folder for ray_chaos.json and failed runs")
    parser.add_argument("--without-cuts", action="store_true", help="cut off no node")
    options = parser.parse_args()
    cuts = not options.without_cuts
    if cuts and (why := why_not()):
        sys.stderr.write(
            f"chaos cannot cut nodes off here: {why}; --without-cuts does the rest of it\n"
        )
        return 2
    if cuts:
        for each in sweep():
            say(f"removed {each} that was killed")
    else:
        say("no node is cut off: that is left out")
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tcr-"))  # Paths of sockets are short.
    chaos = Chaos(options.seeds, folder, cuts=cuts)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: chaos.give_up())
    workers = [threading.Thread(target=chaos.work, daemon=True) for _ in range(options.parallel)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for sentence in chaos.wrong:
        say(sentence)
    found = summary(chaos, cuts=cuts, took_s=time.monotonic() - begun)
    say(table(found))
    with suppress(OSError):
        folder.rmdir()  # if no run is kept
    if options.into is not None:
        options.into.mkdir(parents=True, exist_ok=True)
        (options.into / "ray_chaos.json").write_text(json.dumps(found, indent=1) + "\n")
    return int(bool(found["failed_seeds"] or chaos.wrong))


if __name__ == "__main__":
    sys.exit(main())
