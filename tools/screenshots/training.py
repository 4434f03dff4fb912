"""A job for pictures: it waits instead of computing, prints its steps, and goes on where it was.

    python3 training.py --steps 400 --step-s 0.1 --loss 6.9

Two devices do half as much again as one, and so on. Standard library only.
"""

import argparse
import math
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-s", type=float, default=0.1)
    parser.add_argument("--loss", type=float, default=6.9)
    parser.add_argument("--fails", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    size = int(os.environ.get("TREADLE_NUM_DEVICES", "1"))
    kept = Path(os.environ.get("TREADLE_CHECKPOINT_DIR", ".")) / "step"
    first = int(kept.read_text()) if kept.exists() else 0
    print(f"training on {size} device{'s' if size > 1 else ''} from step {first}", flush=True)
    noise = random.Random(asked.steps)
    for step in range(first + 1, asked.steps + 1):
        time.sleep(asked.step_s / size**0.6)
        loss = asked.loss * math.exp(-3.0 * step / asked.steps) + noise.uniform(0.5, 0.6)
        if step % 5 == 0:
            print(f"step {step}/{asked.steps} loss {loss:.3f} lr 3.0e-4", flush=True)
            kept.write_text(str(step))
        if asked.fails and step == 20:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(143)


if __name__ == "__main__":
    main()
