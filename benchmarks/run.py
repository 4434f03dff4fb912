"""Speed budgets: CPU seconds of whole processes, start-up included, and of a calibration loop.

    make bench            all rows
    make bench ROWS=fast  without the 66,280-job file and AITurbo's 5,000 jobs

A row is one `treadle` process with its CPU time from the operating system. The budgets are for a
machine on which the calibration loop takes about 0.6 s; scale them for other machines.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from treadle.core.cluster import Cluster
from treadle.core.events import JobFinished, JobStarted, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL
from treadle.core.scheduler import Scheduler
from treadle.models.catalogue import MURI, muri_profile
from treadle.models.plans.planned import offering, standard
from treadle.models.plans.space import dense
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.afs.afs import Ladder, shares
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy as make_policy

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("TREADLE_SHARED", ROOT.parent / "shared")) / "traces"
POLICIES = [
    "fifo",
    "backfill",
    "sjf",
    "srtf",
    "srsf",
    "las",
    "tiresias",
    "max-min",
    "optimus",
    "themis",
]
GENERATED = "generate:{kind}?jobs={jobs}&load=0.95&seed=1"


@dataclass(frozen=True)
class Row:
    """One command with its budget."""

    name: str
    words: tuple[str, ...]
    budget_s: float | None
    memory_mb: float | None = None
    slow: bool = False


def rows() -> list[Row]:
    common = str(TRACES / "common960.csv.gz")
    philly = str(TRACES / "philly_dev_aug14_oct31.csv.gz")
    listed = [Row("treadle --help", ("--help",), 0.2)]
    listed += [
        Row(
            f"common960 {policy}",
            ("simulate", common, "--cluster", "8x8", "--policy", policy, "--json"),
            0.6,
        )
        for policy in POLICIES
    ]
    for policy, budget_s in (("fifo", 1.0), ("srtf", 3.0), ("las", 3.0)):
        drawn = (("poisson", 1000, None), ("poisson", 10_000, budget_s), ("philly", 10_000, None))
        for kind, jobs, limit in drawn:
            trace = GENERATED.format(kind=kind, jobs=jobs)
            generated = ("simulate", trace, "--cluster", "32x8", "--policy", policy, "--json")
            listed.append(Row(f"{jobs} {kind} {policy}", generated, limit))
    trace3 = str(TRACES / "muri_trace3.csv.gz")
    again = ("replicate", "muri", "--trace", trace3, "--policies", "muri-s", "--json")
    listed.append(Row("muri_trace3 muri-s, as published", again, 1.5))
    for policy, budget_s in (("fifo", 10.0), ("las", 30.0), ("afs", 120.0)):
        words = ("simulate", philly, "--cluster", "philly", "--policy", policy, "--json")
        listed.append(Row(f"Philly 66,280 {policy}", words, budget_s, 500.0, slow=True))
    drawn_5000 = GENERATED.format(kind="aiturbo", jobs=5000)
    paper = ("replicate", "aiturbo", "--trace", drawn_5000, "--cluster", "32x8")
    alone = (*paper, "--policies", "aiturbo", "--json")
    listed.append(Row("5000 aiturbo, ends by losses", alone, 60.0, slow=True))
    return listed


def calibrate() -> float:
    """CPU seconds of a fixed amount of plain Python: dictionaries, tuples, a heap."""
    begun_s = time.process_time()
    table: dict[int, tuple[int, int]] = {}
    for number in range(3_000_000):
        table[number % 1000] = (number, number ^ 5)
    return time.process_time() - begun_s


def measure(words: tuple[str, ...]) -> tuple[float, float]:
    """CPU seconds and peak megabytes of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "treadle", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"treadle {' '.join(words)} failed: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent_s, after.ru_maxrss / 1024


def decide_afs(jobs: int, devices: int) -> float:
    """CPU seconds of one AFS decision about elastic jobs."""
    draw = Random(1)
    ladders = [
        Ladder.of(range(1, 65), [n / (1 + serial * (n - 1)) for n in range(1, 65)])
        for serial in draw.choices((0.02, 0.05, 0.1, 0.2, 0.3), k=jobs)
    ]
    work = [draw.uniform(1, 1e5) for _ in range(jobs)]
    begun_s = time.process_time()
    shares(ladders, work, devices)
    return time.process_time() - begun_s


