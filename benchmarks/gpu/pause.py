"""What pausing costs on one GPU, and a short job behind a large one that keeps no checkpoints.

    python benchmarks/gpu/pause.py [--gib 4,20] [--large 60] [--devices N] > pause.json

Real processes, a real daemon in a temporary folder, the GPU of this machine (`--devices N`: CPU
slots, a dry run). Jobs are jobs/ballast.py: a training whose losses are the same in each run,
beside a block of memory. It takes four minutes on an H200 and prints one JSON object:

    pauses      for each size of the block and each way: seconds until it is paused and until it
                runs again, GiB of the GPU before and meanwhile
    neighbour   steps a second of one job alone, and beside a frozen and a suspended one
    behind      a short job of high priority that comes while the large one runs, once where both
                fit and once where they do not: seconds until it has devices, who made the large
                one pause, and whether its losses are those of a run that nothing disturbed
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from batch import daemon  # type: ignore[import-not-found]

from treadle.client.client import Client
from treadle.core.errors import TreadleError
from treadle.wire.jobs import JobDetail, JobRequest, State
from treadle.wire.problems import NotFoundError

SCRIPT = Path(__file__).with_name("jobs") / "ballast.py"
LOOK_S, WITHIN_S = 0.01, 240.0
MADE_WAY_S = 3.0  # after which the large job is paused by hand
STEP = re.compile(r"step (\d+)/")
Report = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", default="4,20", help="sizes of the block")
    parser.add_argument("--large", type=float, default=60.0, help="GiB of the large job")
    parser.add_argument("--gpu-gib", type=float, default=139.0, help="of the GPU")
    parser.add_argument("--steps", type=int, default=3000, help="of the large job")
    parser.add_argument("--width", type=int, default=4096, help="of the network")
    parser.add_argument("--devices", type=int, help="CPU slots instead of GPUs")
    options = parser.parse_args()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    report: Report = {"pauses": [], "neighbour": {}, "behind": []}
    try:
        with daemon(options.devices) as client:
            bench = Bench(client, options.width, options.devices is not None)
            for gib in map(float, options.gib.split(",")):
                print(f"pauses of {gib:g} GiB", file=sys.stderr, flush=True)
                report["pauses"] += bench.pauses(gib)
            report["behind"] += bench.behind(options.large, options.gpu_gib, options.steps)
            print("neighbour", file=sys.stderr, flush=True)
            report["neighbour"] = bench.neighbour()
    finally:  # What was measured before something failed is worth knowing.
        print(json.dumps(report, indent=1), flush=True)
    return 0


class Bench:
    """Jobs on the device of one daemon."""

    def __init__(self, client: Client, width: int, slots: bool) -> None:
        self.client, self._width, self._slots = client, width, slots

    # -- what is measured -------------------------------------------------------------------------

    def pauses(self, gib: float) -> list[Report]:
        job = self.submit(gib, 10**7)
        self.steps(job, 50)
        ways = ("frozen", "frozen", "suspended", "suspended")
        found = [{"gib": gib, "how": how, **self.pause(job, how)} for how in ways]
        self.end(job)
        return found

    def pause(self, job: str, how: str) -> Report:
        """Pause it and let it go on; what that took."""
        before_gib, began = self.used_gib(), time.monotonic()
        try:
            self.client.pause(job, how=how)
        except TreadleError as error:
            return {"refused": str(error)}
        detail = self.until(job, lambda one: one.job.state is State.PAUSED or bool(one.not_paused))
        if detail.job.state is not State.PAUSED:
            return {"refused": detail.not_paused}
        self.until(job, lambda one: one.job.cause == "paused")
        paused_s, meanwhile_gib = time.monotonic() - began, self.used_gib()
        began = time.monotonic()
        self.client.resume(job)
        self.until(job, lambda one: one.job.state is State.RUNNING)
        runs_s, at = time.monotonic() - began, self.step(job)
        self.steps(job, at + 25)
        return {
            "paused_after_s": round(paused_s, 3),
            "runs_after_s": round(runs_s, 3),
            "used_gib": before_gib,
            "used_meanwhile_gib": meanwhile_gib,
        }

    def neighbour(self) -> Report:
        other = self.submit(1.0, 10**7)
        found: Report = {"alone_steps_per_s": self.speed(other)}
        for how in ("frozen", "suspended"):
            try:
                self.client.pause(other, how=how)
            except TreadleError as error:
                found[how] = {"refused": str(error)}
                continue
            self.until(other, lambda one: one.job.cause == "paused" or bool(one.not_paused))
            job = self.submit(1.0, 10**7)
            found[f"beside_{how}_steps_per_s"] = self.speed(job)
            self.end(job)
            self.client.resume(other)
            self.until(other, lambda one: one.job.state is State.RUNNING)
        self.end(other)
        return found

    def behind(self, large_gib: float, gpu_gib: float, steps: int) -> Iterator[Report]:
        print("undisturbed", file=sys.stderr, flush=True)
        job = self.submit(large_gib, steps)
        self.until(job, lambda one: one.job.state.ended)
        undisturbed = self.lines(job)
        for needs_gib in (1.0, gpu_gib - large_gib * 0.7):
            print(f"behind, {needs_gib:g} GiB", file=sys.stderr, flush=True)
            large = self.submit(large_gib, steps, gpu_memory_gib=large_gib + 2.0)
            self.steps(large, 50)
            began = time.monotonic()
            short = self.submit(
                max(0.5, needs_gib - 4.0), 200, gpu_memory_gib=needs_gib, priority=10
            )
            by, how = "scheduler", "frozen" if needs_gib + large_gib < gpu_gib else "suspended"
            while not self.has_devices(short):
                time.sleep(LOOK_S)
                late = time.monotonic() - began > MADE_WAY_S
                if late and by == "scheduler" and self.state(large) is State.RUNNING:
                    by, began = "user", time.monotonic()
                    self.client.pause(large, how=how)
            began_s = time.monotonic() - began
            paused = self.client.job(large).job.pause
            self.steps(short, 1)
            first_step_s = time.monotonic() - began
            self.until(short, lambda one: one.job.state.ended)
            if by == "user":
                self.client.resume(large)
            ended = self.until(large, lambda one: one.job.state.ended)
            yield {
                "large_gib": large_gib,
                "short_needs_gib": needs_gib,
                "by": by,
                "how": None if paused is None else str(paused.how),
                "devices_after_s": round(began_s, 3),
                "first_step_after_s": round(first_step_s, 3),
                "short": str(self.state(short)),
                "large": str(ended.job.state),
                "large_attempts": ended.job.attempts,
                "lines": len(undisturbed),
                "same_losses": self.lines(large) == undisturbed,
            }

    # -- jobs -------------------------------------------------------------------------------------

    def submit(
        self,
        gib: float,
        steps: int,
        *,
        gpu_memory_gib: float | None = None,
        priority: int = 0,
    ) -> str:
        words = ("--steps", str(steps), "--gib", str(gib), "--width", str(self._width))
        request = JobRequest(
            command=(sys.executable, str(SCRIPT), *words),
            workdir=str(SCRIPT.parent),
            env={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
            retries=0,
            guaranteed=False,  # So that the scheduler may pause it.
            exclusive=True,  # Else it is a client of MPS, whose memory cannot be moved.
            gpu_memory_gib=None if self._slots else gpu_memory_gib,
            priority=priority,
        )
        return self.client.submit(request).id

    def until(self, job: str, true: Callable[[JobDetail], bool]) -> JobDetail:
        give_up_at = time.monotonic() + WITHIN_S
        while not true(detail := self.client.job(job)):
            if time.monotonic() > give_up_at:
                said = "\n".join(self.lines(job)[-5:])
                sys.exit(f"job {job} is {detail.job.state}: {detail.job.because}\n{said}")
            time.sleep(LOOK_S)
        return detail

    def state(self, job: str) -> State:
        return self.client.job(job).job.state

    def has_devices(self, job: str) -> bool:
        return self.state(job) is State.RUNNING or self.state(job).ended

    def end(self, job: str) -> None:
        self.client.cancel(job)
        self.until(job, lambda one: one.job.state.ended)

    def lines(self, job: str) -> list[str]:
        return [line for line in self.client.log(job).text.splitlines() if line]

    def step(self, job: str) -> int:
        with suppress(NotFoundError):  # It has no attempt yet.
            found = STEP.findall(self.client.log(job, offset=-4096).text)
            return int(found[-1]) if found else 0
        return 0

    def steps(self, job: str, many: int) -> None:
        give_up_at = time.monotonic() + WITHIN_S
        while self.step(job) < many:
            if time.monotonic() > give_up_at or self.state(job).ended:
                sys.exit(f"job {job} made no steps: {self.lines(job)[-5:]}")
            time.sleep(LOOK_S)

    def speed(self, job: str) -> float:
        self.steps(job, 100)
        began, first = time.monotonic(), self.step(job)
        time.sleep(4.0)
        return round((self.step(job) - first) / (time.monotonic() - began), 2)

    def used_gib(self) -> float | None:
        """Of the GPU, by all processes."""
        if self._slots:
            return None
        words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return round(int(said.split()[0]) / 1024, 2)


if __name__ == "__main__":
    sys.exit(main())
