"""Evaluates a checkpoint: `python -m lab.evaluate --checkpoint FILE --samples N`."""

import argparse
import time

options = argparse.ArgumentParser()
options.add_argument("--checkpoint", default="")
options.add_argument("--samples", type=int, default=100)
chosen = options.parse_args()
time.sleep(0.6)
for number in range(1, chosen.samples + 1):
    time.sleep(0.02)
    if number % 20 == 0:
        print(f"[{number}/{chosen.samples}] evaluated", flush=True)
