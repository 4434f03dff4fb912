"""What was said of each job of a recorded hour when it was submitted, and what became of it.

The journal (record.py) is applied fact by fact by the code that rebuilds a controller, so the
answers are those that `treadle submit` prints.
"""

import gzip
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from re import sub
from statistics import median
from typing import NamedTuple

import msgspec

from treadle.control.api.job_progress import length_of
from treadle.control.jobs import question_about
from treadle.control.jobs.replay import Rebuilt
from treadle.core.cluster import Cluster, Node
from treadle.core.scheduler import Scheduler
from treadle.store.rows import JournalRow
from treadle.testing.builders import policy
from treadle.wire.jobs import Estimate

HOUR = Path(__file__).parent / "hour.jsonl.gz"
SLOTS = 64  # more than any recorded node has


class Said(NamedTuple):
    """One job: what was said of its length, and how long it took."""

    job: str
    command: tuple[str, ...]
    estimate: Estimate
    ran_s: float

    @property
    def held(self) -> bool:
        low_s, high_s = self.estimate.low_s, self.estimate.high_s
        return low_s is not None and high_s is not None and low_s <= self.ran_s <= high_s

    @property
    def ratio(self) -> float:
        """Of the ends of the range, in tenths of a second."""
        return (self.estimate.high_s or 0.0) / max(0.1, self.estimate.low_s or 0.0)


class _Line(msgspec.Struct):
    kind: str
    job: str = ""


def report(path: Path = HOUR) -> str:
    """How often ranges held that were printed at submission, by what they rest on."""
    rows = said(path)
    known = [row for row in rows if row.estimate.known]
    by_basis: dict[str, list[Said]] = {"all": known}
    for row in known:
        basis = sub(r"\d+ | and its time limit|, .*", "", row.estimate.because).replace(
            "runs", "run"
        )
        by_basis.setdefault(basis, []).append(row)
    lines = [
        f"\nreal use ({path.name}): {len(rows)} jobs; {len(rows) - len(known)} of unknown length",
        f"  {'range of the length, by':32}{'ranges':>8}{'held':>7}{'high/low':>10}{'most':>7}",
    ]
    for basis, some in by_basis.items():
        ratios = [row.ratio for row in some]
        held = sum(row.held for row in some) / len(some)
        lines.append(
            f"  {basis:32}{len(some):8}{held:7.1%}{median(ratios):10.2f}{max(ratios):7.1f}"
        )
    return "\n".join(lines)


def said(path: Path = HOUR) -> list[Said]:
    """Of jobs that did all their work in one go and alone on their devices."""
    rows = list(_rows(path))
    nodes = sorted({name for row in rows for name in _nodes(row)})
    cluster = Cluster(tuple(Node(name, SLOTS) for name in nodes))
    rebuilt = Rebuilt(Scheduler(policy("fifo"), cluster))
    estimates: dict[str, Estimate] = {}
    found: list[Said] = []
    for _, group in groupby(rows, key=lambda row: (row.at, row.wall_at)):
        lines = list(group)
        rebuilt.apply(lines)
        for row in lines:
            if row.kind == "JobSubmitted":
                record, job = rebuilt.jobs.records[row.job], rebuilt.scheduler.jobs[row.job]
                expected = rebuilt.learner.profiles.ask(question_about(record, job.spec))
                estimates[row.job] = length_of(expected, job.spec, record.time_limit_s)
            elif row.kind == "AttemptEnded":
                end = msgspec.json.decode(row.body)
                shared = (end["seen"] or {}).get("shared_s", 0.0) > 0
                if end["how"] == "exited" and end["code"] == 0 and not shared:
                    command = rebuilt.ended[row.job].command
                    found.append(Said(row.job, command, estimates[row.job], end["ran_s"]))
    return found


def _rows(path: Path) -> Iterator[JournalRow]:
    with gzip.open(path, "rt") as file:
        for number, line in enumerate(file, 1):
            at, wall_at, body = line.split(" ", 2)
            head = msgspec.json.decode(body, type=_Line)
            job = head.job
            if head.kind in ("JobSubmitted", "JobUpdated"):
                job = msgspec.json.decode(body)["spec"]["id"]
            yield JournalRow(float(at), float(wall_at), head.kind, job, body.encode(), number)


def _nodes(row: JournalRow) -> Sequence[str]:
    if row.kind != "Start":
        return ()
    return [node for node, _ in msgspec.json.decode(row.body)["allocation"]["devices"]]
