"""A job that could run alone is not passed over without end, whatever it needs.

tests/properties/test_live_decision.py asks the same of every policy but sjf.
"""

from dataclasses import replace

import pytest

from tests.properties.live_runs import HOUR_S, PATIENCE_S, LiveRun
from tests.shared import THOROUGH
from treadle.core.cluster import Cluster, Node
from treadle.core.job import JobSpec
from treadle.policies import registry
from treadle.policies.live.patience import LENGTHS
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase

EACH_S = 1800.0
SLACK_S = 900.0


def starved(spec: JobSpec, *, hours: float) -> LiveCase:
    """A node of 8 devices and 100 GiB, and ever new jobs of half an hour that take all of that."""
    cluster = Cluster((Node("n0", 8, memory_gib=100.0),))
    later = [
        replace(
            job(f"j{n}", length_s=EACH_S, at=n * EACH_S / 5), host_memory_gib=20.0, resumable=False
        )
        for n in range(int(hours * HOUR_S / EACH_S * 5))
    ]
    return LiveCase(cluster, tuple(sorted((spec, *later), key=lambda each: each.submit_at)))


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", registry.names() if THOROUGH else ("sjf", "weave-l"))
def test_a_job_that_needs_most_of_a_nodes_memory_starts_in_time(name: str, size: int) -> None:
    spec = replace(job("large", size=size, length_s=HOUR_S, at=3000.0), host_memory_gib=80.0)
    limit_s = max(PATIENCE_S, LENGTHS * HOUR_S) + EACH_S + SLACK_S
    run = LiveRun(name, starved(spec, hours=8.0)).to_the_end(until=3000.0 + limit_s + 1.0)
    assert run.started_at.get("large", 1e9) <= 3000.0 + limit_s
