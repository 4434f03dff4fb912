"""Two training jobs on one GPU, alone, together without MPS, and together under our MPS daemon.

    python benchmarks/gpu/mps_check.py [--seconds 20] [--first transformer] [--second resnet]

It needs a GPU, torch and NVIDIA's nvidia-cuda-mps-control, and nothing else of Treadle than its
source tree. It prints steps a second and speeds relative to alone; then it checks that a client
may not allocate more than its limit, that the daemon goes with its last client, and that one which
does not answer is noticed.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.launch import AttemptId, Launch
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG
from treadle.engines.node.mps import PROGRAM, Mps

JOBS = Path(__file__).parent / "jobs"
STEP = re.compile(rb"step (\d+)/")
GPU = Allocation((Device("here", 0),))
GREEDY = "import torch; x = torch.empty(8 << 30, dtype=torch.uint8, device='cuda'); print('got it')"


class Job:
    """A training script that runs, and the steps that it has printed."""

    def __init__(self, name: str, environment: dict[str, str]) -> None:
        self.name = name
        self.seen: list[tuple[float, int]] = []
        self.process = subprocess.Popen(
            [sys.executable, str(JOBS / f"{name}.py"), "--steps", "1000000"],
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := STEP.match(line):
                self.seen.append((time.monotonic(), int(found[1])))

    def step_at(self, moment: float) -> float:
        """Its step at a moment, between the two lines around it."""
        before = [each for each in self.seen if each[0] <= moment]
        after = [each for each in self.seen if each[0] > moment]
        if not before or not after:
            return float((before or after or [(0.0, 0)])[-1][1])
        (a, low), (b, high) = before[-1], after[0]
        return low + (high - low) * (moment - a) / (b - a)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def speeds(names: list[str], seconds: float, environments: list[dict[str, str]]) -> list[float]:
    """Steps a second of these jobs together, once all of them have begun."""
    jobs = [Job(name, env) for name, env in zip(names, environments, strict=True)]
    try:
        give_up = time.monotonic() + 120
        while not all(len(job.seen) >= 3 for job in jobs):
            if time.monotonic() > give_up or any(job.process.poll() is not None for job in jobs):
                raise SystemExit(f"{names} did not begin to train")
            time.sleep(0.1)
        begin = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic() - 1.0
        return [(job.step_at(end) - job.step_at(begin)) / (end - begin) for job in jobs]
    finally:
        for job in jobs:
            job.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--first", default="transformer")
    parser.add_argument("--second", default="resnet")
    options = parser.parse_args()
    program = shutil.which(PROGRAM)
    if program is None:
        print(f"{PROGRAM} is not on PATH: MPS cannot be tried here")
        return 2
    names = [options.first, options.second]
    alone = [speeds([name], options.seconds, [{}])[0] for name in names]
    for name, speed in zip(names, alone, strict=True):
        print(f"alone        {name:12} {speed:8.2f} steps/s", flush=True)
    report("without MPS", names, alone, speeds(names, options.seconds, [{}, {}]))
    root = Path(tempfile.mkdtemp(prefix="mps"))
    try:
        return under_mps(root, program, names, alone, options.seconds)
    finally:
        processes.kill_tagged(TAG, f"{root.name}-*")
        shutil.rmtree(root, ignore_errors=True)


def under_mps(
    root: Path, program: str, names: list[str], alone: list[float], seconds: float
) -> int:
    mps = Mps(root, root.name, program)
    environments = []
    for name in ("a", "b"):
        (root / name).mkdir()
        environments.append(mps.join(launch(name), GPU, root / name))
    if mps.broken:
        print(f"MPS could not be used: {mps.broken}")
        return 1
    report("under MPS", names, alone, speeds(names, seconds, environments))
    mps.check()
    print(f"check        {mps.broken or 'the daemon answers'}")
    (root / "c").mkdir()
    limited = mps.join(launch("c", device_memory_gib=4.0), GPU, root / "c")
    told = subprocess.run(
        [sys.executable, "-c", GREEDY],
        env={**os.environ, **limited},
        capture_output=True,
        text=True,
        check=False,
    )
    refused = "out of memory" in told.stderr
    print(f"limit        8 GiB under a limit of 4 GiB: {'refused' if refused else 'NOT refused'}")
    for name in ("a", "b", "c"):
        mps.leave(AttemptId(name, 1))
    left = processes.tagged(TAG, f"{root.name}-*")
    print(f"last sharer  {len(left)} processes of the daemon are left")
    return 0 if hangs_are_noticed(root, program) and refused and not left else 1


def hangs_are_noticed(root: Path, program: str) -> bool:
    """Stop the daemon as a hang would: it must be noticed and killed."""
    mps = Mps(root, root.name, program)
    (root / "d").mkdir()
    mps.join(launch("d"), GPU, root / "d")
    for process in processes.tagged(TAG, f"{root.name}-*"):
        processes.send(process, signal.SIGSTOP)
    mps.check()
    left = processes.tagged(TAG, f"{root.name}-*")
    print(f"a hang       {mps.broken or 'NOT noticed'}; {len(left)} processes are left")
    return bool(mps.broken) and not left


def launch(job: str, device_memory_gib: float | None = None) -> Launch:
    return Launch(
        job=job,
        attempt=1,
        command=("true",),
        workdir="/",
        ranks=1,
        may_share=True,
        device_memory_gib=device_memory_gib,
    )


def report(how: str, names: list[str], alone: list[float], found: list[float]) -> None:
    relative = [speed / one for speed, one in zip(found, alone, strict=True)]
    for name, speed, share in zip(names, found, relative, strict=True):
        print(f"{how:12} {name:12} {speed:8.2f} steps/s  {share:.2f} of alone")
    print(f"{how:12} sum {sum(relative):.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
