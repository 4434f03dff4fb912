"""What it costs to copy checkpoints between two nodes: CPU time of controller and agents together.

    python -m benchmarks.fleet_copies --mib 256

One process has them all, so pieces cross no network; what Ray adds is not in it.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from tests.engines.fleet_story import FleetStory

from treadle.core.launch import Launch
from treadle.engines.node.checkpoint_records import CheckpointRecord, write_record


async def _copied(root: Path, mib: int) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    bench = FleetStory(root, ("n0", "n1"), apart=True)
    try:
        await bench.engine.adopt([])
        folder = root / "nodes" / "n0" / "checkpoints" / "a"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "weights").open("wb") as file:
            for _ in range(mib):
                file.write(bytes(1 << 20))
        write_record(folder, CheckpointRecord(attempt=1, written=True))
        launch = Launch(job="a", attempt=2, command=("true",), workdir="/", ranks=1, resumed=True)
        began, worked = time.monotonic(), time.process_time()
        await bench.engine.copies.provide(launch, ("n1",), lambda: True)
        spent = time.monotonic() - began, time.process_time() - worked
        copy = root / "nodes" / "n1" / "checkpoints" / "a" / "weights"
        assert copy.stat().st_size == mib << 20
        return spent
    finally:
        await bench.engine.close()
        await bench.world.clear_away()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=256)
    mib = parser.parse_args().mib
    with tempfile.TemporaryDirectory() as folder:
        clock_s, cpu_s = asyncio.run(_copied(Path(folder), mib))
    print(f"{mib} MiB in {clock_s:.1f} s, {cpu_s:.1f} s of CPU: {cpu_s * 1024 / mib:.1f} s a GiB")


if __name__ == "__main__":
    main()
