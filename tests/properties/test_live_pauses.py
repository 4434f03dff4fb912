"""Under the live decision jobs without checkpoints make way by pausing, and none loses its work."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.live_runs import LiveRun

from treadle.core.actions import Change, Stop
from treadle.core.allocation import Pause
from treadle.core.cluster import Cluster, Node
from treadle.core.job import JobSpec
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase

BOTH = (Pause.FROZEN, Pause.SUSPENDED)
EXAMPLES = settings(
    max_examples=min(40, settings().max_examples),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def jobs(draw: st.DrawFn, place: int) -> JobSpec:
    """A job that comes while earlier ones run, and before them."""
    size = draw(st.sampled_from([1, 1, 2]))
    made = job(f"j{place}", length_s=draw(st.floats(5.0, 200.0)), at=20.0 * place)
    return replace(
        made,
        sizes=(size,),
        asked=size,
        pauses=draw(st.sampled_from([BOTH, BOTH, BOTH[:1], ()])),
        guaranteed=draw(st.sampled_from([False, False, True])),
        resumable=draw(st.sampled_from([False, False, True])),
        preemptible=draw(st.sampled_from([True, True, False])),
        priority=draw(st.sampled_from([0, place])),
        device_memory_gib=draw(st.sampled_from([0.0, 20.0, 50.0])),
        exclusive=draw(st.sampled_from([True, True, False])),
        host_memory_gib=draw(st.sampled_from([0.0, 0.0, 25.0])),
        host_cores=draw(st.sampled_from([0.0, 0.0, 3.0])),
    )


@st.composite
def cases(draw: st.DrawFn) -> LiveCase:
    gib = draw(st.sampled_from([80.0, 80.0, 0.0]))
    node = Node("n0", 2, cores=4, memory_gib=64.0, device_memory_gib=gib)
    nodes = (node, replace(node, name="n1"))[: draw(st.integers(1, 2))]
    return LiveCase(Cluster(nodes), tuple(draw(jobs(place)) for place in range(6)))


@pytest.mark.parametrize("text", ["backfill", "srtf", "weave-l", "muri-l"])
@EXAMPLES
@given(case=cases())
def test_jobs_that_are_paused_go_on_where_they_were_and_end(text: str, case: LiveCase) -> None:
    run = LiveRun(text, case).to_the_end()
    specs = {spec.id: spec for spec in case.jobs}
    paused = Counter(
        order.job
        for _, order in run.orders
        if isinstance(order, Change) and order.allocation.paused
    )
    stopped = {order.job for _, order in run.orders if isinstance(order, Stop)}
    for name in paused:
        assert specs[name].resumable or not specs[name].guaranteed
        assert specs[name].preemptible
    assert all(specs[name].gives_way for name in stopped)
    assert not run.scheduler.paused
    assert run.ended_at.keys() >= run.started_at.keys()
