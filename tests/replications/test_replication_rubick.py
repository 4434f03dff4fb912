"""Rubick's Table 4 in the simulator: the order of policies, and never more than 64 devices."""

from collections.abc import Sequence
from functools import cache
from time import process_time

import pytest
from tests.shared import thorough, trace

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.scheduler import Scheduler
from treadle.models.plans.planned import offering, standard
from treadle.replications import rubick
from treadle.replications.paper import hours
from treadle.sim.experiment import prepare
from treadle.traces.load import load
from treadle.traces.workload import Workload

CLUSTER = Cluster.grid(8, 8)


@cache
def workload(name: str) -> Workload:
    return load(str(trace(f"{name}.csv.gz")))


def watch(
    now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
) -> None:
    devices = [
        d for job in scheduler.jobs.values() if job.allocation for d in job.allocation.devices
    ]
    assert len(devices) == len(set(devices)) <= 64


@cache
def average_h(name: str, policy: str) -> float:
    chosen = rubick.settings(policy, {})
    run = prepare(workload(name), CLUSTER, chosen, stopwatch=process_time, observers=(watch,))
    summary = run.finish()
    assert summary.finished == 406
    return hours(summary)


def test_the_ablations_stand_in_the_papers_order() -> None:
    both, sizes, plans, neither = (
        average_h(rubick.BASE, name) for name in ("rubick", "rubick-r", "rubick-e", "rubick-n")
    )
    assert both < sizes < plans < neither


@pytest.mark.parametrize("name", [rubick.BASE, pytest.param(rubick.BEST_PLANS, marks=thorough)])
def test_rubick_is_as_much_faster_as_expected(name: str) -> None:
    ours = average_h(name, "rubick")
    assert average_h(name, "synergy") / ours >= 2.2
    assert average_h(name, "sia") / ours >= 1.6


def test_promises_cost_time_and_are_kept() -> None:
    planner = standard()
    specs = {job.id: offering(job, planner, 64, 8) for job in workload(rubick.BASE).jobs}

    def kept(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        watch(now, events, actions, scheduler)
        for job in scheduler.jobs.values():
            if job.allocation is None:
                served.discard(job.id)
            elif job.size < job.spec.asked:
                seconds = planner.iteration_s(job.spec, job.allocation)
                assert seconds is not None
                promised_s = specs[job.id].profile.iteration_s * (1 + 1e-6)
                assert seconds <= promised_s or job.id not in served, "a promise was taken back"
                if seconds <= promised_s:
                    served.add(job.id)

    served: set[str] = set()
    chosen = rubick.settings("rubick?promises=on", {})
    run = prepare(workload(rubick.BASE), CLUSTER, chosen, stopwatch=process_time, observers=(kept,))
    assert hours(run.finish()) > average_h(rubick.BASE, "rubick")


def test_promises_are_off_by_default() -> None:
    assert rubick.settings("rubick", {}).policy == "rubick?promises=off"
    assert rubick.settings("rubick?gate=0", {}).policy == "rubick?gate=0&promises=off"
    assert rubick.settings("rubick-e?promises=on", {}).policy == "rubick-e?promises=on"
    assert rubick.settings("sia", {}).policy == "sia"
