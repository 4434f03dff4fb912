"""A job that runs out of GPU memory beside another does not pay for it; the pair is kept apart."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.control.jobs import parting
from treadle.control.jobs.company_judge import CompanyJudge
from treadle.control.loop import PolicyInCharge, belief_on
from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import How, Verdict
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import AttemptEnded, JobFinished, JobStarted, JobSubmitted, JobUpdated
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.models.company.belief import kind_of
from treadle.models.company.record import CompanyRecord

DEVICE = Device("n0", 0)
GPU = Cluster((Node("n0", 1, device_memory_gib=80.0, cores=16),))
OOM = Verdict("resource", "gpu-out-of-memory", "A GPU ran out of memory.", "retry")


def seen(name: str, **fields: object) -> JobSpec:
    given = {"resumable": False, "owner": name, **fields}
    profile = Profile(busy=0.2, memory_gib=4.0, model=name)
    return JobSpec(name, 1000.0, profile=profile, **given)  # type: ignore[arg-type]


def told(scheduler: Scheduler, now: float, *specs: JobSpec) -> list[Action]:
    actions = scheduler.step([JobSubmitted(spec) for spec in specs], now)
    starts = [action for action in actions if isinstance(action, Start)]
    scheduler.step([JobStarted(a.job, a.id, 0.0, 1.0) for a in starts], now)
    return actions


def sharing(policy: str, hog: JobSpec, *others: JobSpec, victim: JobSpec) -> Scheduler:
    """The hog runs and the victim beside it; the others were submitted in between."""
    scheduler = Scheduler(PolicyInCharge().make(policy, "consolidate", belief_on(GPU)), GPU)
    told(scheduler, 0.0, hog)
    told(scheduler, 1.0, *others)
    told(scheduler, 5.0, victim)
    assert set(scheduler.tenancy.tenants[DEVICE].values()) == {hog.id, victim.id}
    return scheduler


def out_of_memory(scheduler: Scheduler, now: float) -> list[Action]:
    row = scheduler.jobs["v"]
    end = AttemptEnded("v", row.action, 1, How.EXITED, 1, verdict=OOM, beside=("h",))
    return scheduler.step([end, *parting(end, row, (), ())], now)


@pytest.mark.parametrize("policy", ["fifo", "afs", "las", "muri-l"])
def test_the_victim_takes_the_device_of_a_hog_that_can_resume(policy: str) -> None:
    scheduler = sharing(policy, seen("h", resumable=True), victim=seen("v"))
    actions = out_of_memory(scheduler, 60.0)
    (stop,) = [action for action in actions if isinstance(action, Stop)]
    (start,) = [action for action in actions if isinstance(action, Start)]
    assert stop.job == "h"
    assert (start.job, start.allocation, start.after) == ("v", Allocation((DEVICE,)), ("h",))


@pytest.mark.parametrize("policy", ["fifo", "afs", "las", "muri-l"])
def test_nobody_joins_a_hog_that_cannot_resume_and_the_victim_is_next(policy: str) -> None:
    """1. An exclusive job waits before the victim comes. 2. The victim runs out of memory.
    3. A newcomer may not join the hog. 4. The hog ends: the victim runs, before the others."""
    scheduler = sharing(policy, seen("h"), seen("early", exclusive=True), victim=seen("v"))
    assert out_of_memory(scheduler, 60.0) == []
    assert told(scheduler, 61.0, seen("new")) == []
    actions = scheduler.step([JobFinished("h", scheduler.jobs["h"].action)], 70.0)
    assert [action.job for action in actions if isinstance(action, Start)] == ["v"]


def test_the_victim_goes_before_no_job_of_higher_priority() -> None:
    scheduler = sharing("fifo", seen("h"), victim=seen("v"))
    out_of_memory(scheduler, 60.0)
    told(scheduler, 61.0, seen("urgent", exclusive=True, priority=5))
    actions = scheduler.step([JobFinished("h", scheduler.jobs["h"].action)], 70.0)
    assert [action.job for action in actions] == ["urgent"]


def test_the_victim_goes_first_once() -> None:
    """It has run again and was preempted: from then on it waits as any job."""
    scheduler = sharing("fifo", seen("h", resumable=True), victim=seen("v", resumable=True))
    out_of_memory(scheduler, 60.0)
    row = scheduler.jobs["v"]
    assert row.spec.exclusive
    stopped = AttemptEnded("v", row.action, 2, How.STOPPED)
    (fact,) = parting(stopped, row, (), ())
    assert fact == JobUpdated(replace(row.spec, ousted_by=()))
    assert parting(stopped, row._replace(spec=fact.spec), (), ()) == []


def test_out_of_memory_keeps_the_pair_apart_and_calls_no_kind_faulty() -> None:
    scheduler = sharing("fifo", seen("h"), victim=seen("v"))
    out_of_memory(scheduler, 60.0)
    belief = belief_on(GPU)
    record = SimpleNamespace(exclusive=False, mps_failed=False, memory_failed=True)
    jobs = cast("Any", SimpleNamespace(records={"v": record}))
    judge = CompanyJudge(belief, jobs, cast("Any", SimpleNamespace()))
    judge.look(scheduler.jobs.values(), [], 60.0)
    victim, hog = seen("v"), seen("h")
    assert not any(belief.record.faulty(kind_of(spec)) for spec in (victim, hog))
    assert belief.refuses([victim, hog]) == "jobs like v and h ran out of GPU memory together"
    assert belief.refuses([hog, victim]) is not None
    assert belief.refuses([victim, seen("c")]) is belief.refuses([hog, seen("c")]) is None
    kept = judge.changed()
    assert kept is not None
    restored = CompanyRecord.restored(kept)
    assert restored.apart(kind_of(hog), kind_of(victim))
    assert restored.stored() == kept
