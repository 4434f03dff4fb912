"""Twelve unmodified training jobs of six kinds through one GPU, under several policies.

    python benchmarks/gpu/batch.py [--policies fifo?share=off,afs,muri-l] [--scale 1] [--json FILE]

Real processes, a real daemon in a temporary folder, the GPU of this machine. The jobs and their
arrivals over two minutes are in jobs/twelve.json (both times `--scale`); two are too large to
share. One daemon runs all policies in
turn, so that what the first run shows of each kind alone is known to the next: jobs that were not
seen alone do not share. The report has, for each policy, the time from the first submission to the
last end, jobs that died of memory, energy a job, and the predicted sums of groups beside the
measured ones. Speeds are measured from the steps that jobs print, apart from what the daemon says.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from treadle.client.client import Client
from treadle.core.actions import Stop
from treadle.core.events import AttemptEnded, JobProgressed, JobStarted
from treadle.journal.journal import Journal, read
from treadle.models.company.predictor import predict
from treadle.wire.jobs import JobRequest, JobView, State

JOBS = Path(__file__).with_name("jobs")
POLICIES = "fifo?share=off,afs,muri-l"
SPELL_MIN_S = 8.0  # a group is compared if it stayed together for so long
GAP_S = 2.0  # after a change of company, before speeds are compared


class Spell(NamedTuple):
    """Some jobs were together on the device for a while."""

    jobs: tuple[str, ...]
    from_s: float
    to_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on steps and arrivals")
    parser.add_argument(
        "--json", type=Path, help="the report, and the figures alone, are kept here"
    )
    parser.add_argument(
        "--state", type=Path, help="keep what the daemon learned, and go on with it"
    )
    options = parser.parse_args()
    report: dict[str, Any] = {}
    alone: dict[str, tuple[float, float]] = {}  # by kind: steps a second, busy share
    if options.json and options.json.exists():
        report = json.loads(options.json.read_text())
        for one in report.values():
            alone |= {kind: tuple(both) for kind, both in one["alone"].items()}
    with daemon(options.state) as client:
        for policy in options.policies.split(","):
            client.set_policy(policy)
            found = batch(client, options.scale)
            report[policy] = measured(client, found, alone)
            print(json.dumps({policy: report[policy]}, indent=1), flush=True)
            if options.json:
                options.json.write_text(json.dumps(report, indent=1))
    summary(report)
    return 0


@contextmanager
def daemon(state: Path | None) -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="treadle-gpu-", ignore_cleanup_errors=True) as folder:
        socket = f"{folder}/s"
        words = [sys.executable, "-m", "treadle", "up", "--foreground", "--state"]
        words.append(str(state or folder))
        environment = {**os.environ, "TREADLE_SOCKET": socket}
        log = Path(folder, "daemon.log")
        with log.open("w") as output:
            process = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
        client = Client(f"unix:{socket}", timeout_s=60.0)
        try:
            until = time.monotonic() + 60.0
            while not Path(socket).exists():
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"the daemon did not start: {log.read_text()[-2000:]}")
                time.sleep(0.1)
            yield client
        finally:
            print(log.read_text()[-3000:], file=sys.stderr)
            client.shut_down("cancel")
            process.wait(60)


class Batch(NamedTuple):
    """The jobs of one policy, by id, and when the first was submitted."""

    kinds: dict[str, str]
    took_s: float
    views: dict[str, JobView]


def batch(client: Client, scale: float) -> Batch:
    begun = time.monotonic()
    kinds: dict[str, str] = {}
    for one in json.loads((JOBS / "twelve.json").read_text()):
        time.sleep(max(0.0, begun + one["at_s"] * scale - time.monotonic()))
        script, word, steps, *words = one["command"]
        assert word == "--steps", "the number of steps comes first"
        many = str(max(10, round(int(steps) * scale)))
        request = JobRequest(
            command=(sys.executable, str(JOBS / script), word, many, *words),
            name=one["name"],
            workdir=str(JOBS),
            retries=0,
            gpu_memory_gib=one.get("gpu_memory_gib"),
        )
        kinds[client.submit(request).id] = one["kind"]
    views: dict[str, JobView] = {}
    while len(views) < len(kinds):
        time.sleep(0.25)
        for job in kinds:
            if job not in views:
                view = client.job(job).job
                if view.state.ended:
                    views[job] = view
    return Batch(kinds, time.monotonic() - begun, views)


def measured(client: Client, found: Batch, alone: dict[str, tuple[float, float]]) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(client.journal()))
        file.flush()
        journal = read(Path(file.name))
    ends = ends_of(journal, found.kinds)
    points = steps_of(journal, found.kinds)
    groups = []
    for spell in spells(journal, found.kinds):
        from_s = begun(points, spell)
        speeds = {job: speed_in(points.get(job, []), from_s, spell.to_s) for job in spell.jobs}
        if len(spell.jobs) == 1:
            (job,) = spell.jobs
            seen = ends.get(job)
            busy = None if seen is None or seen.seen is None else seen.seen.load.busy
            if speeds[job] and busy is not None:
                alone.setdefault(found.kinds[job], (speeds[job], busy))
            continue
        names = [found.kinds[job] for job in spell.jobs]
        if any(
            name not in alone or not speeds[job]
            for name, job in zip(names, spell.jobs, strict=True)
        ):
            continue
        relative = [
            speeds[job] / alone[name][0] for name, job in zip(names, spell.jobs, strict=True)
        ]
        predicted = predict([(alone[name][1], None, None) for name in names])
        groups.append(
            {
                "jobs": names,
                "seconds": round(spell.to_s - spell.from_s, 1),
                "measured": [round(one, 3) for one in relative],
                "predicted": [round(one, 3) for one in predicted],
                "error": round(sum(predicted) / sum(relative) - 1.0, 3),
            }
        )
    return {
        "took_s": round(found.took_s, 1),
        "states": {str(job): str(view.state) for job, view in found.views.items()},
        "not_succeeded": sum(view.state is not State.SUCCEEDED for view in found.views.values()),
        "alone": {name: [round(one, 3) for one in both] for name, both in alone.items()},
        "groups": groups,
        "jobs": {
            job: {
                "kind": found.kinds[job],
                "ran_s": end.ran_s,
                "energy_j": None if end.seen is None else end.seen.energy_j,
                "peak_gib": None if end.seen is None else end.seen.device_memory_peak_gib,
                "alone_s": None if end.seen is None else end.seen.alone_s,
                "shared_s": None if end.seen is None else end.seen.shared_s,
            }
            for job, end in ends.items()
        },
    }


def ends_of(journal: Journal, jobs: dict[str, str]) -> dict[str, AttemptEnded]:
    facts = [event for step in journal.steps for event in step.events]
    return {f.job: f for f in facts if isinstance(f, AttemptEnded) and f.job in jobs}


def steps_of(journal: Journal, jobs: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
    """When each job was at which step."""
    points: dict[str, list[tuple[float, float]]] = {}
    for step in journal.steps:
        for event in step.events:
            if isinstance(event, JobProgressed) and event.progress and event.job in jobs:
                points.setdefault(event.job, []).append((step.now, event.progress.step))
    return points


def spells(journal: Journal, jobs: dict[str, str]) -> Iterator[Spell]:
    """The groups on the device, from one change to the next."""
    together: tuple[str, ...] = ()
    since = 0.0
    for step in journal.steps:
        members = list(together)
        for event in step.events:
            if isinstance(event, JobStarted) and event.job in jobs:
                members.append(event.job)
            elif isinstance(event, AttemptEnded) and event.job in members:
                members.remove(event.job)
        members += [
            action.job
            for action in step.actions
            if not isinstance(action, Stop) and action.job in jobs and action.job not in members
        ]
        now = tuple(dict.fromkeys(members))
        if now != together:
            if together and step.now - since >= SPELL_MIN_S:
                yield Spell(together, since, step.now)
            together, since = now, step.now


def begun(points: dict[str, list[tuple[float, float]]], spell: Spell) -> float:
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


def summary(report: dict[str, Any]) -> None:
    first = next(iter(report.values()))["took_s"]
    for policy, one in report.items():
        errors = [abs(group["error"]) for group in one["groups"]]
        mean = f"{sum(errors) / len(errors):.1%} over {len(errors)}" if errors else "no groups"
        energies = [job["energy_j"] for job in one["jobs"].values() if job["energy_j"] is not None]
        joules = f"{sum(energies) / len(energies):,.0f} J a job" if energies else "no energy"
        print(
            f"{policy:16} {one['took_s']:7.1f} s  {one['took_s'] / first:5.2f} of the first  "
            f"{one['not_succeeded']} not succeeded  error of sums {mean}  {joules}"
        )


if __name__ == "__main__":
    sys.exit(main())
