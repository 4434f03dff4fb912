"""How long training stands still when its members change, against a restart.

    python benchmarks/elastic.py [--width 512] [--repeats 3]

Three things in the same run, on the same model and batch:
- expand 1 -> 2 and 2 -> 3 with newcomers that are cold Python processes: the others train on;
- shrink 3 -> 2 and 2 -> 1;
- stop with a checkpoint, and start again with another number of members.

The stall is the time from the last step before a change to the first step after it, as the
members wrote it; for a restart, from the order to stop to the first step afterwards. Needed: an
expand within 1 iteration + 0.5 s and 10 times less than a restart; a shrink within 1 iteration +
0.3 s. Newcomers compete for the cores of this machine while they import torch: iterations get
longer then, but nothing stands still.
"""

import argparse
import json
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from treadle.core.member_facts import Changed, Phase, Target
from treadle.engines.node.first_members import environment
from treadle.engines.node.members import Fact, Members

WORKER = Path(__file__).parent / "elastic_worker.py"
SETTLE_STEPS = 15


@dataclass
class Attempt:
    """A small supervisor: cold processes, one line for each step."""

    folder: Path
    width: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    changes: list[tuple[float, Changed]] = field(default_factory=list)
    order: int = 0
    asked: int = 0  # members that it began with

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.meeting = "{}:{}".format(*self.listener.getsockname())
        self.store: subprocess.Popen[bytes] | None = None
        self.pipe, self.said = os.pipe()
        os.set_blocking(self.pipe, False)
        self.buffer = b""
        self.members = Members(
            self.meeting,
            launch=self.launch,
            dismiss=self.dismiss,
            report=self.report,
            meet=self.meet,
        )

    def meet(self, python: str) -> None:
        if self.store is None:
            listener = self.listener.fileno()
            command = [python, "-m", "treadle.train.meeting", *self.meeting.split(":")]
            own = {"TREADLE_CHANNEL": str(listener)}
            self.store = subprocess.Popen(command, env={**os.environ, **own}, pass_fds=(listener,))

    def launch(self, member: str, place: tuple[str, ...], descriptor: int, joins: bool) -> None:
        extra = environment(member, self.meeting, descriptor, joins=joins, asked=self.asked)
        checkpoints = {"TREADLE_CHECKPOINT_DIR": str(self.folder / "checkpoints")}
        self.processes[member] = subprocess.Popen(
            [sys.executable, str(WORKER), str(self.said), str(self.width), place[0]],
            env={**os.environ, **extra, **checkpoints, "OMP_NUM_THREADS": "1"},
            pass_fds=(descriptor, self.said),
        )

    def dismiss(self, member: str, at_once: bool) -> None:
        sys.stderr.write(f"{member} is dismissed\n")
        self.processes[member].send_signal(signal.SIGKILL if at_once else signal.SIGTERM)

    def report(self, fact: Fact) -> None:
        if isinstance(fact, Changed):
            self.changes.append((time.monotonic(), fact))

    def change(self, size: int) -> None:
        """Order so many members, and wait until they train together."""
        self.order += 1
        self.asked = self.asked or size
        places = tuple((f"cpu{number}",) for number in range(size))
        self.members.order(Target(self.order, places), time.monotonic())
        self.go_on(lambda: self.members.machine.phase is Phase.RUNNING and self.size() == size)
        seen = len(self.steps)
        self.go_on(lambda: len(self.steps) > seen + SETTLE_STEPS * size)

    def size(self) -> int:
        return len(self.members.machine.group)

    def stop(self) -> None:
        self.members.stop(time.monotonic())
        self.go_on(lambda: not self.processes)
        if self.store is not None:
            self.store.kill()

    def go_on(self, until: Any) -> None:  # noqa: ANN401
        while not until():
            with selectors.DefaultSelector() as selector:
                for descriptor in (*self.members.descriptors(), self.pipe):
                    selector.register(descriptor, selectors.EVENT_READ)
                for key, _ in selector.select(0.01):
                    if key.fd == self.pipe:
                        self.hear()
                    else:
                        self.members.readable(key.fd, time.monotonic())
            for member, process in list(self.processes.items()):
                if process.poll() is not None:
                    del self.processes[member]
                    self.members.ended(member, time.monotonic())
            due = self.members.due
            if due is not None and time.monotonic() >= due:
                self.members.tick(time.monotonic())
            assert self.processes or until(), "all members ended"

    def hear(self) -> None:
        *lines, self.buffer = (self.buffer + os.read(self.pipe, 1 << 16)).split(b"\n")
        self.steps += [json.loads(line) for line in lines]

    def stall_s(self, change: Changed) -> tuple[float, float]:
        """Of one change: the gap between its steps, and a usual iteration after it."""
        times = sorted({row["step"]: row["at"] for row in self.steps}.items())
        before = max(at for step, at in times if step <= change.step)
        after = [at for step, at in times if step > change.step][:SETTLE_STEPS]
        usual = statistics.median(b - a for a, b in pairwise(after))
        return after[0] - before, usual


def measure(width: int, repeats: int) -> dict[str, list[tuple[float, float, float]]]:
    """(gap, iteration, stall that the members measured) of each kind of change."""
    found: dict[str, list[tuple[float, float, float]]] = {"expand": [], "shrink": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            attempt = Attempt(Path(folder), width)
            attempt.change(1)
            for size in (2, 3, 2, 1):
                before = attempt.size()
                attempt.change(size)
                change = attempt.changes[-1][1]
                gap, usual = attempt.stall_s(change)
                kind = "expand" if size > before else "shrink"
                found[kind].append((gap, usual, change.stall_s))
                print(f"{before} -> {size}: gap {gap:.3f} s, iteration {usual:.3f} s")
            asked_at = time.monotonic()
            attempt.stop()
            again = Attempt(Path(folder), width)
            again.change(2)
            first = min(row["at"] for row in again.steps)
            assert min(row["step"] for row in again.steps) > 1, "it did not resume"
            found.setdefault("restart", []).append((first - asked_at, 0.0, 0.0))
            print(f"1 -> 2 by stop, checkpoint and restart: {first - asked_at:.2f} s")
            again.stop()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found = measure(options.width, options.repeats)
    median = {kind: statistics.median(gap for gap, _, _ in rows) for kind, rows in found.items()}
    usual = {kind: statistics.median(row[1] for row in rows) for kind, rows in found.items()}
    inside = {kind: statistics.median(row[2] for row in rows) for kind, rows in found.items()}
    for kind in ("expand", "shrink"):
        print(
            f"{kind}: median gap {median[kind]:.3f} s = iteration {usual[kind]:.3f} s + "
            f"{median[kind] - usual[kind]:.3f} s, halt, group and state {inside[kind]:.3f} s"
        )
    ratio = median["restart"] / median["expand"]
    print(f"restart: median {median['restart']:.2f} s, {ratio:.0f} times an expand")
    good = median["expand"] <= usual["expand"] + 0.5 and ratio >= 10
    good = good and median["shrink"] <= usual["shrink"] + 0.3
    print("within the limits" if good else "NOT within the limits")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
