"""Unmodified training jobs of several kinds through one GPU, under several policies.

    python benchmarks/gpu/batch.py [--policies fifo?share=off,weave-l] [--days 2] [--json FILE]
    python benchmarks/gpu/batch.py --jobs benchmarks/gpu/jobs/rush.json
    python benchmarks/gpu/batch.py --devices 1 --jobs FILE  # CPU slots and other jobs: a dry run

Real processes, a real daemon in a temporary folder, the GPU of this machine. Each policy begins
with an empty folder and gets the batch once a day; on its second day it has seen each job. The
first policy is what the others are compared with, and has one day.

jobs/twelve.json has twelve jobs that arrive over two minutes; two need 90 GiB each. Its last job
comes after 120 s and takes 8 s alone, so no policy is done sooner: below that `--arrivals 0.5` lets
all come in half the time. `--scale` shortens both arrivals and jobs.

The report has, for each day: the time from the first submission to the last end, the mean time from
submission to end, jobs that died of GPU memory, energy a job, for how long a job got less than
half of its speed alone done, and the predicted sums of groups beside the measured ones. Speeds
are measured from the steps that jobs print, apart from what the daemon says.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from treadle.client.client import Client
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.engines.node.mps import PROGRAM
from treadle.models.company.predictor import predict
from treadle.wire.jobs import JobRequest, JobView, State

Report = dict[str, Any]

JOBS = Path(__file__).with_name("jobs")
POLICIES = "fifo?share=off,weave-l"
LOOK_S = 0.25  # how often
SPELL_MIN_S = 8.0  # a group is compared if it stayed together for so long
MEMORY = "gpu memory"  # what a job needs more of that ran out of it
GAP_S = 2.0  # after a change of company, before speeds are compared


class Spell(NamedTuple):
    """Some jobs were together on the device for a while."""

    jobs: tuple[str, ...]
    from_s: float
    to_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--days", type=int, default=2, help="of all policies but the first")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on steps and arrivals")
    parser.add_argument("--arrivals", type=float, default=1.0, help="factor on arrivals alone")
    parser.add_argument("--shuffle", type=int, help="seed: the jobs arrive in another order")
    parser.add_argument("--json", type=Path, help="where the report is kept")
    parser.add_argument("--jobs", type=Path, default=JOBS / "twelve.json", help="scripts beside it")
    parser.add_argument("--devices", type=int, help="CPU slots instead of GPUs")
    options = parser.parse_args()
    report: Report = {}
    alone: dict[str, tuple[float, float]] = {}  # by kind: steps a second, busy share
    if options.json and options.json.exists():
        report = json.loads(options.json.read_text())
        for one in report.values():
            alone |= {kind: tuple(both) for kind, both in one["alone"].items()}
    options.jobs = options.jobs.resolve()
    for policy in options.policies.split(","):
        days = 1 if policy == next(iter(report), policy) else options.days
        with daemon(options.devices) as client:
            client.set_policy(policy)
            for day in range(1, days + 1):
                found = batch(client, options)
                name = policy if days == 1 else f"{policy}, day {day}"
                report[name] = measured(lines_of(client), found, alone)
                print(json.dumps({name: report[name]}, indent=1), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(report, indent=1))
    summary(report)
    return 0


@contextmanager
def daemon(slots: int | None) -> Iterator[Client]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("it was told to end"))
    with tempfile.TemporaryDirectory(prefix="treadle-gpu-", ignore_cleanup_errors=True) as folder:
        socket = f"{folder}/s"
        words = [sys.executable, "-m", "treadle", "up", "--foreground", "--state", folder]
        words += [] if slots is None else ["--devices", str(slots)]
        environment = {**os.environ, "TREADLE_SOCKET": socket}
        log = Path(folder, "daemon.log")
        with log.open("w") as output:
            process = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
        client = Client(f"unix:{socket}", timeout_s=60.0)
        try:
            until = time.monotonic() + 120.0
            while not answers(client):
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"the daemon did not start: {log.read_text()[-2000:]}")
                time.sleep(0.1)
            yield client
        finally:
            print(log.read_text()[-3000:], file=sys.stderr)
            if answers(client):
                client.shut_down("cancel")
            else:
                process.terminate()
            process.wait(60)


def answers(client: Client) -> bool:
    try:
        client.status()
    except (UnreachableError, NoAnswerError):
        return False
    return True


Moments = list[tuple[float, float]]  # when, and at which step
Points = dict[str, Moments]  # by job


class Batch(NamedTuple):
    """The jobs of one policy, by id."""

    kinds: dict[str, str]
    took_s: float  # since the first was submitted
    views: dict[str, JobView]
    points: Points
    mps: bool  # jobs that share do so under CUDA MPS

    @property
    def mean_s(self) -> float:
        """From a job's submission to its end."""
        times = [(view.ended_at or inf) - view.submitted_at for view in self.views.values()]
        return sum(times) / max(1, len(times))


