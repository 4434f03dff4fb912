"""Paused jobs in a decision: each waits for its own devices, and what it keeps is not free.

No policy sees them. One that may go on does so before anything of its level or a lower one starts
on its devices; what runs there of a lower level makes way for it as for a job that starts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from treadle.core.cluster import Device
from treadle.core.company import needed_gib
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.policies.live.eligibility import Level, LevelOf
from treadle.policies.live.patience import due_at
from treadle.policies.live.plan import Plan

WAYS = ("off", "opportunistic", "all")


class Parking(NamedTuple):
    """The paused jobs that may go on, in the policy's order."""

    belief: PerformanceModel
    jobs: Sequence[Job] = ()

    @classmethod
    def of(cls, snapshot: Snapshot, belief: PerformanceModel) -> Self:
        if not snapshot.paused:
            return cls(belief)
        return cls(belief, [job for job in snapshot.waiting() if job.parked is not None])

    def levels(self, level_of: LevelOf) -> set[Level]:
        return set(map(level_of, self.jobs))

    def hidden_in(self, snapshot: Snapshot) -> Snapshot:
        """What the rest of the decision sees."""
        return snapshot.hiding(job.id for job in self.jobs) if self.jobs else snapshot

    def kept_from(self, plan: Plan, job: Job, level_of: LevelOf) -> set[Device]:
        """Devices that are kept for paused jobs whose patience is over (patience.py).

        Else those of a large one might never be free together again.
        """
        level, found, now = level_of(job), set[Device](), plan.snapshot.now
        for each in self.jobs:
            if each.id == job.id:
                break  # Those behind it wait for it.
            waits = plan.has(each.id) is None and now >= due_at(each, self.belief, now)
            if each.parked is not None and waits and level_of(each) <= level:
                found.update(each.parked.devices)
        return found

    def until(self, now: float) -> list[float]:
        """When those are tried again that could not go on."""
        return [job.ready_at for job in self.jobs if job.ready_at > now]

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


def who_may_pause(pause: str) -> Callable[[Job], bool]:
    """Which running jobs are paused for others: those that cannot resume, or would be stopped.

    pause: off, opportunistic or all.
    """
    if pause not in WAYS:
        raise InvalidInputError(f"live pause must be one of {', '.join(WAYS)}, not {pause!r}")

    def may_pause(job: Job) -> bool:
        allowed = pause == "all" or (pause == "opportunistic" and not job.spec.guaranteed)
        runs = job.phase is Phase.RUNNING and job.over_at is None
        can = bool(job.pauses) and job.spec.preemptible and not job.spec.resumable
        return allowed and runs and can

    return may_pause


def leave_what_is_kept(plan: Plan) -> None:
    """Start nothing beside what frozen jobs keep of a device's memory if both do not fit."""
    rows, kept = plan.snapshot.jobs, plan.room.kept_gib
    for device in kept:
        names = [*plan.snapshot.tenants.get(device, {}).values()]
        names += [name for name, new in plan.changes.items() if new and device in new.devices]
        here = [n for n in dict.fromkeys(names) if (a := plan.has(n)) and device in a.devices]
        room_gib = plan.room.device_gib(device) - sum(needed_gib(rows[name].spec) for name in here)
        for name in reversed(here):
            if room_gib >= 0:
                break
            if rows[name].allocation is None:
                plan.drop(rows[name])
                room_gib += needed_gib(rows[name].spec)
