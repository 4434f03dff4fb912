"""A reason is the binding one: without what it names the job would start, or another shows."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from tests.properties.live_runs import LiveRun

from treadle.core.cluster import Node
from treadle.core.events import Event, JobCancelled, JobUpdated, NodeJoined
from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.policies import registry
from treadle.testing.live_case import LiveCase
from treadle.testing.strategies import live_cases

FIRST = 99  # a priority above all others
LARGE = 64  # devices of a node on which all jobs of a case fit


def without(run: LiveRun, job: Job, reason: Reason) -> Event | None:
    """What takes away what a reason names; None for reasons that no single fact takes away."""
    spec, numbers = job.spec, reason.numbers
    if reason.code in ("devices", "fragmentation", "type"):
        return NodeJoined(roomy(run, spec))
    if reason.code == "host":
        return JobUpdated(replace(spec, host_memory_gib=0.0, host_cores=0.0))
    if reason.code in ("priority", "rank", "order", "cost"):
        return JobUpdated(replace(spec, priority=FIRST))
    if reason.code == "reserved":
        return JobCancelled(str(numbers["for_job"]))
    return None


def roomy(run: LiveRun, spec: JobSpec) -> Node:
    """A node with room for every job, of a type that this one may use."""
    kinds = [node.device_type for node in run.nodes()]
    words = [word for word in spec.device_types if word not in ("any", "gpu")]
    named = [kind for kind in kinds if any(word.lower() in kind.lower() for word in words)]
    gpus = [kind for kind in kinds if kind != "cpu"]
    return Node("roomy", LARGE, (named or words or gpus or kinds)[0])


def reasons_bind(run: LiveRun, now: float) -> None:
    if not run.is_settled(now):
        return
    for job in [row for row in run.scheduler.jobs.values() if row.phase is Phase.WAITING]:
        if job.id in run.scheduler.unfit or job.id in run.scheduler.blocked:
            continue
        reason = run.scheduler.why(job.id, now)
        fact = without(run, job, reason)
        if fact is None:
            continue
        freed = run.scheduler.fork()
        actions = freed.step([fact], now)
        started = any(action.job == job.id for action in actions)
        if not started:
            left = freed.why(job.id, now)
            assert left != reason, f"{job.id} at {now:g} s: {reason} stands without it"


@pytest.mark.parametrize("name", registry.names())
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=live_cases())
def test_without_what_a_reason_names_a_job_starts_or_has_another(name: str, case: LiveCase) -> None:
    LiveRun(name, case, look=reasons_bind).to_the_end()