def batch(client: Client, options: argparse.Namespace) -> Batch:
    """Submit the jobs when their time has come, and look at all of them until they have ended."""
    begun = time.monotonic()
    scale, listed = options.scale, options.jobs
    jobs = json.loads(listed.read_text())
    moments = [one["at_s"] * scale * options.arrivals for one in jobs]
    if options.shuffle is not None:
        random.Random(options.shuffle).shuffle(jobs)
    left = list(zip(moments, jobs, strict=True))
    kinds: dict[str, str] = {}
    views: dict[str, JobView] = {}
    points: Points = {}
    while left or len(views) < len(kinds):
        while left and time.monotonic() - begun >= left[0][0]:
            _, one = left.pop(0)
            kinds[client.submit(request(one, listed.parent, scale)).id] = one["kind"]
        for job in kinds.keys() - views.keys():
            view = client.job(job).job
            if view.progress is not None:
                note(points.setdefault(job, []), view.ended_at or time.time(), view.progress.step)
            if view.state.ended:
                views[job] = view
        time.sleep(LOOK_S)
    mps = shutil.which(PROGRAM) is not None
    return Batch(kinds, time.monotonic() - begun, views, points, mps)


def request(one: dict[str, Any], folder: Path, scale: float) -> JobRequest:
    script, word, steps, *words = one["command"]
    assert word == "--steps", "the number of steps comes first"
    many = str(max(10, round(int(steps) * scale)))
    return JobRequest(
        command=(sys.executable, str(folder / script), word, many, *words),
        name=one["name"],
        workdir=str(folder),
        retries=0,
        gpu_memory_gib=one.get("gpu_memory_gib"),
    )


def note(points: Moments, at: float, step: float) -> None:
    """The job is at this step; what was known before is no news."""
    if not points or step > points[-1][1]:
        points.append((at, step))


Line = dict[str, Any]  # of the journal


def lines_of(client: Client) -> list[Line]:
    """The journal as people read it: an exported one has ends as the simulator knows them."""
    lines: list[Line] = []
    after = 0
    while True:
        page = client.events(after=after, limit=500)
        if not page.events:
            return lines
        lines += [{**e.body, "at": e.at, "kind": e.kind, "job": e.job} for e in page.events]
        after = page.next


def measured(lines: list[Line], found: Batch, alone: dict[str, tuple[float, float]]) -> Report:
    """What the journal says of these jobs; `alone` is added to."""
    kinds = found.kinds
    ended = [line for line in lines if line["kind"] == "AttemptEnded" and line["job"] in kinds]
    ends = {line["job"]: line for line in ended}
    points = found.points
    groups = []
    for spell in spells(lines, kinds):
        from_s = begun(points, spell)
        speeds = {job: speed_in(points.get(job, []), from_s, spell.to_s) for job in spell.jobs}
        if len(spell.jobs) == 1:
            (job,) = spell.jobs
            busy = (ends[job].get("seen") or {"load": [None]})["load"][0]
            if speeds[job] and busy is not None:
                alone.setdefault(kinds[job], (speeds[job], busy))
            continue
        names = [kinds[job] for job in spell.jobs]
        if any(name not in alone for name in names) or not all(speeds.values()):
            continue
        relative = [speeds[job] / alone[kinds[job]][0] for job in spell.jobs]
        predicted = predict([(alone[name][1], None, None) for name in names], mps=found.mps)
        groups.append(
            {
                "jobs": names,
                "seconds": round(spell.to_s - from_s, 1),
                "measured": [round(one, 3) for one in relative],
                "predicted": [round(one, 3) for one in predicted],
                "error": round(sum(predicted) / sum(relative) - 1.0, 3),
            }
        )
    jobs = {
        job: job_report(kinds[job], end, points.get(job, []), alone.get(kinds[job]))
        for job, end in ends.items()
    }
    energies = [one["energy_j"] for one in jobs.values() if one["energy_j"] is not None]
    return {
        "took_s": round(found.took_s, 1),
        "mean_s": round(found.mean_s, 1),
        "mps": found.mps,
        "not_succeeded": sum(view.state is not State.SUCCEEDED for view in found.views.values()),
        "memory_deaths": sum((one.get("verdict") or {}).get("more") == MEMORY for one in ended),
        "energy_j": round(sum(energies) / len(energies)) if energies else None,
        "slowest": max(jobs.values(), key=lambda one: one["slow_s"] or 0.0, default=None),
        "alone": {name: [round(one, 3) for one in both] for name, both in alone.items()},
        "groups": groups,
        "jobs": jobs,
    }


