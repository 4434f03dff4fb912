"""A job that finds no free devices joins running ones, if all are known to lose little by it.

It starts on the very devices of a running job, or of a group of up to four, in another turn: a
plain start, which stops no job. All of this must hold:

- the belief knows every member from a time alone and predicts that together they get at least
  SUM_MIN done, and that none runs below FLOOR of its speed alone;
- none is exclusive, and their device memories fit with a margin;
- no member is of a higher level (quota or priority) than the newcomer;
- no job waits whose patience is over: a join keeps devices in use for longer;
- the node has the host memory and cores.

A group that turns out worse than it may be is parted: the newest is stopped if it can resume. A job
that ran out of device memory beside others runs again first, and alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel
from treadle.core.reasons import Reason
from treadle.policies.base.companions import SharingBelief
from treadle.policies.live.eligibility import Level, movable
from treadle.policies.live.groups import Cores, Group, Hosts
from treadle.policies.live.plan import Plan

_LOOKED_AT = 256  # waiting jobs at one decision, the first in the policy's order


class Joining:
    """Starts beside running jobs, and groups that part."""

    def __init__(self, belief: SharingBelief) -> None:
        self._belief = belief

    @classmethod
    def of(cls, belief: PerformanceModel) -> "Joining | None":
        """None for a belief that knows no job from a time alone: none may share then."""
        return cls(belief) if isinstance(belief, SharingBelief) else None

    def part(self, plan: Plan) -> None:
        """Stop the newest of each group that turned out badly, if it can resume."""
        for group in list(groups(plan)):
            if len(group.members) > 1 and self._belief.to_part(group.jobs):
                newest = max(group.members.values(), key=lambda job: (job.begun_at, job.sequence))
                if movable(newest):
                    plan.stop(newest)

    def join(
        self, plan: Plan, level_of: Callable[[Job], Level], hidden: Mapping[JobId, Reason]
    ) -> None:
        """Start waiting jobs beside running ones, each where most is gained by it."""
        able = list(islice(self._able(plan, hidden), _LOOKED_AT))
        if not able:
            return
        alone = awaited(plan)
        found = [group for group in groups(plan) if alone.keys().isdisjoint(group.jobs)]
        if not found:
            return
        hosts = Hosts(found, self._belief, Cores(plan.snapshot, plan.changes), level_of)
        for job in able:
            group = hosts.best(job)
            if group is not None and plan.room.allows(job, group.devices):
                plan.give(job, Allocation(group.devices, turn=hosts.join(job, group)))

    def _able(self, plan: Plan, hidden: Mapping[JobId, Reason]) -> Iterator[Job]:
        for job in plan.snapshot.waiting():
            if (why := hidden.get(job.id)) is not None and why.code == "host":
                continue  # Beside others it needs as much of a node.
            ready = job.ready_at <= plan.snapshot.now and not job.avoid
            waits = ready and plan.has(job.id) is None and DATA_PARALLEL in job.spec.plans
            if waits and self._belief.may_share(job.spec) is None:
                yield job


def run_again(plan: Plan, level_of: Callable[[Job], Level]) -> None:
    """Start jobs again that ran out of device memory beside others, on free devices or theirs."""
    ousted = list(_ousted(plan))
    first = min((level_of(job) for job in plan.snapshot.waiting()), default=None)
    for job in ousted:
        if level_of(job) != first or DATA_PARALLEL not in job.spec.plans:
            continue
        sizes = [size for size in reversed(job.spec.sizes) if size <= job.spec.asked]
        found = next((f for size in sizes if (f := plan.room.place(job, size))), None)
        found = found or _made_way(plan, job, level_of)
        if found is not None:
            plan.give(job, Allocation(found))
            plan.urgent.add(job.id)


def awaited(plan: Plan) -> dict[JobId, JobId]:
    """Jobs that no other may join, each with the job that runs there next."""
    return {
        other: job.id
        for job in _ousted(plan)
        if plan.has(job.id) is None
        for other in job.spec.ousted_by
    }


def _ousted(plan: Plan) -> Iterator[Job]:
    for job in plan.snapshot.waiting():
        if job.spec.ousted_by and job.ready_at <= plan.snapshot.now:
            yield job


def _made_way(plan: Plan, job: Job, level_of: Callable[[Job], Level]) -> tuple[Device, ...] | None:
    """The devices on which it failed, if all that run there can resume; they are stopped."""
    for group in groups(plan):
        there = [member for member in group.members.values() if member.id in job.spec.ousted_by]
        if not there or not job.spec.runs_on(len(group.devices)):
            continue
        members = group.members.values()
        if all(movable(one) and level_of(one) >= level_of(job) for one in members):
            for member in members:
                plan.stop(member, job.id)
            return group.devices
    return None


def groups(plan: Plan) -> Iterator[Group]:
    """Jobs that run on, in this plan, and share all their devices or have them to themselves."""
    snapshot = plan.snapshot
    nodes = {node.name: node for node in snapshot.cluster.nodes}
    given = {d for new in plan.changes.values() if new is not None for d in new.devices}
    visible = {job.id for job in snapshot.holding()}
    seen: set[JobId] = set()
    for place, first in enumerate(sorted(visible)):
        held = snapshot.jobs[first].allocation
        if first in seen or held is None:
            continue
        turns = snapshot.tenants.get(held.devices[0], {})
        seen.update(turns.values())
        members = {turn: snapshot.jobs[name] for turn, name in turns.items()}
        if (
            all(snapshot.tenants.get(device) == turns for device in held.devices)
            and given.isdisjoint(held.devices)
            and all(nodes.get(device.node) for device in held.devices)
            and all(_runs_on(plan, job, held.devices, visible) for job in members.values())
        ):
            counts = Counter(device.node for device in held.devices)
            device_gib = min(nodes[name].device_memory_gib for name in counts)
            cores = min(nodes[name].cores / count for name, count in counts.items())
            yield Group(place, held.devices, members, device_gib, cores)


def _runs_on(plan: Plan, job: Job, devices: tuple[Device, ...], visible: set[JobId]) -> bool:
    """Whether a job stays where it is in the plan."""
    runs = job.phase in {Phase.STARTING, Phase.RUNNING} and job.id in visible
    held = job.allocation
    return runs and job.id not in plan.changes and held is not None and held.devices == devices


def short_of_cores(
    plan: Plan, changes: Mapping[JobId, Allocation | None], lower: Iterable[JobId]
) -> list[JobId]:
    """Starts beside other jobs for which a node has too few cores.

    A policy that forms groups itself looks at the cores of a group, and not at those of a node.
    """
    rows = plan.snapshot.jobs
    begun = {i: new for i, new in changes.items() if new is not None and not rows[i].allocation}
    others = {**plan.changes, **dict.fromkeys(lower), **changes, **dict.fromkeys(begun)}
    held = [others.get(name, row.allocation) for name, row in rows.items()]
    taken = {device for old in held if old is not None for device in old.devices}
    cores, found = Cores(plan.snapshot, others), list[JobId]()
    for name, new in sorted(begun.items(), key=lambda each: each[1].turn):
        if not taken.isdisjoint(new.devices) and not cores.suffice(rows[name].spec, new.devices):
            found.append(name)
        else:
            cores.take(rows[name].spec, new.devices)
            taken.update(new.devices)
    return found
