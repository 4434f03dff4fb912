"""The same short jobs through Ray's own job submission and through Treadle, on one Ray cluster.

    pip install --target EXTRA 'ray[default]==2.60.0'      # Ray's job server; Treadle needs it not
    PYTHONPATH=EXTRA python -m benchmarks.ray_side_by_side [--jobs 200] [--beside 40]

Four nodes of two CPU slots each, on loopback of one machine. First all jobs through Ray, then all
through Treadle, each job with one slot.

1. Jobs that only note when they ran, all submitted at once: how many a minute, and the time from
   the submission to the command's first line.
2. A gang that needs all slots of all four nodes, submitted when a quarter of so many jobs of a
   second are (--beside). On Ray it is a job that asks for a placement group with one bundle on each
   node. When does it run, and how many of the others have ended by then?
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import msgspec
from benchmarks.ray_systems import (
    ENVIRONMENT,
    RayJobs,
    System,
    Treadle,
    cluster,
    missing,
    wait_for,
)

SECONDS = 1.0  # of the jobs beside the gang


class Short(NamedTuple):
    """Jobs that do nothing."""

    jobs: int
    per_minute: float
    submit_s: float  # that one submission took
    start_p50_s: float  # from the submission to the first line
    start_p90_s: float


class Gang(NamedTuple):
    """A job that needs all slots, amid small ones."""

    beside: int
    after_s: float  # from its submission to its first line
    ended_before: int  # of the small jobs
    ended_first: int  # of those that were submitted before it
    all_s: float  # until all had ended


class Found(NamedTuple):
    system: str
    short: Short
    gang: Gang


def short_jobs(system: System, folder: Path, jobs: int) -> Short:
    at: dict[Path, float] = {}
    begun = time.time()
    for number in range(jobs):
        note = folder / f"short{number}"
        at[note] = time.time()
        system.submit(note, 0.0)
    submitted = time.time()
    wait_for(lambda: all(map(ended, at)))
    passed = time.time() - begun
    cuts = quantiles([ran_at(note) - then for note, then in at.items()], n=10)
    return Short(jobs, 60 * jobs / passed, (submitted - begun) / jobs, cuts[4], cuts[8])


def gang_amid(system: System, folder: Path, beside: int) -> Gang:
    others = [folder / f"beside{number}" for number in range(beside)]
    earlier = others[: beside // 4]
    begun = time.time()
    for note in earlier:
        system.submit(note, SECONDS)
    gang, asked_at = folder / "gang", time.time()
    system.submit_gang(gang, 0.0)
    for note in others[len(earlier) :]:
        system.submit(note, SECONDS)
    wait_for(lambda: ended(gang) and all(map(ended, others)))
    whole_s = time.time() - begun
    before = [note for note in others if ended_at(note) <= ran_at(gang)]
    return Gang(
        beside,
        ran_at(gang) - asked_at,
        len(before),
        len(set(before) & set(earlier)),
        whole_s,
    )


def measure(system: System, folder: Path, options: argparse.Namespace) -> Found:
    folder.mkdir()
    short = short_jobs(system, folder, options.jobs)
    print(system.name, short, flush=True)
    gang = gang_amid(system, folder, options.beside)
    print(system.name, gang, flush=True)
    return Found(system.name, short, gang)


def ended(note: Path) -> bool:
    return _end(note).exists()


def ended_at(note: Path) -> float:
    return _end(note).stat().st_mtime


def ran_at(note: Path) -> float:
    return float(note.read_text())


def _end(note: Path) -> Path:
    return note.with_name(f"{note.name}.ended")


def run(folder: Path, options: argparse.Namespace) -> list[Found]:
    made, dashboard = cluster()
    try:
        by_ray = RayJobs(made.address, dashboard)
        found = [measure(by_ray, folder / "by-ray", options)]
        treadle = Treadle(folder, made.address)
        try:
            found.append(measure(treadle, folder / "by-treadle", options))
        finally:
            treadle.end()
        return found
    finally:
        made.shutdown()


def show(found: list[Found]) -> None:
    print(
        "\n| | jobs a minute | a submission | start, median | p90 | gang | small jobs before it |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, short, gang in found:
        print(
            f"| {name} | {short.per_minute:.0f} | {1e3 * short.submit_s:.0f} ms | "
            f"{short.start_p50_s:.1f} s | {short.start_p90_s:.1f} s | ran after "
            f"{gang.after_s:.1f} s | {gang.ended_before} of {gang.beside}, {gang.ended_first} of "
            f"the {gang.beside // 4} submitted before it |"
        )
    ray, ours = found
    print(
        f"\n{ours.short.per_minute / ray.short.per_minute:.1f} times as many jobs a minute; the "
        f"median start took {ours.short.start_p50_s / ray.short.start_p50_s:.2f} of the time"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--beside", type=int, default=40)
    parser.add_argument("--json", help="where to write what was found")
    options = parser.parse_args()
    if lacks := missing():
        parser.error(lacks)
    folder = Path(tempfile.mkdtemp(prefix="side-"))
    os.environ.update(ENVIRONMENT, RAY_TMPDIR=str(folder))
    try:
        found = run(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(found)
    if options.json:
        Path(options.json).write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


if __name__ == "__main__":
    main()
