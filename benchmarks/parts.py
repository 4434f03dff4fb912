"""CPU budgets of single parts, each in this process: drawing and loading traces, reading logs.

    python benchmarks/parts.py

A budget is about three times what the part takes on a machine on which the calibration loop of
benchmarks/run.py takes 0.6 s. The best of three runs counts.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from treadle.control.learning.progress_lines import TAIL_BYTES, read
from treadle.core.cluster import Cluster
from treadle.failures.tail import tail
from treadle.traces.load import load
from treadle.traces.synthetic import generate

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("TREADLE_SHARED", ROOT.parent / "shared")) / "traces"
HOSTILE = ("|", "| 1", "[", "[ ", "epoch ", "step ", "9", "loss", "\r", "1/", "\x00\ufffd")
IMPORT_CLIENT = (
    "import time; begun_s = time.process_time(); from treadle.client import Client; "
    "print(time.process_time() - begun_s)"
)


def main() -> int:
    print(f"{'what':44} {'CPU s':>7} {'budget':>7}")
    over = 0
    for kind, budget_s in (("poisson", 0.25), ("philly", 0.35), ("aiturbo", 0.35)):
        over += _row(f"draw 10,000 jobs, {kind}", partial(_draw, kind), budget_s)
    philly = TRACES / "philly_dev_aug14_oct31.csv.gz"
    if philly.exists():
        over += _row("load Philly's 66,280 jobs", lambda: load(str(philly)), 2.4)
    else:
        print(f"load Philly's 66,280 jobs: skipped, no {philly}")
    with tempfile.TemporaryDirectory() as folder:
        log = _large_log(Path(folder))
        over += _row("read the end of a log of 1 GiB", lambda: tail(log), 0.05)
    for piece in HOSTILE:
        text = piece * (TAIL_BYTES // len(piece))
        over += _row(f"look for progress in {piece!r} again and again", partial(read, text), 0.1)
    over += _report("import the client", _import_client(), 0.5)
    return 1 if over else 0


def _row(what: str, work: Callable[[], object], budget_s: float) -> bool:
    return _report(what, min(_cpu_s(work) for _ in range(3)), budget_s)


def _report(what: str, cpu_s: float, budget_s: float) -> bool:
    late = cpu_s > budget_s
    print(f"{what:44} {cpu_s:7.3f} {budget_s:7.2f}{'  over budget' if late else ''}", flush=True)
    return late


def _cpu_s(work: Callable[[], object]) -> float:
    begun_s = time.process_time()
    work()
    return time.process_time() - begun_s


def _draw(kind: str) -> object:
    return generate(kind, jobs=10_000, seed=4, load=0.9, cluster=Cluster.grid(8, 8))


def _large_log(folder: Path) -> Path:
    log = folder / "job.log"
    with log.open("wb") as handle:
        handle.truncate(1 << 30)
        handle.seek(0, os.SEEK_END)
        handle.write(b"\n" + b"".join(b"step %d loss 2.0 lr 0.1\n" % n for n in range(20_000)))
    return log


def _import_client() -> float:
    """In new processes: an import costs something only once."""
    command = [sys.executable, "-c", IMPORT_CLIENT]
    return min(float(subprocess.check_output(command, text=True)) for _ in range(3))


if __name__ == "__main__":
    sys.exit(main())
