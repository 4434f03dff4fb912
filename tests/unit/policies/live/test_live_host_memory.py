"""Host memory and cores under the live decision."""

from dataclasses import replace
from typing import Any

from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.testing.builders import job, policy

HOST = Cluster((Node("n0", 4, cores=8, memory_gib=64.0),))


def asking(name: str, memory_gib: float = 0.0, cores: float = 0.0, **details: Any) -> JobSpec:
    return replace(job(name, **details), host_memory_gib=memory_gib, host_cores=cores)


def begun(text: str, cluster: Cluster, *jobs: JobSpec) -> tuple[Scheduler, list[str]]:
    scheduler = Scheduler(policy(f"{text}+live"), cluster)
    scheduler.step([JobSubmitted(spec) for spec in jobs], 0.0)
    return scheduler, [name for name, row in scheduler.jobs.items() if row.allocation is not None]


def test_devices_are_on_one_node_and_memory_on_another() -> None:
    nodes = (Node("n0", 2, memory_gib=100.0), Node("n1", 1, memory_gib=64.0))
    scheduler, running = begun("backfill", Cluster(nodes), asking("full", 90.0), asking("b", 50.0))
    assert running == ["full", "b"]
    scheduler.step([JobSubmitted(asking("x", 12.0))], 1.0)
    rows = (("n0", 10.0, 0.0, 100.0, 0.0, 1, 2), ("n1", 14.0, 0.0, 64.0, 0.0, 0, 1))
    found = Reason("host", {"memory_gib": 12.0, "cores": 0.0, "nodes": rows})
    assert scheduler.why("x", 1.0) == found


def test_a_node_that_does_not_say_what_it_has_is_never_too_small() -> None:
    _, running = begun("backfill", Cluster.grid(1, 4), asking("a", 9e9, 1e6))
    assert running == ["a"]


def test_a_request_that_no_node_could_meet_never_fits() -> None:
    made = policy("backfill+live")
    assert made.never_fits(asking("a", 64.0, 8.0), HOST) is None
    assert made.never_fits(asking("a", 65.0), HOST) is not None
    assert made.never_fits(asking("a", 1.0, 9.0), HOST) is not None


def test_under_a_policy_in_which_no_job_overtakes_all_wait_behind_it() -> None:
    scheduler, _ = begun("fifo", HOST, asking("a", 40.0))
    scheduler.step([JobSubmitted(asking("b", 40.0)), JobSubmitted(job("c"))], 1.0)
    assert scheduler.jobs["c"].allocation is None
    found = Reason("order", {"first_job": "b", "asked": 1, "free": 3})
    assert scheduler.why("c", 1.0) == found


def test_the_same_if_the_memory_is_given_away_at_that_moment() -> None:
    _, running = begun("fifo", HOST, asking("a", 40.0), asking("b", 40.0), job("c"))
    assert running == ["a"]
