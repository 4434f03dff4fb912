"""What becomes of company: each group is judged by how its own members run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.control.jobs import JobRecord
from treadle.control.jobs.company_judge import CompanyJudge
from treadle.control.jobs.job_kinds import kinds_of
from treadle.control.learning import Profiles
from treadle.control.loop import belief_on
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.job import Job, JobId, JobSpec, Profile
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import Measurement
from treadle.models.company.belief import kind_of
from treadle.models.learning.outcome import Outcome

CLUSTER = Cluster((Node("n0", 2, device_memory_gib=80.0),))


class Kept:
    """Speeds in company, as if they had been measured."""

    def __init__(self, shares: Mapping[JobId, float | None]) -> None:
        self._shares = shares

    def kept(self, job: JobId, others: Sequence[JobId], alone_per_s: float | None) -> float | None:
        del others, alone_per_s
        return self._shares[job]


def row(name: str, device: int, turn: int) -> Job:
    spec = JobSpec(name, 100.0, profile=Profile(busy=0.5, memory_gib=2.0, model=name))
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
    assert judge.look(rows, measured, 10.0) == []
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
    assert judge.look(rows, measured, 10.0) == []
    (parted,) = judge.look(rows, measured, 31.0)
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
    assert judge.look(rows, measured, 10.0) == judge.look(rows, measured, 60.0) == []
    judge.look([], [], 70.0)
    assert judge.changed() is None, "nothing is learned from half of a group"


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
        profiles.observe(kinds_of(record), Outcome(4, 100.0, whole=True, step_s=0.12))
    profiles.observe(kinds_of(both), Outcome(1, 100.0, whole=True, step_s=0.42))
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
