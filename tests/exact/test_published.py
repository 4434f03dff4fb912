"""Published averages, reproduced to the last digit that was printed.

The figures and the semantics behind them were measured on other simulators (Tiresias, Lucid, Blox
with its placement mended); `common960` is a synthetic workload made to compare them.
"""

import json
import subprocess
import sys
import time
from functools import cache

import pytest
from tests.shared import trace

from weft.sim.experiment import prepare
from weft.sim.settings import Settings
from weft.traces.clusters import cluster
from weft.traces.load import load
from weft.traces.workload import Workload

COMMON = [
    # policy, placement, time, average completion time, last end
    ("fifo", "count", "event", 4996.55, 159795),
    ("backfill", "count", "event", 3237.92, 150107),
    ("srtf", "count", "event", 2875.34, 161974),
    ("srsf", "count", "event", 2797.54, 155098),
    ("fifo", "consolidate", "event", 13889.44, 178988),
    ("sjf", "consolidate", "event", 3941.98, 169002),
    ("fifo", "first-fit", "event", 22686.50, 195024),
    ("fifo", "count", "rounds:300", 5979.02, 162000),
    ("fifo", "count", "rounds:60", 5131.27, 160140),
]
SIXTY = [
    ("fifo", 200.82, 3335),
    ("backfill", 190.68, 3271),
    ("srtf", 192.12, 3271),
    ("srsf", 195.90, 3315),
]
AT_MOST_EIGHT = [("fifo", 2815.97, 150107), ("srsf", 2702.40, 150107)]


@cache
def _workload(name: str) -> Workload:
    return load(str(trace(name)))


def _run(name: str, machines: str, settings: Settings) -> tuple[float, float]:
    experiment = prepare(_workload(name), cluster(machines), settings, stopwatch=time.perf_counter)
    summary = experiment.finish()
    assert summary.finished == len(_workload(name).jobs)
    assert summary.jct_mean_s is not None
    assert summary.end_s is not None
    return round(summary.jct_mean_s, 2), summary.end_s


@pytest.mark.parametrize(("policy", "placement", "look", "average_s", "end_s"), COMMON)
def test_common960(policy: str, placement: str, look: str, average_s: float, end_s: float) -> None:
    settings = Settings(policy=policy, placement=placement, time=look)
    assert _run("common960.csv.gz", "8x8", settings) == (average_s, end_s)


@pytest.mark.parametrize(("policy", "average_s", "end_s"), SIXTY)
def test_sixty_jobs_of_tiresias(policy: str, average_s: float, end_s: float) -> None:
    settings = Settings(policy=policy, placement="count")
    assert _run("tiresias_60_job.csv.gz", "4x4", settings) == (average_s, end_s)


@pytest.mark.parametrize(("policy", "average_s", "end_s"), AT_MOST_EIGHT)
def test_common960_with_at_most_eight_devices(policy: str, average_s: float, end_s: float) -> None:
    settings = Settings(policy=policy, placement="count")
    assert _run("common960_max8.csv.gz", "8x8", settings) == (average_s, end_s)


def test_the_command_line_prints_the_same_number() -> None:
    """One real process, as a user would type it."""
    command = [
        *(sys.executable, "-m", "weft", "simulate", str(trace("common960.csv.gz"))),
        *("--cluster", "8x8", "--policy", "srtf", "--placement", "count", "--json"),
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    facts = json.loads(printed)
    assert round(facts["jct_mean_s"], 2) == 2875.34
    assert facts["jobs"] == facts["finished"] == 960
