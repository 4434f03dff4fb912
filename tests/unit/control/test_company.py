"""Jobs that share a device: how company is judged, said, and parted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.control.memory import ME, Bench, play_on
from treadle.control.jobs import JobRecord, parting
from treadle.control.jobs.company_judge import CompanyJudge
from treadle.control.jobs.job_kinds import likeness_of
from treadle.control.learning import Profiles
from treadle.control.loop import PolicyInCharge, belief_on
from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import How, Verdict
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import AttemptEnded, JobFinished, JobStarted, JobSubmitted, JobUpdated
from treadle.core.job import Job, JobId, JobSpec, Profile
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import Measurement
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.engines.memory_world import MemoryWorld
from treadle.models.company.belief import kind_of
from treadle.models.company.predictor import predict
from treadle.models.company.record import CompanyRecord
from treadle.models.learning.outcome import Outcome
from treadle.wire.jobs import State

CLUSTER = Cluster((Node("n0", 2, device_memory_gib=80.0),))


class Kept:
    """Speeds in company, as if they had been measured; and who was never alone."""

    def __init__(self, shares: Mapping[JobId, float | None], tried: str = "") -> None:
        self._shares, self._tried = shares, tried
        self.found: dict[JobId, float] = {}

    def at_work(self, job: JobId) -> bool:
        del job
        return True

    def tried(self, job: JobId, others: Sequence[JobId]) -> bool:
        del others
        return job in self._tried

    def beside(self, job: JobId, others: Sequence[JobId], busy: float, kept: float) -> None:
        del others, kept
        self.found[job] = busy

    def kept(self, job: JobId, others: Sequence[JobId], alone_per_s: float | None) -> float | None:
        del others, alone_per_s
        return self._shares[job]


def row(name: str, device: int, turn: int, busy: float | None = 0.5) -> Job:
    spec = JobSpec(name, 100.0, profile=Profile(busy=busy, memory_gib=2.0, model=name))
    allocation = Allocation((Device("n0", device),), turn=turn)
    return Job(spec, 0, Phase.RUNNING, 0.0, 0.0, allocation)


def test_groups_with_and_without_mps_are_remembered_apart() -> None:
    """1. Jobs a and b share under MPS, c and d without. 2. Both groups end."""
    belief = belief_on(CLUSTER)
    rows = [row("a", 0, 0), row("b", 0, 1), row("c", 1, 0), row("d", 1, 1)]
    seen = Kept({"a": 0.7, "b": 0.7, "c": 0.7, "d": 0.7})
    # Only what the judge asks of them.
    jobs = cast("Any", SimpleNamespace(records={}))
    learner = cast("Any", SimpleNamespace(seen=seen))
    judge = CompanyJudge(belief, jobs, learner)
    measured = [Measurement(AttemptId(r.id, 1), mps=r.id in "ab") for r in rows]
    assert judge.look(rows, measured, 10.0).parted == []
    judge.look([], [], 20.0)
    a, b, c, d = (kind_of(each.spec) for each in rows)
    factor = belief.record.factor
    assert factor(a, b, mps=True) != 1.0
    assert factor(c, d, mps=False) != 1.0
    assert factor(a, b, mps=False) == factor(c, d, mps=True) == 1.0


def test_a_job_that_prints_no_steps_does_not_hide_what_the_other_loses() -> None:
    """The speed of a is known, and below its floor. Nothing is known of b."""
    belief = belief_on(CLUSTER)
    rows = [row("a", 0, 0), row("b", 0, 1)]
    jobs = cast("Any", SimpleNamespace(records={}))
    learner = cast("Any", SimpleNamespace(seen=Kept({"a": 0.1, "b": None})))
    judge = CompanyJudge(belief, jobs, learner)
    measured = [Measurement(AttemptId(r.id, 1)) for r in rows]
    assert judge.look(rows, measured, 10.0).parted == []
    (parted,) = judge.look(rows, measured, 31.0).parted
    assert parted.jobs == {"a", "b"}
    assert parted.why == "job a keeps 0.10 of its speed alone; at least 0.50 was meant"
    assert belief.refuses([r.spec for r in rows]) is not None, "such jobs join no more"


def test_the_sum_is_judged_only_where_all_speeds_are_known() -> None:
    """A keeps most of its speed. B prints no steps, so their sum is not known."""
    belief = belief_on(CLUSTER)
    rows = [row("a", 0, 0), row("b", 0, 1)]
    jobs = cast("Any", SimpleNamespace(records={}))
    learner = cast("Any", SimpleNamespace(seen=Kept({"a": 0.8, "b": None})))
    judge = CompanyJudge(belief, jobs, learner)
    measured = [Measurement(AttemptId(r.id, 1)) for r in rows]
    assert all(not judge.look(rows, measured, at).parted for at in (10.0, 60.0))
    judge.look([], [], 70.0)
    assert judge.changed() is None, "nothing is learned from half of a group"


@pytest.mark.parametrize(("kept", "busy", "stays"), [(0.97, 0.2, True), (0.35, 1.0, False)])
def test_what_the_others_keep_says_what_a_job_needs_that_was_never_alone(
    kept: float, busy: float, stays: bool
) -> None:
    """A, known to keep its device busy for half of the time, keeps so much beside b."""
    belief = belief_on(CLUSTER)
    rows = [row("a", 0, 0), row("b", 0, 1, busy=None)]
    seen = Kept({"a": kept, "b": None}, tried="b")
    jobs = cast("Any", SimpleNamespace(records={}))
    judge = CompanyJudge(belief, jobs, cast("Any", SimpleNamespace(seen=seen)))
    measured = [Measurement(AttemptId(r.id, 1)) for r in rows]
    assert judge.look(rows, measured, 10.0).newcomer
    assert seen.found["b"] == pytest.approx(busy, abs=0.1)
    parted, newcomer = judge.look(rows, measured, 31.0)
    assert (parted == []) is stays
    assert not newcomer


def test_two_newcomers_beside_a_known_job_count_as_equal() -> None:
    """A keeps as much as it would beside two jobs that are busy for 0.4 of the time."""
    rows = [row("a", 0, 0), row("b", 0, 1, busy=None), row("c", 0, 2, busy=None)]
    kept, *_ = predict([(0.5, None, None), *[(0.4, None, None)] * 2])
    seen = Kept({"a": kept, "b": None, "c": None}, tried="bc")
    jobs = cast("Any", SimpleNamespace(records={}))
    judge = CompanyJudge(belief_on(CLUSTER), jobs, cast("Any", SimpleNamespace(seen=seen)))
    judge.look(rows, [Measurement(AttemptId(r.id, 1)) for r in rows], 10.0)
    assert seen.found == {"b": 0.4, "c": 0.4}


def test_newcomers_beside_no_known_job_count_as_busy_as_their_device() -> None:
    """The known job has ended: nothing would tell more until one of them is alone."""
    rows = [row("b", 0, 0, busy=None), row("c", 0, 1, busy=None)]
    seen = Kept({"b": None, "c": None}, tried="bc")
    jobs = cast("Any", SimpleNamespace(records={}))
    judge = CompanyJudge(belief_on(CLUSTER), jobs, cast("Any", SimpleNamespace(seen=seen)))
    judge.look(rows, [Measurement(AttemptId(r.id, 1), busy=0.35) for r in rows], 10.0)
    assert seen.found == {"b": 0.7, "c": 0.7}


class Asked(Kept):
    """Keeps the speeds alone that it was asked to compare with."""

    def __init__(self) -> None:
        super().__init__({"1": None, "2": None})
        self.alone_per_s: dict[JobId, float | None] = {}

    def kept(self, job: JobId, others: Sequence[JobId], alone_per_s: float | None) -> float | None:
        self.alone_per_s[job] = alone_per_s
        return super().kept(job, others, alone_per_s)


def test_a_speed_is_compared_with_that_on_as_many_devices() -> None:
    """Jobs of this kind ran on four devices and on one; job 1 shares one, job 2's was on four."""
    both, larger = (
        JobRecord(id=f"{n}", number=n, name="", owner="me", command=(f"x{n}",), submitted_at=1.0)
        for n in (1, 2)
    )
    profiles = Profiles()
    for record in (both, larger):
        profiles.observe(likeness_of(record), Outcome(4, 100.0, whole=True, step_s=0.12))
    profiles.observe(likeness_of(both), Outcome(1, 100.0, whole=True, step_s=0.42))
    seen = Asked()
    jobs = cast("Any", SimpleNamespace(records={"1": both, "2": larger}))
    learner = cast("Any", SimpleNamespace(seen=seen, profiles=profiles))
    rows = [
        one._replace(spec=replace(one.spec, sizes=(1, 2, 4), asked=4))
        for one in (row("1", 0, 0), row("2", 0, 1))
    ]
    judge = CompanyJudge(belief_on(CLUSTER), jobs, learner)
    judge.look(rows, [Measurement(AttemptId(one.id, 1)) for one in rows], 10.0)
    assert seen.alone_per_s["1"] == pytest.approx(1 / 0.42)
    assert seen.alone_per_s["2"] is None, "a guess at one device parts no jobs"


