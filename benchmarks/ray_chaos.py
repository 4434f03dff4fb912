"""Chaos on real Ray clusters of four nodes in network namespaces, by seed.

    python -m benchmarks.ray_chaos --seeds 0-99 --parallel 4 --into results

Needs root, `ip`, `nsenter`, `unshare` and the right to make network namespaces. Elsewhere
`--without-cuts` leaves out the nodes that are cut off, and does all the rest on loopback.
With `--joining` a node is missed and joins again while a controller takes over. With `--hanging`
the process of an agent is stopped too.
One line for each seed: what was done, and how the attempts ended; then a summary, which is also in
FOLDER/ray_chaos.json, from the first seed on. If anything is wrong it is said, the folder of that
run is kept, and the exit code is 1; `--seeds N` plays the same plan again.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from itertools import count
from pathlib import Path

from tests.on_ray.chaos_network import sweep, why_not
from tests.on_ray.chaos_plan import hanging, joining, plan_of

if importlib.util.find_spec("ray") is None:
    sys.exit("chaos on Ray needs Ray, which is not installed; pip install 'treadle[ray]'")

from tests.on_ray.chaos_cluster import ChaosCluster
from tests.on_ray.chaos_run import Outcome, Run

KINDS = ("cut", "raylet", "agent", "controller", "driver", "hang")


def seeds_in(text: str) -> list[int]:
    """ "0-9,42" as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Chaos:
    """All seeds, on as many clusters as were asked for."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._left = deque(options.seeds)
        self._folder, self._cuts, self._into = folder, not options.without_cuts, options.into
        self._joining, self._hanging = options.joining, options.hanging
        self._begun, self._within_s = time.monotonic(), options.within
        self._lock = threading.RLock()  # whoever gives up holds it for ever
        self._clusters: dict[int, ChaosCluster] = {}
        self._numbers = count()
        self._outcomes: list[Outcome] = []
        self._wrong: list[str] = []  # about clusters as wholes

    @property
    def _more(self) -> bool:
        return bool(self._left) and time.monotonic() - self._begun < self._within_s

    def work(self) -> None:
        """Play until no seed is left, on a cluster that is replaced if a run went wrong on it."""
        while self._more:
            with self._lock:
                number = next(self._numbers)
                cluster = self._clusters[number] = ChaosCluster(number, cuts=self._cuts)
            self._play_on(cluster, number)

    def _play_on(self, cluster: ChaosCluster, number: int) -> None:
        whole, played = False, 0
        try:
            cluster.start()
            while (seed := self._next()) is not None:
                played += 1
                if self._play(cluster, seed).wrong:
                    break  # What it has left would be found by the next run too.
            else:
                wrong = cluster.leave() if played else []
                self._wrong += wrong
                whole = not wrong
        except Exception as error:
            self._wrong.append(f"cluster {number}: {type(error).__name__}: {error}")
            say(self._wrong[-1])
        finally:
            with self._lock:
                left = cluster.end(keep=not whole)
                del self._clusters[number]
            self._wrong += left if whole else [f"logs of Ray: {cluster.folder}", *left]

    def _next(self) -> int | None:
        with self._lock:
            return self._left.popleft() if self._more else None

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
        plan = joining(seed) if self._joining else plan_of(seed, cuts=self._cuts)
        plan = hanging(plan) if self._hanging else plan
        outcome = Run(cluster, plan, folder).play()
        self._outcomes.append(outcome)
        say(str(outcome))
        for sentence in outcome.wrong:
            say(f"    {sentence}")
        if outcome.wrong:
            say(f"    kept for a look: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        self.write()
        return outcome

    def write(self) -> dict[str, object]:
        """The summary; it is put into the folder that was asked for."""
        with self._lock:
            found = self._summary()
            if self._into is not None:
                self._into.mkdir(parents=True, exist_ok=True)
                text = json.dumps(found, indent=1)
                (self._into / "ray_chaos.json").write_text(f"{text}\n")
        return found

    def _summary(self) -> dict[str, object]:
        outcomes = sorted(self._outcomes, key=lambda each: each.plan.seed)
        struck = Counter(fault.kind for each in outcomes for fault in each.struck)
        missed = Counter(fault.kind for each in outcomes for fault in each.missed)
        ends = sum((each.ends for each in outcomes), Counter[str]())
        seconds = sorted(each.took_s for each in outcomes) or [0.0]
        stood_s = max((each.standstill_s for each in outcomes), default=0.0)
        restart_s = max((each.restart_s for each in outcomes), default=0.0)
        return {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "took_s": round(time.monotonic() - self._begun),
            "runs": len(outcomes),
            "seeds_not_run": list(self._left),
            "run_s": {
                "median": round(seconds[len(seconds) // 2], 1),
                "longest": round(seconds[-1], 1),
            },
            "cuts_left_out": not self._cuts,
            "joins_while_a_controller_takes_over": self._joining,
            "agents_hang": self._hanging,
            "faults": {kind: struck[kind] for kind in KINDS},
            "faults_without_a_victim": {kind: missed[kind] for kind in KINDS if missed[kind]},
            "jobs": sum(len(each.plan.works) for each in outcomes),
            "attempts": sum(ends.values()),
            "ends": dict(sorted(ends.items())),
            "longest_standstill_s": round(stood_s, 1),
            "slowest_controller_start_s": round(restart_s, 1),
            "failed_seeds": [each.plan.seed for each in outcomes if each.wrong],
            "wrong": self._wrong,
            "seeds": [each.document() for each in outcomes],
        }


def table(found: dict[str, object]) -> str:
    """The summary for people."""
    rows = [(name, value) for name, value in found.items() if name != "seeds"]
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
    parser.add_argument(
        "--within", type=float, default=float("inf"), help="seconds; no run begins after that"
    )
    parser.add_argument("--without-cuts", action="store_true", help="cut off no node")
    parser.add_argument("--joining", action="store_true", help="see above; needs cuts")
    parser.add_argument("--hanging", action="store_true", help="see above")
    options = parser.parse_args()
    if options.joining and options.without_cuts:
        parser.error("--joining is about a node that is cut off")
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
    folder = Path(tempfile.mkdtemp(prefix="tcr-"))  # Paths of sockets are short.
    chaos = Chaos(options, folder)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: chaos.give_up())
    workers = [threading.Thread(target=chaos.work, daemon=True) for _ in range(options.parallel)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with suppress(OSError):
        folder.rmdir()  # if no run is kept
    found = chaos.write()
    say(table(found))
    return int(bool(found["failed_seeds"] or found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
