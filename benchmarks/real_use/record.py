"""Records real use: a daemon, real short jobs of many sorts, and the journal that they left.

    python benchmarks/real_use/record.py [--out hour.jsonl.gz] [--pace 1.0]

138 commands (session.txt) are submitted over eight minutes, as people do: something is tried
briefly, then run at length, then swept over seeds, rates or sizes; data are prepared, models are
evaluated; some commands fail, are cancelled or meet their limit. It stands for an hour of a small
lab with everything seven times as long. What is kept are the facts of the journal, from which
`calibration.py --use` rebuilds what Treadle knew at each submission.
"""

import argparse
import gzip
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.client.client import Client
from treadle.wire.jobs import JobRequest

HERE = Path(__file__).parent
SLOTS = 4
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
CANCELLED_EVERY = 19  # jobs
# Nothing else is needed to know what was learned.
KEPT = (
    *("ControllerBegan", "PolicySet", "JobAccepted", "JobSubmitted", "JobUpdated", "JobsLearned"),
    *("JobStarted", "JobProgressed", "JobStopped", "JobCancelled", "AttemptEnded"),
    *("Decided", "Start", "Change", "Stop"),
)


class Submission(NamedTuple):
    pause_s: float  # before it
    limit_s: float | None
    command: tuple[str, ...]


def session() -> Iterator[Submission]:
    for line in (HERE / "session.txt").read_text().splitlines():
        if not line.startswith("#"):
            pause, limit, command = line.split(" ", 2)
            limit_s = None if limit == "-" else float(limit)
            yield Submission(float(pause), limit_s, tuple(shlex.split(command)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=HERE / "hour.jsonl.gz")
    parser.add_argument("--pace", type=float, default=1.0, help="a multiple of the pauses")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treadle-use-") as name:
        folder = Path(name)
        work, state = folder / "lab", folder / "state"
        shutil.copytree(HERE / "scripts", work)
        environment = {**os.environ, "TREADLE_SOCKET": str(folder / "socket")}
        treadle = [sys.executable, "-m", "treadle"]
        up = ["up", "--devices", str(SLOTS), "--state", str(state), "--no-port"]
        subprocess.run([*treadle, *up], env=environment, check=True)
        try:
            _play(Client(f"unix:{folder / 'socket'}", timeout_s=60.0), work, options.pace)
        finally:
            subprocess.run([*treadle, "down", "--cancel", "--yes"], env=environment, check=False)
        _write(state / "treadle.db", options.out, str(work))
    print(f"{options.out}: {options.out.stat().st_size / 1e3:.0f} kB")
    return 0


def _play(client: Client, work: Path, pace: float) -> None:
    jobs = []
    for pause_s, limit_s, command in session():
        time.sleep(pace * pause_s)
        request = JobRequest(
            command=command, workdir=str(work), env={"PATH": PATH}, time_limit_s=limit_s
        )
        jobs.append(client.submit(request).id)
        if len(jobs) % CANCELLED_EVERY == 0:
            client.cancel(jobs[-1])
    client.wait(jobs)


def _write(store: Path, out: Path, work: str) -> None:
    """The facts, one in a line: moments, and the body as it is stored."""
    marks = ",".join("?" * len(KEPT))
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    rows = connection.execute(
        f"select at, wall_at, body from journal where kind in ({marks}) order by id", KEPT
    ).fetchall()
    with gzip.open(out, "wt", compresslevel=9) as file:
        for at, wall_at, body in rows:
            plain = body.replace(work, "/home/ada/lab").replace(PATH, "/usr/bin:/bin")
            file.write(f"{at!r} {wall_at!r} {plain}\n")


if __name__ == "__main__":
    sys.exit(main())
