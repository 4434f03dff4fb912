"""Priorities, whatever the policy: no job loses devices for the sake of a lower one."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from tests.properties.live_runs import LiveRun

from treadle.core.actions import Change, Start, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.job import JobId, JobSpec
from treadle.policies import registry
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase
from treadle.testing.strategies import live_cases

EXAMPLES = min(6, settings().max_examples)


def case(devices: tuple[int, ...], *jobs: JobSpec) -> LiveCase:
    nodes = tuple(Node(f"n{number}", count) for number, count in enumerate(devices))
    return LiveCase(Cluster(nodes), jobs)


def elastic(name: str, most: int, length_s: float, at: float, priority: int) -> JobSpec:
    spec = job(name, length_s=length_s, at=at)
    return replace(spec, sizes=tuple(range(1, most + 1)), asked=most, priority=priority)


def rigid(name: str, size: int, length_s: float, at: float, priority: int) -> JobSpec:
    return replace(job(name, size=size, length_s=length_s, at=at), priority=priority)


GROWS_FOR_NOTHING = case(
    (8, 2),
    rigid("stays", 6, 5000.0, 61.0, 0),
    elastic("low", 7, 1000.0, 122.0, -10),
    rigid("large", 7, 10.0, 202.0, 0),
)


class Losses:
    """Jobs that were stopped or shrunk in a step in which no job of their priority gained."""

    def __init__(self) -> None:
        self._sizes: dict[JobId, int] = {}
        self._seen = 0  # orders
        self.found: list[tuple[float, JobId]] = []

    def __call__(self, run: LiveRun, now: float) -> None:
        orders, self._seen = run.orders[self._seen :], len(run.orders)
        rows, gained, lost = run.scheduler.jobs, list[int](), list[JobId]()
        for _, order in orders:
            before = self._sizes.get(order.job, 0)
            after = order.allocation.size if isinstance(order, Start | Change) else 0
            if after > before:
                gained.append(rows[order.job].spec.priority)
            elif after < before:
                lost.append(order.job)
        best = max(gained, default=-100)
        self.found += [(now, name) for name in lost if best < rows[name].spec.priority]
        self._sizes = {name: row.size for name, row in rows.items() if row.allocation is not None}


@pytest.mark.parametrize("name", registry.names())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@example(case=GROWS_FOR_NOTHING)
@given(case=live_cases())
def test_none_is_stopped_or_shrunk_for_a_lower_one(name: str, case: LiveCase) -> None:
    look = Losses()
    LiveRun(name, replace(case, quotas="", facts=()), look=look).to_the_end()
    assert look.found == []


@pytest.mark.parametrize("name", [name for name in registry.names() if name != "philly"])
def test_the_lowest_make_way_first(name: str) -> None:
    jobs = [
        rigid("low", 1, 5000.0, 20.0, 0),
        rigid("high", 1, 5000.0, 51.0, 10),
        rigid("urgent", 7, 5000.0, 172.0, 100),
    ]
    run = LiveRun(name, case((1, 1, 4, 2), *jobs)).to_the_end()
    orders = [order for at, order in run.orders if at == 172.0]
    assert [order.job for order in orders if isinstance(order, Stop)] == ["low"]
    assert [order.job for order in orders if isinstance(order, Start)] == ["urgent"]


def test_a_growth_that_its_nodes_forbid_keeps_no_other_job_waiting() -> None:
    bound = replace(elastic("bound", 2, 5000.0, 0.0, 0), nodes=("n1",))
    for name in registry.names():
        run = LiveRun(name, case((1, 1), bound, rigid("short", 1, 100.0, 320.0, 0))).to_the_end()
        assert run.started_at["short"] == 320.0, name


def test_what_a_higher_level_stopped_is_no_loss_of_a_growth_beside_it() -> None:
    grows = replace(rigid("grows", 4, 4000.0, 0.0, 0), sizes=(4, 6))
    stopped = rigid("stopped", 4, 4000.0, 0.0, 0)
    run = LiveRun("optimus", case((8,), grows, stopped, rigid("urgent", 2, 1500.0, 1000.0, 10)))
    changes = [(at, order) for at, order in run.to_the_end().orders if isinstance(order, Change)]
    assert [(at, order.job, order.allocation.size) for at, order in changes][:1] == [
        (1000.0, "grows", 6)
    ]


def test_a_stop_that_does_not_pay_is_not_made_for_a_preempted_job() -> None:
    jobs = [
        rigid("preempted", 2, 5000.0, 0.0, 0),
        rigid("almost done", 4, 1100.0, 0.0, 0),
        rigid("urgent", 2, 600.0, 1000.0, 10),
        rigid("short", 2, 90.0, 1000.0, 0),
    ]
    run = LiveRun("srtf", case((2, 4), *jobs)).to_the_end()
    assert [order.job for _, order in run.orders if isinstance(order, Stop)] == ["preempted"]
    assert run.ended_at["almost done"] == 1100.0
