"""The straight loop gives what the simulation by facts and orders gives, to the last digit."""

import gzip
from dataclasses import replace
from random import Random

import pytest

from tests.shared import trace
from treadle.core.cluster import Cluster, Node
from treadle.core.job import JobSpec, Profile
from treadle.sim.experiment import Experiment, fit_to, prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
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
    "las?quantum_s=600",
    "gittins",
    "tiresias",
    "tiresias?promote=2",
    "tiresias?by_arrival=on",
    "tiresias?as_lists=on",
)


def outcome(experiment: Experiment) -> dict[str, object]:
    """All that a run leaves behind."""
    recorder, scheduler = experiment.recorder, experiment.simulation.scheduler
    return {
        "summary": experiment.finish(),
        "histories": {name: vars(history) for name, history in recorder.histories.items()},
        "overtaken": [recorder.overtaken(name) for name in recorder.histories],
        "holds": recorder.holds,
        "series": recorder.series,
        "waits": recorder.wait_s,
        "unfit": scheduler.unfit,
        "rows": scheduler.rows,
        "ended": experiment.simulation.now,
    }


def both(workload: Workload, machines: Cluster, settings: Settings) -> tuple[dict, dict]:
    made = [prepare(workload, machines, settings, stopwatch=lambda: 0.0) for _ in range(2)]
    assert made[0].straight is not None
    made[1] = replace(made[1], straight=None)
    return outcome(made[0]), outcome(made[1])
