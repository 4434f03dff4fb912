"""What it costs to observe jobs: CPU time of the observer beside real processes.

    python benchmarks/observer.py [--processes 64] [--attempts 1] [--looks 50]

It starts so many real processes, in as many attempts, and looks at them as the local engine does.
One look every 2 s must take less than 1 % of a core (20 ms). GPUs of this machine are read as well
if there are any.
"""

import argparse
import asyncio
import subprocess
import sys
import time

from treadle.control.loop.clock import MonotonicClock
from treadle.core.errors import EngineError
from treadle.core.launch import AttemptId
from treadle.engines.node.devices import CpuSlots, DeviceSource
from treadle.engines.node.gpus import NvmlGpus
from treadle.engines.node.observer import LOOK_EVERY_S, Observer, Watched
from treadle.engines.node.process_load import LIST_EVERY_S

BUDGET = 0.01  # of a core
CODE = "import sys; data = bytearray(8 << 20); sys.stdin.read()"


class Listed:
    """A group of processes whose list is at hand, so that only the reading is measured."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids

    def pids(self) -> list[int]:
        return self._pids


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--looks", type=int, default=50)
    options = parser.parse_args()
    running = [
        subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE)
        for _ in range(options.processes)
    ]
    try:
        return asyncio.run(measure([process.pid for process in running], options))
    finally:
        for process in running:
            process.kill()
            process.wait()


async def measure(pids: list[int], options: argparse.Namespace) -> int:
    source = _source()
    watched = [
        Watched(
            AttemptId(str(number), 1),
            Listed(pids[number :: options.attempts]),  # type: ignore[arg-type]
            (number % max(1, len(source.uuids)),),
            1.0,
        )
        for number in range(options.attempts)
    ]
    observer = Observer(source, MonotonicClock(), lambda: watched)
    observer.look_now(watched, 0.0)  # Opens the files of all processes.
    used, began = time.process_time(), time.perf_counter()
    for look in range(1, options.looks + 1):
        # From minute 1 on, when the processes are listed every few looks only.
        observer.look_now(watched, 60.0 + look * LOOK_EVERY_S)
    cpu_s = (time.process_time() - used) / options.looks
    wall_s = (time.perf_counter() - began) / options.looks
    await observer.close()
    share = cpu_s / LOOK_EVERY_S
    print(f"{len(pids)} processes in {options.attempts} attempts, {source.kind} devices")
    print(f"processes are listed every {LIST_EVERY_S:g} s, a look every {LOOK_EVERY_S:g} s")
    print(f"a look: {cpu_s * 1000:.2f} ms of CPU time, {wall_s * 1000:.2f} ms")
    print(f"share of a core: {share:.3%} (budget {BUDGET:.0%})")
    return 0 if share < BUDGET else 1


def _source() -> DeviceSource:
    try:
        return NvmlGpus()
    except EngineError:
        return CpuSlots(8)


if __name__ == "__main__":
    sys.exit(main())
