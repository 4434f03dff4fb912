"""Paused jobs in a decision: each waits for its own devices, and what it keeps is not free.

No policy sees them. One that may go on does so before anything of its level or a lower one starts
on its devices; what runs there of a lower level makes way for it as for a job that starts.

A job that keeps checkpoints is frozen instead of stopped where those that take its devices are
expected to be gone within what a restart would cost it. Nothing that would stay longer starts
there meanwhile. If they stay longer all the same it is stopped after all, and may start elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf
from typing import NamedTuple, Self

from treadle.core.allocation import Pause
from treadle.core.cluster import Device
from treadle.core.company import needed_gib
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.models.change_costs import restart_s
from treadle.policies.live.costs import left_s
from treadle.policies.live.eligibility import Level, LevelOf
from treadle.policies.live.patience import due_at
from treadle.policies.live.plan import Plan


class Company(NamedTuple):
    """Whether those that took the devices of a job that keeps checkpoints are soon gone."""

    belief: PerformanceModel
    now: float
    unknown_s: float  # what a restart is assumed to cost a job of which it was not measured

    def are_soon_gone(self, others: Iterable[Job], job: Job) -> bool:
        """Whether they are expected to end within what a restart would cost the job."""
        most_s = restart_s(job.spec, self.unknown_s)
        return all(left_s(other, self.belief, self.now) <= most_s for other in others)

    def until(self, job: Job, since_at: float) -> float:
        """When a job that was frozen for them has waited too long; inf: it can only wait."""
        return since_at + 2.0 * restart_s(job.spec, self.unknown_s) if job.spec.resumable else inf


class Parking(NamedTuple):
    """The paused jobs that may go on, in the policy's order."""

    company: Company
    jobs: Sequence[Job] = ()
    soon: Set[JobId] = frozenset()  # jobs whose devices are expected to be free soon
    late: Set[JobId] = frozenset()  # jobs of which that was expected, in vain

    @classmethod
    def of(cls, snapshot: Snapshot, company: Company, for_whom: Mapping[JobId, JobId]) -> Self:
        """for_whom: jobs that were stopped or paused for others."""
        if not snapshot.paused:
            return cls(company)
        jobs = [job for job in snapshot.waiting() if job.parked is not None]
        soon, late = set[JobId](), set[JobId]()
        for job in jobs:
            if job.spec.resumable and job.id in for_whom and job.parked is not None:
                in_time = company.now < company.until(job, job.since_at)
                there = [snapshot.jobs[name] for name in snapshot.on(job.parked.devices)]
                ends = in_time and company.are_soon_gone(there, job)
                (soon if ends else late).add(job.id)
        return cls(company, jobs, soon, late)

    def levels(self, level_of: LevelOf) -> set[Level]:
        return set(map(level_of, self.jobs))

    def hidden_in(self, snapshot: Snapshot) -> Snapshot:
        """What the rest of the decision sees."""
        return snapshot.hiding(job.id for job in self.jobs) if self.jobs else snapshot

    def kept_from(self, plan: Plan, job: Job, level_of: LevelOf) -> set[Device]:
        """Devices that are kept for paused jobs whose patience is over (patience.py).

        Else those of a large one might never be free together again. Those of one that is soon
        to go on are kept from jobs that would stay longer.
        """
        level, found, now = level_of(job), set[Device](), plan.snapshot.now
        for each in self.jobs:
            if each.id == job.id:
                break  # Those behind it wait for it.
            if each.parked is None or plan.has(each.id) is not None or level_of(each) > level:
                continue
            soon = each.id in self.soon and not self.company.are_soon_gone([job], each)
            if soon or now >= due_at(each, self.company.belief, now):
                found.update(each.parked.devices)
        return found

    def until(self, plan: Plan) -> list[float]:
        """When those are tried again that could not go on, or have waited for too long."""
        now, rows = plan.snapshot.now, plan.snapshot.jobs
        again = [job.ready_at for job in self.jobs if job.ready_at > now]
        again += [self.company.until(rows[name], now) for name in plan.paused]
        late = (self.company.until(job, job.since_at) for job in self.jobs if job.id in self.soon)
        return [*again, *late]

    def go_on(
        self, plan: Plan, level: Level, level_of: LevelOf, lower: Sequence[JobId] = ()
    ) -> None:
        """Let those of a level go on whose devices are free, or come free if others make way.

        lower: running jobs that make way for this level.
        """
        now = plan.snapshot.now
        for job in self.jobs:
            held = job.parked
            if held is None or level_of(job) != level or job.ready_at > now:
                continue
            if plan.has(job.id) is None:
                plan.go_on(job, held, lower)
            if plan.has(job.id) is None and job.id in self.late:
                plan.give_up(job, held)


def freeze_those_soon_back(plan: Plan, names: Iterable[JobId], company: Company) -> None:
    """Freeze those of these jobs that keep checkpoints and would be stopped for a short while."""
    rows = plan.snapshot.jobs
    for name in names:
        job = rows[name]
        held = job.allocation
        if held is None or plan.changes[name] is not None or name in plan.paused:
            continue
        if not job.spec.resumable or Pause.FROZEN not in job.pauses:
            continue
        there = [rows[other] for other in plan.on(held.devices)]
        if there and company.are_soon_gone(there, job) and plan.room.leaves(job, held, there):
            plan.pause(job, held, Pause.FROZEN)


def leave_what_is_kept(plan: Plan) -> None:
    """Start nothing beside what frozen jobs keep of a device's memory if both do not fit."""
    rows, kept = plan.snapshot.jobs, plan.room.kept_gib
    for device in kept:
        here = plan.on([device])
        room_gib = plan.room.device_gib(device) - sum(needed_gib(rows[name].spec) for name in here)
        for name in reversed(here):
            if room_gib >= 0:
                break
            if rows[name].allocation is None:
                plan.drop(rows[name])
                room_gib += needed_gib(rows[name].spec)