# -- A job that runs out of GPU memory beside another does not pay for it; the pair is kept apart --


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


@pytest.mark.parametrize("policy", ["fifo", "muri-l"])
def test_the_victim_takes_the_device_of_a_hog_that_can_resume(policy: str) -> None:
    scheduler = sharing(policy, seen("h", resumable=True), victim=seen("v"))
    actions = out_of_memory(scheduler, 60.0)
    (stop,) = [action for action in actions if isinstance(action, Stop)]
    (start,) = [action for action in actions if isinstance(action, Start)]
    assert stop.job == "h"
    assert (start.job, start.allocation, start.after) == ("v", Allocation((DEVICE,)), ("h",))


@pytest.mark.parametrize("policy", ["fifo", "muri-l"])
def test_nobody_joins_a_hog_that_cannot_resume_and_the_victim_is_next(policy: str) -> None:
    """1. An exclusive job waits before the victim comes. 2. The victim runs out of memory.
    3. A newcomer may not join the hog. 4. The hog ends: the victim runs, before the others."""
    scheduler = sharing(policy, seen("h"), seen("early", exclusive=True), victim=seen("v"))
    assert out_of_memory(scheduler, 60.0) == []
    assert told(scheduler, 61.0, seen("new")) == []
    actions = scheduler.step([JobFinished("h", scheduler.jobs["h"].action)], 70.0)
    assert [action.job for action in actions if isinstance(action, Start)] == ["v"]


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


