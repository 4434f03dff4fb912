"""Chaos about one rule, by seed: no two attempts of a job run at a time, on whatever nodes.

    python -m benchmarks.fence_chaos --seeds 0-999

The fleet engine is real. Its nodes are simulated, on a clock that skips all waiting
(tests/engines/fence_chaos.py): a seed of four and a half minutes takes less than a second. Exit
code 1 if something was wrong.
"""

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.engines.fence_chaos import play


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0-999", help="FIRST-LAST")
    first, _, last = parser.parse_args().seeds.partition("-")
    logging.disable(logging.CRITICAL)
    begun, failed, launches = time.monotonic(), 0, 0
    for seed in range(int(first), int(last or first) + 1):
        with tempfile.TemporaryDirectory() as folder:
            wrong, count = play(seed, Path(folder))
        launches += count
        failed += bool(wrong)
        for sentence in wrong:
            print(f"seed {seed}: {sentence}", flush=True)
    seeds = int(last or first) - int(first) + 1
    took_s = time.monotonic() - begun
    print(f"{seeds} seeds, {failed} failed, {launches} launches, {took_s:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
