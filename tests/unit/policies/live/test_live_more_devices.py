"""With twice the devices no job takes longer, unless another one could not run before.

weave-l does not keep to this: it may give an elastic job all devices and let the other wait.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.properties.live_runs import LiveRun
from treadle.core.cluster import Cluster
from treadle.core.job import JobId, JobSpec
from treadle.policies import registry
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase

SLOWER = 1.1
SLACK_S = 10.0
DOUBLING = (1, 2, 4, 8)
PAIRS = {
    "a long and a short elastic job": (
        job("j0", size=4, sizes=DOUBLING, length_s=120.0),
        job("j1", size=1, sizes=(1, 2), length_s=60.0),
    ),
    "an elastic job and one of a fixed size": (
        job("j0", size=4, sizes=DOUBLING, length_s=900.0),
        job("j1", size=2, length_s=900.0),
    ),
}


def ends(name: str, jobs: tuple[JobSpec, ...], devices: int) -> Mapping[JobId, float]:
    jobs = tuple(
        replace(spec, profile=replace(spec.profile, restart_s=5.0, serial=0.05)) for spec in jobs
    )
    return LiveRun(name, LiveCase(Cluster.grid(1, devices), jobs)).to_the_end().ended_at


@pytest.mark.parametrize("jobs", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("name", [name for name in registry.names() if name != "weave-l"])
def test_more_devices_make_no_job_slower(name: str, jobs: tuple[JobSpec, ...]) -> None:
    few, many = ends(name, jobs, 4), ends(name, jobs, 8)
    for identity, at in few.items():
        assert many[identity] <= SLOWER * at + SLACK_S, identity
