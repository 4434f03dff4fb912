"""Running jobs that others may join: the best is found as if each was asked about by itself."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policies.live.test_live_sharing import live, seen, told
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.job import Job, JobSpec
from treadle.core.snapshot import Snapshot
from treadle.models.company.belief import CompanyBelief
from treadle.models.scaling import ScalingModel
from treadle.policies.base.companions import GROUP_MAX
from treadle.policies.live.groups import FLOOR, SUM_MIN, Cores, Group, Hosts


class Counting(CompanyBelief):
    """The live belief, and how often it was asked whether jobs may share."""

    asked = 0

    def refuses(self, specs: Sequence[JobSpec], **terms: Any) -> str | None:
        self.asked += 1
        return super().refuses(specs, **terms)


def site(devices: int) -> tuple[Snapshot, Counting]:
    cluster = Cluster((Node("n0", devices, device_memory_gib=80.0, cores=1000),))
    return live("fifo", cluster).snapshot(0.0), Counting(ScalingModel.on(cluster), cluster)


def rows(specs: Sequence[JobSpec]) -> list[Job]:
    """Jobs that run, each on a device of its own."""
    cluster = Cluster((Node("n0", len(specs), device_memory_gib=80.0, cores=1000),))
    scheduler = live("fifo", cluster)
    told(scheduler, 0.0, *specs)
    return [scheduler.jobs[spec.id] for spec in specs]


def alone(running: Sequence[Job]) -> list[Group]:
    return [
        Group(place, (Device("n0", place),), {0: job}, 80.0, 1000.0)
        for place, job in enumerate(running)
    ]


def by_priority(job: Job) -> tuple[int, int]:
    return (0, -job.spec.priority)


def kind(name: str, busy: float, priority: int = 0) -> JobSpec:
    return seen(name, busy=busy, priority=priority, kind=f"busy {busy}")


def test_jobs_that_are_alike_are_asked_about_once() -> None:
    snapshot, belief = site(50)
    groups = alone(rows([kind(f"r{n}", 0.2) for n in range(50)]))
    hosts = Hosts(groups, belief, Cores(snapshot, {}), by_priority)
    newcomers = rows([kind(f"w{n}", 0.3) for n in range(20)])
    found = [hosts.best(job) for job in newcomers]
    assert found == [groups[0]] * 20
    assert belief.asked == 1


BUSY = st.sampled_from([0.1, 0.3, 0.6, 0.95])
JOBS = st.lists(st.tuples(BUSY, st.integers(0, 1)), min_size=1, max_size=6)


@given(JOBS, JOBS)
@settings(max_examples=25, deadline=None)
def test_each_job_joins_what_it_would_if_every_group_was_tried(
    running: list[tuple[float, int]], waiting: list[tuple[float, int]]
) -> None:
    snapshot, belief = site(8)
    specs = [kind(f"r{n}", *each) for n, each in enumerate(running)]
    groups = {group.place: group for group in alone(rows(specs))}
    hosts = Hosts(groups.values(), belief, Cores(snapshot, {}), by_priority)
    for job in rows([kind(f"w{n}", *each) for n, each in enumerate(waiting)]):
        found = hosts.best(job)
        assert found == _tried(job, groups, belief)
        if found is not None:
            turn = hosts.join(job, found)
            groups[found.place] = found._replace(members={**found.members, turn: job})


def _tried(job: Job, groups: dict[int, Group], belief: CompanyBelief) -> Group | None:
    best, most = None, 0.0
    for group in groups.values():
        specs = [job.spec, *group.specs]
        outranked = any(spec.priority > job.spec.priority for spec in group.specs)
        if outranked or len(group.members) >= GROUP_MAX:
            continue
        if belief.refuses(specs, device_gib=80.0, sum_min=SUM_MIN, floor=FLOOR):
            continue
        gain = sum(belief.relative(specs)) - sum(belief.relative(specs[1:]))
        if gain > most:
            best, most = group, gain
    return best