def decide_muri(jobs: int) -> float:
    """CPU seconds of a first decision about single-device jobs that wait for 256 devices."""
    draw = Random(1)
    profiles = [muri_profile(name, 1) for name in MURI]
    model = TokenModel(ScalingModel(), StageTimes())
    scheduler = Scheduler(
        make_policy("muri-s", placement("consolidate"), model), Cluster.grid(32, 8)
    )
    specs = [
        JobSpec(str(number), draw.uniform(1, 1e5), profile=draw.choice(profiles))
        for number in range(jobs)
    ]
    scheduler.take([JobSubmitted(spec) for spec in specs], 0.0)
    begun_s = time.process_time()
    scheduler.decide(0.0)
    return time.process_time() - begun_s


def decide_rubick(jobs: int, nodes: int, *, guaranteed: float) -> tuple[float, float]:
    """CPU seconds of a first decision over waiting jobs, and of the next once one of them ended.

    What the plan model says is known by then, as it is after a few jobs of each model.
    """
    draw, planner, cluster = Random(1), standard(), Cluster.grid(nodes, 8)
    models = [name for name in planner.types if not name.startswith("llama30")]
    specs = []
    for number in range(jobs):
        model, size = draw.choice(models), draw.choice((1, 2, 4, 8, 8, 16))
        plan = draw.choice([c for c in planner.candidates(model, dense(size)) if c.feasible]).plan
        specs.append(
            offering(
                JobSpec(
                    str(number),
                    draw.uniform(1e3, 1e6),
                    sizes=(size,),
                    profile=Profile(size=size, model=model),
                    plans=(plan, DATA_PARALLEL),
                    guaranteed=draw.random() < guaranteed,
                ),
                planner,
                min(cluster.device_count, 64),
                8,
            )
        )
    policy = make_policy("rubick", placement("consolidate"), ScalingModel())
    scheduler = Scheduler(policy, cluster)
    scheduler.take([JobSubmitted(spec) for spec in specs], 0.0)
    begun_s = time.process_time()
    actions = scheduler.decide(0.0)
    first_s = time.process_time() - begun_s
    started = [JobStarted(action.job, action.id, 0.0, 1.0) for action in actions]
    scheduler.take([*started, JobFinished(actions[0].job, actions[0].id)], 600.0)
    begun_s = time.process_time()
    scheduler.decide(600.0)
    return first_s, time.process_time() - begun_s


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", choices=["all", "fast"], default="all")
    chosen = parser.parse_args().rows
    print(f"calibration loop {calibrate():.2f} s\n")
    print(f"{'what':33} {'CPU s':>7} {'budget':>7} {'MB so far':>10}")
    over = 0
    seconds: dict[str, float] = {}
    for row in rows():
        if row.slow and chosen == "fast":
            continue
        missing = [word for word in row.words if word.endswith(".gz") and not Path(word).exists()]
        if missing:
            print(f"{row.name:33} skipped: no {missing[0]}")
            continue
        spent_s, peak_mb = measure(row.words)
        seconds[row.name] = spent_s
        late = row.budget_s is not None and spent_s > row.budget_s
        large = row.memory_mb is not None and peak_mb > row.memory_mb
        over += late or large
        budget = "" if row.budget_s is None else f"{row.budget_s:.1f}"
        mark = "  over budget" if late or large else ""
        print(f"{row.name:33} {spent_s:7.2f} {budget:>7} {peak_mb:10.0f}{mark}", flush=True)
    for policy in ("fifo", "srtf", "las"):
        one, ten = seconds[f"1000 poisson {policy}"], seconds[f"10000 poisson {policy}"]
        print(f"ten times the jobs under {policy}: {ten / one:.1f} times the CPU (at most 13)")
        over += ten / one > 13
    for jobs, devices, budget_s in ((250, 512, 0.01), (5000, 10_000, 1.0)):
        spent_s = decide_afs(jobs, devices)
        print(f"one afs decision, {jobs} jobs on {devices} devices: {spent_s:.4f} s ({budget_s:g})")
        over += spent_s > budget_s
    spent_s = decide_muri(1000)
    print(f"one muri-s decision, 1000 jobs on 256 devices: {spent_s:.4f} s (0.5)")
    over += spent_s > 0.5
    for jobs, nodes, budget_s in ((400, 8, 0.05), (2000, 512, 2.0)):
        for guaranteed in (0.0, 0.5, 1.0):
            first_s, next_s = decide_rubick(jobs, nodes, guaranteed=guaranteed)
            print(
                f"one rubick decision, {jobs} jobs on {nodes * 8} devices, {guaranteed:.0%} "
                f"guaranteed: first {first_s:.4f} s, next {next_s:.4f} s ({budget_s:g})"
            )
            over += max(first_s, next_s) > budget_s
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
