"""Chaos on a real Ray cluster of four nodes in network namespaces, by seed.

    python -m benchmarks.ray_chaos --seeds 0-99 --clusters 2

Needs root, `ip` and `nsenter`. One line for each seed: what was done, and how the attempts ended.
If anything is wrong it is said, the folder of that run is kept, and the exit code is 1;
`--seeds N` plays the same plan again.
"""

import argparse
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.on_ray.chaos_cluster import ChaosCluster
from tests.on_ray.chaos_network import why_not
from tests.on_ray.chaos_plan import plan_of
from tests.on_ray.chaos_run import Outcome, Run


def seeds_in(text: str) -> list[int]:
    """ "0-9,42" as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Chaos:
    """All seeds, on as many clusters as were asked for."""

    def __init__(self, seeds: list[int], folder: Path) -> None:
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        for seed in seeds:
            self._left.put(seed)
        self._folder = folder
        self.clusters: dict[int, ChaosCluster] = {}
        self.outcomes: list[Outcome] = []
        self.wrong: list[str] = []  # about clusters as wholes

    def work(self, number: int) -> None:
        """Play on one cluster until no seed is left."""
        cluster = self.clusters[number] = ChaosCluster(number)
        whole = False
        try:
            cluster.start()
            while not self._left.empty():
                outcome = self._play(cluster, self._left.get())
                if outcome.wrong:  # What it has left would be found by the next run too.
                    break
            else:
                wrong = cluster.leave()
                self.wrong += wrong
                whole = not wrong
        except Exception as error:
            self.wrong.append(f"cluster {number}: {type(error).__name__}: {error}")
            say(self.wrong[-1])
        finally:
            left = cluster.end(keep=not whole)
            del self.clusters[number]
            self.wrong += left if whole else [f"logs of Ray: {cluster.folder}", *left]
        if not whole and not self._left.empty():
            self.work(number + 100)

    def give_up(self) -> None:
        """Leave nothing behind when somebody ends this process."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while not self._left.empty():
            self._left.get()
        for cluster in list(self.clusters.values()):
            cluster.end()
        os._exit(1)

    def _play(self, cluster: ChaosCluster, seed: int) -> Outcome:
        folder = self._folder / f"{seed}"
        outcome = Run(cluster, plan_of(seed), folder).play()
        self.outcomes.append(outcome)
        say(str(outcome))
        for sentence in outcome.wrong:
            say(f"    {sentence}")
        if outcome.wrong:
            say(f"    kept for a look: {folder}")
        return outcome


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Chaos on a real Ray cluster.")
    parser.add_argument("--seeds", default="0-99", help="such as 0-99 or 3,7")
    parser.add_argument("--clusters", type=int, default=1, help="at a time")
    options = parser.parse_args()
    if why := why_not():
        sys.stderr.write(f"chaos needs a network of its own: {why}\n")
        return 2
    begun = time.monotonic()
    chaos = Chaos(seeds_in(options.seeds), Path(tempfile.mkdtemp(prefix="tcr-")))
    signal.signal(signal.SIGTERM, lambda *_: chaos.give_up())
    workers = [
        threading.Thread(target=chaos.work, args=(number,), daemon=True)
        for number in range(options.clusters)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for sentence in chaos.wrong:
        say(sentence)
    bad = sorted(each.plan.seed for each in chaos.outcomes if each.wrong)
    say(
        f"{len(chaos.outcomes)} runs in {time.monotonic() - begun:.0f} s, "
        f"{len(bad)} with faults{f': {bad}' if bad else ''}"
    )
    return int(bool(bad or chaos.wrong))


if __name__ == "__main__":
    sys.exit(main())
