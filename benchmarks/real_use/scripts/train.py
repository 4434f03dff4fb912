"""A small training: it waits for a device as a real one does, and computes a little on the host."""

import argparse
import random
import time
from pathlib import Path

options = argparse.ArgumentParser()
options.add_argument("config", nargs="?", default="")
options.add_argument("--epochs", type=int, default=5)
options.add_argument("--steps-per-epoch", type=int, default=10)
options.add_argument("--batch-size", type=int, default=32)
options.add_argument("--model", default="small", choices=("small", "base", "large"))
options.add_argument("--lr", type=float, default=0.1)
options.add_argument("--seed", type=int, default=0)
options.add_argument("--out", default="")
options.add_argument("--patience", type=int, default=0)
options.add_argument("--quiet", action="store_true")
chosen = options.parse_args()
chance = random.Random(chosen.seed)
time.sleep(0.4 + 0.4 * chance.random())
step_s = {"small": 0.02, "base": 0.05, "large": 0.12}[chosen.model]
step_s *= (8.0 + chosen.batch_size) / 40.0
loss, best, worse = 2.0, 9.0, 0
total = chosen.epochs * chosen.steps_per_epoch
for step in range(1, total + 1):
    time.sleep(step_s * (0.9 + 0.2 * chance.random()))
    loss = 0.2 + (loss - 0.2) * (1.0 - 0.3 * chosen.lr / chosen.epochs)
    seen = loss + 0.05 * chance.random()
    if step % chosen.steps_per_epoch == 0:
        epoch = step // chosen.steps_per_epoch
        if not chosen.quiet:
            print(f"epoch {epoch}/{chosen.epochs} loss {seen:.4f}", flush=True)
        worse = 0 if seen < best else worse + 1
        best = min(best, seen)
        if chosen.patience and worse >= chosen.patience:
            print("no better for some epochs: stopped", flush=True)
            break
if chosen.out:
    Path(chosen.out).parent.mkdir(parents=True, exist_ok=True)
    Path(chosen.out).write_text(f"{loss}\n")
    time.sleep(0.3)