# -- `describe` says with whom a job shared and for how long: both sides alike, over restarts too --


SLOT = Device("here", 0)


class Together(Policy):
    """Up to three jobs share the one slot."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        taken = set(snapshot.tenants.get(SLOT, {}))
        changes: dict[str, Allocation | None] = {}
        for job in snapshot.waiting():
            turn = min({0, 1, 2} - taken, default=None)
            if turn is not None:
                taken.add(turn)
                changes[job.id] = Allocation((SLOT,), turn=turn)
        return Schedule(changes)


def share(here: Bench) -> None:
    here.live.context.scheduler.set_policy(Together(), here.live.context.clock.now())


async def starts(here: Bench) -> str:
    job = await here.runs()
    await here.settle()
    return job


async def cancelled(here: Bench, job: str) -> None:
    await here.live.cancel(ME, job)
    await here.reached(job, State.CANCELLED)
    await here.settle()


def world() -> MemoryWorld:
    return MemoryWorld.of(Node("here", 1, "none"))


def test_newcomers_are_limited_to_what_they_are_taken_to_need(tmp_path: Path) -> None:
    """A says that it needs 40 of 80 GiB, and b and c say nothing."""

    async def story(here: Bench) -> None:
        share(here)
        jobs = [await here.runs("forever", gpu_memory_gib=40.0), await here.runs("forever")]
        jobs.append(await here.runs("forever"))
        newest = [here.world.newest(job) for job in jobs]
        limits = [attempt.launch.device_memory_gib for attempt in newest if attempt is not None]
        assert limits == [40.0, pytest.approx(0.4 * 80), pytest.approx(0.4 * 80)]

    play_on(MemoryWorld.of(Node("here", 1, "H200", device_memory_gib=80.0)), story, tmp_path)
