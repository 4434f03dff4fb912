"""README's table of speed: CPU seconds and memory of whole processes, and of single decisions.

    python -m benchmarks.figures fast

A row is one or more `treadle` processes, start-up included, the least of two runs of each; the
decisions are timed in this process. `calibrate` says how fast the machine is.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.core.events import JobFinished, JobStarted, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL
from treadle.core.scheduler import Scheduler
from treadle.models.catalogue import MURI, muri_profile
from treadle.models.plans.planned import offering, standard
from treadle.models.plans.space import dense
from treadle.models.scaling import ScalingModel
from treadle.models.sizes.ladders import Ladder
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.afs.afs import shares
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy as make_policy

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("TREADLE_SHARED", ROOT.parent / "shared")) / "traces"
TEN = (
    *("fifo", "backfill", "sjf", "srtf", "srsf", "las", "tiresias", "max-min", "optimus"),
    "themis",
)
RUNS = 2


class Spent(NamedTuple):
    """What one process took."""

    cpu_s: float
    peak_mb: float


def fast() -> list[list[str]]:
    """The rows of the table, its head first."""
    common = [_simulated(trace("common960"), "8x8", policy) for policy in TEN]
    rows = [
        ["what", "CPU s", "MB"],
        ["`common960` under ten policies", _span(common), _most(common)],
    ]
    for kind in ("poisson", "philly"):
        drawn = f"generate:{kind}?jobs=10000&load=0.95&seed=1"
        found = [_simulated(drawn, "32x8", policy) for policy in ("fifo", "srtf", "las")]
        what = f"10,000 {kind.capitalize()}{'-like' * (kind == 'philly')} jobs at load 0.95 on 32x8"
        rows.append([f"{what}: `fifo` / `srtf` / `las`", _each(found), _most(found)])
    philly = trace("philly_dev_aug14_oct31")
    found = [_simulated(philly, "philly", policy) for policy in ("fifo", "las", "afs")]
    what = "the 66,280-job Philly file on its 552 machines: `fifo` / `las` / `afs`"
    rows.append([what, _each(found), _most(found)])
    again = ("replicate", "muri", "--trace", trace("muri_trace3"), "--policies", "muri-s", "--json")
    found = [_measured(again)]
    what = "Muri's 1,000-job trace3 under `muri-s`, as its artifact simulates (which takes 69)"
    rows.append([what, _each(found), _most(found)])
    first_s, next_s = zip(*(decide_rubick(2000, 512, share) for share in (0, 0.5, 1)), strict=True)
    rows += [
        [
            "a decision of `afs`: 5,000 jobs on 10,000 devices",
            f"{decide_afs(5000, 10_000):.2f}",
            "-",
        ],
        ["a decision of `muri-s`: 1,000 jobs on 256 devices", f"{decide_muri(1000):.2f}", "-"],
        [
            "a decision of `rubick`: 2,000 jobs on 4,096 devices, the first / the next",
            f"{max(first_s):.2f} / {max(next_s):.2f}",
            "-",
        ],
    ]
    found = [_measured(("--help",))]
    return [*rows, ["`treadle --help`", _each(found), _most(found)]]


def trace(name: str) -> str:
    """The path of a trace file; without it the table cannot be made."""
    path = TRACES / f"{name}.csv.gz"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; set TREADLE_SHARED to the folder with traces/")
    return str(path)


def calibrate() -> float:
    """CPU seconds of a fixed amount of plain Python: dictionaries, tuples; the least of three."""
    return min(_loop_s() for _ in range(3))


def _loop_s() -> float:
    begun_s = time.process_time()
    table: dict[int, tuple[int, int]] = {}
    for number in range(3_000_000):
        table[number % 1000] = (number, number ^ 5)
    return time.process_time() - begun_s


def _simulated(source: str, cluster: str, policy: str) -> Spent:
    return _measured(("simulate", source, "--cluster", cluster, "--policy", policy, "--json"))


def _measured(words: Sequence[str]) -> Spent:
    """The least of some runs of a command."""
    return min(_run(words) for _ in range(RUNS))


def _run(words: Sequence[str]) -> Spent:
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", *words], stdout=subprocess.DEVNULL, cwd=ROOT
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"treadle {' '.join(words)} failed")
    print(f"treadle {' '.join(words)}: {used.ru_utime:.2f} s", file=sys.stderr, flush=True)
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _each(found: Sequence[Spent]) -> str:
    return " / ".join(f"{one.cpu_s:.2f}" for one in found)


def _span(found: Sequence[Spent]) -> str:
    return f"{min(found).cpu_s:.2f} to {max(found).cpu_s:.2f}"


def _most(found: Sequence[Spent]) -> str:
    return f"{max(one.peak_mb for one in found):.0f}"


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
    policy = make_policy("muri-s", placement("consolidate"), model)
    scheduler = Scheduler(policy, Cluster.grid(32, 8))
    specs = [
        JobSpec(str(number), draw.uniform(1, 1e5), profile=draw.choice(profiles))
        for number in range(jobs)
    ]
    scheduler.take([JobSubmitted(spec) for spec in specs], 0.0)
    begun_s = time.process_time()
    scheduler.decide(0.0)
    return time.process_time() - begun_s


def decide_rubick(jobs: int, nodes: int, guaranteed: float) -> tuple[float, float]:
    """CPU seconds of a first decision over waiting jobs, and of the next once one of them ended.

    What the plan model says is known by then, as it is after a few jobs of each model.
    """
    draw, planner, cluster = Random(1), standard(), Cluster.grid(nodes, 8)
    models = [name for name in planner.types if not name.startswith("llama30")]
    specs = []
    for number in range(jobs):
        model, size = draw.choice(models), draw.choice((1, 2, 4, 8, 8, 16))
        plan = draw.choice([c for c in planner.candidates(model, dense(size)) if c.feasible]).plan
        job = JobSpec(
            str(number),
            draw.uniform(1e3, 1e6),
            sizes=(size,),
            profile=Profile(size=size, model=model),
            plans=(plan, DATA_PARALLEL),
            guaranteed=draw.random() < guaranteed,
        )
        specs.append(offering(job, planner, min(cluster.device_count, 64), 8))
    policy = make_policy("rubick", placement("consolidate"), ScalingModel())
    scheduler = Scheduler(policy, cluster)
    scheduler.take([JobSubmitted(spec) for spec in specs], 0.0)
    begun_s = time.process_time()
    actions = scheduler.decide(0.0)
    first_s = time.process_time() - begun_s
    started = [JobStarted(action.job, action.id, 0.0, 1.0) for action in actions]
    ended = JobFinished(actions[0].job, actions[0].id)
    scheduler.take([*started, ended], 600.0)
    begun_s = time.process_time()
    scheduler.decide(600.0)
    return first_s, time.process_time() - begun_s
