"""Jobs that share, whatever happens: they grow, are cancelled while they join, end together.

The live policy and belief, an engine that answers late, and checks of every join when it is made.
"""

from dataclasses import replace
from random import Random

import pytest

from tests.shared import THOROUGH
from treadle.control.loop import PolicyInCharge, belief_on
from treadle.core.actions import Action, Start, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.company import needed_cores, needed_gib
from treadle.core.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    JobUpdated,
)
from treadle.core.job import JobId, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.testing.checks import check

NODE = Node("n0", 3, device_memory_gib=16.0, cores=8)
CLUSTER = Cluster((NODE,))


class World:
    """A live scheduler, and an engine that does what it is told in its own time."""

    def __init__(self, policy: str, seed: int) -> None:
        self.random = Random(seed)
        self.belief = belief_on(CLUSTER)
        decider = PolicyInCharge().make(policy, "consolidate", self.belief)
        self.scheduler = Scheduler(decider, CLUSTER)
        self.now = 0.0
        self.submitted = 0
        self.joins = 0

    def step(self) -> None:
        """One to three facts at the same moment."""
        self.now += self.random.choice([0.0, 1.0, 30.0, 400.0])
        facts: list[Event] = []
        for _ in range(self.random.randint(1, 3)):
            facts.append(self.fact({_about(fact) for fact in facts}))
        before = self.sharers()
        actions = self.scheduler.step(facts, self.now)
        check(self.scheduler)
        self.check(actions, before)

    def fact(self, about: set[JobId]) -> Event:
        rows = [row for row in self.scheduler.jobs.values() if row.id not in about]
        if not rows or (len(rows) < 12 and self.random.random() < 0.4):
            self.submitted += 1
            return JobSubmitted(self.spec(f"j{self.submitted}"))
        row = self.random.choice(rows)
        match row.phase:
            case Phase.STARTING if self.random.random() < 0.7:
                return JobStarted(row.id, row.action, row.iterations_done, 1.0)
            case Phase.STOPPING:
                return JobStopped(row.id, row.action, row.iterations_done)
            case Phase.RUNNING if self.random.random() < 0.4:
                if self.random.random() < 0.3:
                    return JobFailed(row.id, row.action, row.iterations_done)
                return JobFinished(row.id, row.action)
        if self.random.random() < 0.3:
            return JobCancelled(row.id)
        return JobUpdated(self.known(row.spec))

    def spec(self, name: str) -> JobSpec:
        draw = self.random
        spec = JobSpec(
            name,
            float(draw.randint(50, 5000)),
            sizes=draw.choice([(1,), (1,), (1,), (2,), (3,), (1, 2), (1, 2, 3)]),
            profile=Profile(model=draw.choice("abcdef")),
            resumable=draw.random() < 0.5,
            exclusive=draw.random() < 0.15,
            priority=draw.choice([0, 0, 0, 1]),
            retries=1,
            host_cores=draw.choice([0.0, 0.0, 2.0]),
            device_memory_gib=draw.choice([0.0, 0.0, 3.0, 9.0]),
        )
        return self.known(spec) if draw.random() < 0.8 else spec

    def known(self, spec: JobSpec) -> JobSpec:
        """More is known of it; its memory never shrinks."""
        profile = replace(
            spec.profile,
            busy=self.random.choice([0.02, 0.1, 0.3, 0.6, 0.95]),
            cores=self.random.choice([None, 0.3, 1.0, 2.5]),
            memory_gib=max(spec.profile.memory_gib, self.random.choice([0.5, 2.0, 4.0, 8.0])),
        )
        return replace(spec, profile=profile)

    def sharers(self) -> set[JobId]:
        """Jobs that run beside others."""
        tenants = self.scheduler.tenancy.tenants.values()
        return {job for turns in tenants if len(turns) > 1 for job in turns.values()}

    def check(self, actions: list[Action], before: set[JobId]) -> None:
        jobs = self.scheduler.jobs
        for turns in self.scheduler.tenancy.tenants.values():
            assert len(turns) <= 4
        joined = [
            action
            for action in actions
            if isinstance(action, Start) and action.job in self.sharers() - before
        ]
        for action in joined:
            self.joins += 1
            assert not set(action.after) & set(jobs_here(self.scheduler, action)), (
                "no job is stopped"
            )
            turns = self.scheduler.tenancy.tenants[action.allocation.devices[0]]
            unknown = [job for job in turns.values() if jobs[job].spec.profile.busy is None]
            assert len(unknown) <= 1, "one is tried at a time"
            specs = [self.belief.assumed(jobs[job].spec) for job in turns.values()]
            assert not any(spec.exclusive for spec in specs)
            assert sum(map(needed_gib, specs)) <= NODE.device_memory_gib * 0.95 - 1.0
            assert all(needed_gib(spec) for spec in specs)
            fresh = {each.job for each in joined}
            there = [jobs[job].spec.priority for job in turns.values() if job not in fresh]
            assert max(there, default=0) <= jobs[action.job].spec.priority
            shares = self.belief.relative(specs, NODE.cores / len(action.allocation.devices))
            assert sum(shares) >= 1.15
            assert min(shares) >= 0.5
            others = {job for job in turns.values() if job != action.job}
            assert not others & {a.job for a in actions if isinstance(a, Stop)}
        for start in (action for action in actions if isinstance(action, Start)):
            wanted = set(start.allocation.devices)
            leaving = {
                job
                for job, left in self.scheduler.leaving.items()
                if any(wanted & set(old.devices) for old in left.allocations)
                and not (job in jobs and jobs[job].allocation is not None)  # It is resized.
            }
            assert leaving - {start.job} <= set(start.after), "their memory is not free yet"
        if joined:
            held = [row for row in jobs.values() if row.allocation is not None]
            used = sum(needed_cores(row.spec, row.size) for row in held)
            one_group = len({row.allocation.devices for row in held if row.allocation}) == 1
            assert used <= NODE.cores * (1.15 if one_group else 1.05)


def jobs_here(scheduler: Scheduler, action: Start) -> list[JobId]:
    tenants = scheduler.tenancy.tenants
    return [job for device in action.allocation.devices for job in tenants[device].values()]


def _about(fact: Event) -> JobId:
    match fact:
        case JobSubmitted(spec) | JobUpdated(spec):
            return spec.id
        case JobCancelled() | JobStarted() | JobStopped() | JobFinished() | JobFailed():
            return fact.job
    raise AssertionError(f"no fact of a job: {fact}")


@pytest.mark.parametrize(
    "policy", ["fifo", "afs", "las", "srtf", "muri-l"] if THOROUGH else ["afs", "muri-l"]
)
def test_every_join_keeps_memory_cores_floors_priorities_and_exclusive_jobs(policy: str) -> None:
    joins = 0
    for seed in range(10):
        world = World(policy, seed)
        for _ in range(80):
            world.step()
        joins += world.joins
    assert joins >= 20, "what is checked has happened"
