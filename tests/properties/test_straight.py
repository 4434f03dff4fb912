"""The straight loop gives what the simulation by facts and orders gives, to the last digit."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import SHARED

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.sim.experiment import Experiment, fit_to, prepare
from treadle.sim.settings import Settings
from treadle.testing.strategies import clusters, workloads
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

POLICIES = (
    "fifo",
    "backfill",
    "sjf",
    "sjf?strict=off",
    "srtf",
    "srtf?repack=on",
    "srsf",
    "las",
    "las?share=1&margin_s=0",
    "las?quantum_s=7",
    "gittins",
    "tiresias?limits=4:9",
    "tiresias?limits=4:9&promote=2",
    "tiresias?limits=4:9&promote=2&by_arrival=on",
    "tiresias?limits=4:9&as_lists=on",
)
PLACEMENTS = ("consolidate", "count", "first-fit", "balance", "spread")
TIMES = ("event", "rounds:7")
EFFECTS = ("none", "nodes=0.85,racks=0.76")
FILES = sorted(path.name for path in (SHARED / "traces").glob("*.gz"))
JOBS_MAX = 1000  # of a trace; all of them take minutes


def left(experiment: Experiment) -> dict[str, Any]:
    """All that a run leaves behind."""
    ended: list[int] = []
    recorder, simulation = experiment.recorder, experiment.simulation
    summary = experiment.finish(ended.append)
    return {
        "summary": summary,
        "histories": {name: vars(one) for name, one in recorder.histories.items()},
        "overtaken": [recorder.overtaken(name) for name in recorder.histories],
        "holds": recorder.holds,
        "series": recorder.series,
        "waits": recorder.wait_s,
        "unfit": simulation.scheduler.unfit,
        "rows": simulation.scheduler.rows,
        "ended": (simulation.now, ended),
    }


def compare(workload: Workload, machines: Cluster, settings: Settings) -> None:
    made = prepare(workload, machines, settings, stopwatch=lambda: 0.0)
    assert made.straight is not None
    by_facts = prepare(workload, machines, settings, stopwatch=lambda: 0.0)
    assert left(made) == left(replace(by_facts, straight=None))


@pytest.mark.parametrize("policy", POLICIES)
@given(
    clusters(),
    workloads(size_max=16, jobs_max=20),
    st.sampled_from(PLACEMENTS),
    st.sampled_from(TIMES),
    st.sampled_from(EFFECTS),
)
def test_drawn_workloads(
    policy: str, machines: Cluster, jobs: list[Any], place: str, time: str, effects: str
) -> None:
    settings = Settings(policy=policy, placement=place, time=time, effects=effects)
    compare(Workload("drawn", tuple(jobs)), machines, settings)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_traces(file: str) -> None:
    try:
        workload = load(str(SHARED / "traces" / file))
    except InvalidInputError:
        pytest.skip("it holds no jobs")
    machines = cluster("32x8")
    few = replace(workload, jobs=workload.jobs[:JOBS_MAX])
    for policy in ("fifo", "backfill", "sjf", "srtf", "las", "tiresias"):
        compare(fit_to(few, machines, "cut"), machines, Settings(policy=policy))
