"""Sharing a device freely, in Muri's strict order and with turns: speeds relative to alone.

    python -m benchmarks.gpu.turns [--seconds 4] [--json FILE] [--small]

Runs each kind of job alone, then the groups with a job that keeps the device busy, each group under
all three ways within the same processes. Prints relative speeds and their sums, what `auto` would
choose, and what is predicted for free sharing from the share of time in which NVML calls the device
busy while each job is alone. --small: tiny shapes, to try it on a CPU.
"""

import argparse
import json
import multiprocessing as mp
import os
import sys
import threading
import time
from collections.abc import Sequence
from ctypes import c_double
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from benchmarks.gpu.stage_jobs import KINDS

from treadle.engines.node.turn_choice import BETTER
from treadle.engines.node.turn_link import TurnLink
from treadle.models.company.predictor import predict
from treadle.train.stages import Stages, TurnClient

GROUPS = (
    ("transformer", "transformer"),
    ("transformer", "tiny"),
    ("transformer", "lstm"),
    ("transformer", "augment"),
    ("transformer", "storage"),
    ("transformer", "augment", "storage"),
)
WAYS = ("free", "turns", "strict")
READY_S_MAX = 90.0
LOOK_S = 0.05  # between looks at how busy the device is


def work(kind: str, small: bool, steps: c_double, orders: Connection) -> None:
    """One job: train until told to end; an order is the environment of another turn server."""
    torch.manual_seed(os.getpid())
    if small:
        torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    stages = Stages(device=device)
    job = KINDS[kind](stages, device, small)
    for _ in range(3):
        next(job)
    if device.type == "cuda":
        torch.cuda.synchronize()
    orders.send("ready")
    while True:
        if orders.poll():
            order = orders.recv()
            if order is None:
                break
            if stages._turns is not None:
                stages._turns.leave()
            stages._turns = TurnClient.from_environment(order)
            orders.send("taken")
        next(job)
        stages.step_done()
        if device.type == "cuda" and int(steps.value) % 8 == 0:
            torch.cuda.current_stream().synchronize()  # as printing a loss does
        steps.value += 1
    job.close()


class Busy:
    """How busy the first GPU is, on average while this is open; None where it cannot be asked."""

    def __init__(self) -> None:
        self.share: float | None = None
        self._seen: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Busy":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._seen:
            self.share = sum(self._seen) / len(self._seen)

    def _look(self) -> None:
        try:
            import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415

            pynvml.nvmlInit()
            device = pynvml.nvmlDeviceGetHandleByIndex(0)
            while not self._ended.wait(LOOK_S):
                self._seen.append(pynvml.nvmlDeviceGetUtilizationRates(device).gpu / 100)
        except Exception as error:  # no library, no GPU
            sys.stderr.write(f"the device is not watched: {error}\n")


class Group:
    """The processes of one group."""

    def __init__(self, kinds: Sequence[str], small: bool) -> None:
        context = mp.get_context("fork")
        self.kinds = kinds
        self.steps = [context.RawValue(c_double, 0.0) for _ in kinds]
        self.orders: list[Connection] = []
        self.processes = []
        for kind, steps in zip(kinds, self.steps, strict=True):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(kind, small, steps, theirs), daemon=True)
            process.start()
            self.orders.append(ours)
            self.processes.append(process)
        for kind, ours in zip(kinds, self.orders, strict=True):
            if not ours.poll(READY_S_MAX):
                sys.exit(f"{kind} did not begin within {READY_S_MAX:.0f} s")
            ours.recv()

    def rates(self, link: TurnLink, seconds: float) -> list[float]:
        for number, orders in enumerate(self.orders):
            job = f"job{number}"
            env = {"TREADLE_JOB_ID": job, "TREADLE_ATTEMPT": "1"}
            orders.send({**env, **link.environment(job, 1, [0])})
        for orders in self.orders:
            orders.recv()
        time.sleep(min(1.0, seconds / 4))
        before, begun = [each.value for each in self.steps], time.monotonic()
        time.sleep(seconds)
        after, passed_s = [each.value for each in self.steps], time.monotonic() - begun
        return [(b - a) / passed_s for a, b in zip(before, after, strict=True)]

    def end(self) -> None:
        for orders in self.orders:
            orders.send(None)
        for process in self.processes:
            process.join(10)
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    links = {way: TurnLink(way) for way in WAYS}
    alone: dict[str, float] = {}
    busy: dict[str, float | None] = {}
    for kind in KINDS:
        group = Group([kind], options.small)
        with Busy() as seen:
            alone[kind] = group.rates(links["free"], options.seconds)[0]
        group.end()
        busy[kind] = seen.share
        print(f"alone  {kind:12} {alone[kind]:8.2f} steps/s, busy {seen.share}", flush=True)
    found = []
    for kinds in GROUPS:
        group = Group(kinds, options.small)
        row: dict[str, Any] = {"group": "+".join(kinds)}
        for way in WAYS:
            rates = group.rates(links[way], options.seconds)
            relative = [rate / alone[kind] for rate, kind in zip(rates, kinds, strict=True)]
            row[way] = [round(each, 3) for each in relative]
        again = group.rates(links["free"], options.seconds)  # the machine may have changed
        row["free again"] = [
            round(rate / alone[kind], 3) for rate, kind in zip(again, kinds, strict=True)
        ]
        group.end()
        free = (sum(row["free"]) + sum(row["free again"])) / 2
        if all(busy[kind] is not None for kind in kinds):
            predicted = predict([(busy[kind], None, None) for kind in kinds])
            row["predicted"] = [round(each, 3) for each in predicted]
            row["error"] = round(sum(predicted) / free - 1.0, 3)
        row["auto"] = "turns" if sum(row["turns"]) > BETTER * free else "free"
        found.append(row)
        sums = "  ".join(f"{way} {sum(row[way]):.2f} {row[way]}" for way in (*WAYS, "free again"))
        print(
            f"{row['group']:30} {sums}  auto: {row['auto']}  "
            f"predicted {row.get('predicted')}, {row.get('error')}",
            flush=True,
        )
    if options.json:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        body: dict[str, Any] = {
            "device": device,
            "seconds": options.seconds,
            "alone": alone,
            "busy": busy,
        }
        body["groups"] = found
        options.json.write_text(json.dumps(body, indent=1) + "\n")
    for link in links.values():
        link.close()


if __name__ == "__main__":
    main()