def job_report(kind: str, end: Line, points: Moments, alone: tuple[float, float] | None) -> Report:
    seen = end.get("seen") or {}
    alone_per_s, _ = alone or (None, None)
    per_s = speed_in(points, 0.0, inf)
    return {
        "kind": kind,
        "ran_s": round(end["ran_s"], 1),
        "energy_j": seen.get("energy_j"),
        "peak_gib": seen.get("device_memory_peak_gib"),
        "alone_s": seen.get("alone_s"),
        "shared_s": seen.get("shared_s"),
        # Of its speed alone from its first step on, and for how long it got less than half done.
        "kept": round(per_s / alone_per_s, 3) if alone_per_s and per_s else None,
        "slow_s": round(slow_s(points, alone_per_s / 2), 1) if alone_per_s and per_s else None,
    }


def slow_s(points: Moments, per_s: float) -> float:
    """The longest time over which fewer steps than that were made."""
    behind = [(at, step - per_s * (at - points[0][0])) for at, step in points]
    return max(
        (
            to - at
            for place, (at, ahead) in enumerate(behind)
            for to, then in behind[place + 1 :]
            if then < ahead
        ),
        default=0.0,
    )


def spells(lines: list[Line], jobs: dict[str, str]) -> Iterator[Spell]:
    """The groups on the device, from one change to the next."""
    together: dict[str, None] = {}
    since = 0.0
    for line in lines:
        if line["kind"] not in {"Start", "AttemptEnded"} or line["job"] not in jobs:
            continue
        if together and line["at"] - since >= SPELL_MIN_S:
            yield Spell(tuple(together), since, line["at"])
        since = line["at"]
        if line["kind"] == "Start":
            together[line["job"]] = None
        else:
            together.pop(line["job"], None)


def begun(points: Points, spell: Spell) -> float:
    """When all of them had begun to train: a job that starts loads its libraries first."""
    firsts = [
        next((at for at, _ in points.get(job, []) if at >= spell.from_s), spell.to_s)
        for job in spell.jobs
    ]
    return max([spell.from_s + GAP_S, *firsts])


def speed_in(points: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
    """Steps a second from then to then; 0 if too little was heard."""
    inside = [one for one in points if from_s <= one[0] <= to_s]
    if len(inside) < 2 or inside[-1][0] - inside[0][0] < 4.0:
        return 0.0
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def summary(report: Report) -> None:
    """Each day beside the first, which the others are compared with."""
    first = next(iter(report.values()))
    rows = [("", "all done", "", "mean", "", "energy a job", "", "failed", "of memory", "slow", "")]
    for name, one in report.items():
        slowest = one["slowest"] or {"slow_s": None, "kind": ""}
        slow = "" if slowest["slow_s"] is None else f"{slowest['slow_s']:.0f} s"
        rows.append(
            (
                *(name, f"{one['took_s']:.1f} s", beside(one, first, "took_s")),
                *(f"{one['mean_s']:.1f} s", beside(one, first, "mean_s")),
                "" if one["energy_j"] is None else f"{one['energy_j']:,} J",
                beside(one, first, "energy_j"),
                *(f"{one['not_succeeded']}", f"{one['memory_deaths']}", slow, slowest["kind"]),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)))
    errors = [abs(group["error"]) for one in report.values() for group in one["groups"]]
    if errors:
        mean = sum(errors) / len(errors)
        print(f"predicted sums of {len(errors)} groups are {mean:.1%} off")


def beside(one: Report, first: Report, what: str) -> str:
    return f"{one[what] / first[what]:.3f}" if one[what] and first[what] else ""


if __name__ == "__main__":
    sys.exit(main())
