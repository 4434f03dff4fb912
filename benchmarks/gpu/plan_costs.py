"""What execution plans cost on one GPU: a transformer of about a billion parameters.

    python -m benchmarks.gpu.plan_costs [--json FILE] [--small]
    python -m benchmarks.gpu.plan_costs --fit benchmarks/gpu/plan_costs_h200.json

Measures seconds a step and peak memory of: plain; recomputation; accumulation over 2, 4 and 8
micro-batches; the optimizer on the host with 2, 4, 8 and 16 cores. --fit: fits the plan model to
figures that were measured and prints its error for each plan. --small: a tiny model, to try it on a
CPU.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from treadle.core.plan import Plan
from treadle.models.plans.fit import Run, fit, predict
from treadle.models.plans.iteration_time import Factors, Links, ModelFacts, ModelType
from treadle.train.offload import HostStep
from treadle.train.parallelize import Blueprint, parallelize

STEPS, WARM = 5, 2
HOST_STEPS, HOST_WARM = 2, 1


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.w1, self.w2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, -1, 64).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        after: Tensor = self.w2(nn.functional.gelu(self.w1(self.between(x))))
        return x + after


def model(small: bool) -> nn.Sequential:
    width, layers, words = (128, 2, 100) if small else (2048, 18, 16000)
    blocks = [Block(width) for _ in range(layers)]
    return nn.Sequential(nn.Embedding(words, width), *blocks, nn.Linear(width, words, bias=False))


def seconds(step: Callable[[], None], device: torch.device, warm: int, steps: int) -> float:
    for _ in range(warm):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - begun) / steps


def measured(plan: Plan, cores: int | None, device: torch.device, small: bool) -> dict[str, float]:
    torch.manual_seed(0)
    batch, length = (8, 32) if small else (16, 512)
    words = torch.randint(100, (batch, length + 1), device=device)
    with torch.device(device):
        made = model(small)
    parallel = parallelize(Blueprint.of(made), plan, device, pristine=made)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-4, fused=True)
    host = HostStep(optimizer) if plan.offload else None
    if cores is not None:
        torch.set_num_threads(cores)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def step() -> None:
        for piece in words.chunk(plan.accumulate):
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = parallel(piece[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), piece[:, 1:].flatten())
            torch.autograd.backward(loss / plan.accumulate)
        if host is not None:
            host.step()
        else:
            optimizer.step()
        optimizer.zero_grad()

    often = (HOST_WARM, HOST_STEPS) if plan.offload else (WARM, STEPS)
    step_s = seconds(step, device, *often)
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
    return {"step_s": step_s, "memory_gib": memory}


# What each micro-batch takes however small it is: launching its kernels. The least mean error of
# 0 to 3 ms on the figures of plan_costs_h200.json.
FIXED_MS = 2.0
FREE = ("forward_ms", "k_opt_off", "k_const", "k_off", "recompute", "k_bwd")


def plans() -> dict[str, tuple[Plan, int | None]]:
    """Each plan by its name, and with how many cores."""
    found: dict[str, tuple[Plan, int | None]] = {"plain": (Plan(), None)}
    found["recompute"] = (Plan(recompute=True), None)
    found |= {f"accumulate {n}": (Plan(accumulate=n), None) for n in (2, 4, 8)}
    return found | {f"offload, {n} cores": (Plan(offload=True), n) for n in (16, 8, 4, 2)}


def fitted(path: Path) -> None:
    body = json.loads(path.read_text())
    known = plans()
    runs = {
        name: Run(known[name][0], (1,), row["step_s"] * 1e3, cores=float(known[name][1] or 1))
        for name, row in body["plans"].items()
    }
    facts = ModelFacts("1B", body["parameters"], 16, 512, 2048, 18, 32, 30.0, FIXED_MS)
    begin = ModelType(facts, Links(300, 20, 30), Factors(2.0, 1.0, 1e-2, 1.0, 1.0, 1.0, 1.0))
    found = fit(begin, list(runs.values()), free=FREE)
    for name, run in runs.items():
        said = predict(found.model, run).iteration_ms
        print(f"{name:18} measured {run.iteration_ms:7.1f} ms  fitted {said:7.1f} ms")
    print(f"mean error {found.error:.1%}, worst {found.worst:.1%}, on the runs it was fitted to")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--fit", type=Path)
    options = parser.parse_args()
    if options.fit:
        fitted(options.fit)
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    here = len(os.sched_getaffinity(0))
    count = sum(each.numel() for each in model(options.small).parameters())
    print(f"{count / 1e9:.3f} billion parameters on {device}", flush=True)
    found = {}
    for name, (plan, cores) in plans().items():
        if cores is not None and cores > max(here, 2):
            continue
        found[name] = measured(plan, cores, device, options.small)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        row = found[name]
        print(f"{name:18} {row['step_s']:8.4f} s  {row['memory_gib']:6.2f} GiB", flush=True)
    if options.json:
        body = {"device": str(device), "parameters": count, "plans": found}
        if device.type == "cuda":
            body["device"] = torch.cuda.get_device_name()
        options.json.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
