"""A job that finds no free devices joins running ones, if all are known to lose little by it.

It starts on the very devices of a running job, or of a group of up to four, in another turn: a
plain start, which stops no job. All of this must hold:

- the belief knows every member from a time alone and predicts that together they get at least
  SUM_MIN done, and that none runs below FLOOR of its speed alone;
- none is exclusive, and their device memories fit with a margin;
- no member is of a higher level (quota or priority) than the newcomer;
- no job waits whose patience is over: a join keeps devices in use for longer;
- the node has the host memory and cores.

A job of which nothing is known may be tried beside jobs that are known to leave room; what they
keep of their speed says what it needs, and whether it stays. While it trains, the next may load its
libraries there.

A group that turns out worse than it may be is parted: the newest is stopped if it can resume. A job
that ran out of device memory beside others runs again first, and alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel, SharingBelief
from treadle.policies.live.eligibility import Eligibility, LevelOf, movable
from treadle.policies.live.groups import Cores, Group, Hosts
from treadle.policies.live.plan import Plan, any_size

_NOTHING_GIB = 1e-6  # 0 would mean that it is not known
_LOOKED_AT = 256  # waiting jobs at one decision, the first in the policy's order


class Joining:
    """Starts beside running jobs, and groups that part."""

    def __init__(self, belief: SharingBelief, *, tries: bool) -> None:
        self._belief, self._try = belief, tries

    @classmethod
    def of(cls, belief: PerformanceModel, *, tries: bool) -> "Joining | None":
        """None for a belief that knows no job from a time alone: none may share then.

        tries: jobs of which nothing is known may be tried beside others.
        """
        return cls(belief, tries=tries) if isinstance(belief, SharingBelief) else None

    def part(self, plan: Plan) -> None:
        """Stop the newest of each group that turned out badly, if it can resume."""
        for _, members in list(_together(plan)):
            names = [job.id for job in members.values()]
            if len(names) > 1 and self._belief.to_part(names):
                newest = max(members.values(), key=lambda job: (job.begun_at, job.sequence))
                if movable(newest):
                    plan.stop(newest)

    def join(
        self, plan: Plan, eligible: Eligibility, ousted: Iterable[Job], level_of: LevelOf
    ) -> None:
        """Start waiting jobs beside others, each where most is gained by it."""
        able = list(islice(self._able(plan, eligible), _LOOKED_AT))
        if not able:
            return
        alone = {
            other for job in ousted if plan.has(job.id) is None for other in job.spec.ousted_by
        }
        groups = map(self._as_known, _groups(plan)) if self._try else _groups(plan)
        found = [group for group in groups if alone.isdisjoint(group.jobs)]
        if not found:
            return
        hosts = Hosts(found, self._belief, Cores(plan.snapshot, plan.changes), level_of)
        for job, assumed in able:
            group = hosts.best(assumed, plan.room.where(job))
            if group is not None and plan.room.allows(job, group.devices):
                # The next is tried once this one trains: what the others keep says what it needs.
                turn = hosts.join(assumed, group, last=assumed is not job)
                plan.give(job, Allocation(group.devices, turn=turn))

    def _as_known(self, group: Group) -> Group:
        """The group with its newcomers that train as they are assumed to be, beside a known job."""
        unknown = {turn for turn, job in group.members.items() if job.spec.profile.busy is None}
        if len(unknown) in (0, len(group.members)):
            return group
        members = {
            turn: job._replace(spec=self._belief.assumed(job.spec))
            if turn in unknown and self._belief.at_work(job.id)
            else job
            for turn, job in group.members.items()
        }
        return group._replace(members=members)

    def _able(self, plan: Plan, eligible: Eligibility) -> Iterator[tuple[Job, Job]]:
        """Jobs that may share, each also as it is assumed to be if nothing is known of it."""
        for job in eligible.waiting:
            why = eligible.hidden.get(job.id)
            if job.id in eligible.behind or (why is not None and why.code == "host"):
                continue  # Beside others it needs as much of a node.
            ready = job.ready_at <= plan.snapshot.now and not job.avoid
            waits = ready and plan.has(job.id) is None and DATA_PARALLEL in job.spec.plans
            spec = self._belief.assumed(job.spec) if self._try else job.spec
            if waits and self._belief.may_share(spec) is None:
                yield job, job if spec is job.spec else job._replace(spec=spec)


def ousted_of(eligible: Eligibility, now: float) -> list[Job]:
    """Waiting jobs that ran out of device memory beside others."""
    return [job for job in eligible.waiting if job.spec.ousted_by and job.ready_at <= now]


def run_again(plan: Plan, ousted: Sequence[Job], level_of: LevelOf) -> None:
    """Start such jobs, if of the highest level that waits, on free devices or those of before."""
    first = min(map(level_of, plan.snapshot.waiting()), default=None) if ousted else None
    for job in ousted:
        if level_of(job) != first or DATA_PARALLEL not in job.spec.plans:
            continue
        sizes = any_size(job, plan.room.most(job))
        found = next((f for size in sizes if (f := plan.room.place(job, size))), None)
        found = found or _made_way(plan, job, level_of)
        if found is not None:
            plan.give(job, Allocation(found))
            plan.urgent.add(job.id)


def _made_way(plan: Plan, job: Job, level_of: LevelOf) -> tuple[Device, ...] | None:
    """The devices on which it failed, if all that run there can resume; they are stopped."""
    for devices, members in _together(plan):
        ring = members.values()
        failed_there = any(member.id in job.spec.ousted_by for member in ring)
        if not failed_there or not job.spec.runs_on(len(devices)):
            continue
        if all(movable(one) and level_of(one) >= level_of(job) for one in ring):
            for member in ring:
                plan.stop(member, job.id)
            return devices
    return None


def _together(plan: Plan) -> Iterator[tuple[tuple[Device, ...], dict[int, Job]]]:
    """Jobs that run on, in this plan, and share all their devices or have them to themselves."""
    snapshot = plan.snapshot
    nodes = snapshot.cluster.names
    given = {d for new in plan.changes.values() if new is not None for d in new.devices}
    visible = {job.id for job in snapshot.holding()}
    seen: set[JobId] = set()
    for first in sorted(visible):
        held = snapshot.jobs[first].allocation
        if first in seen or held is None:
            continue
        turns = snapshot.tenants.get(held.devices[0], {})
        seen.update(turns.values())
        members = {turn: snapshot.jobs[name] for turn, name in turns.items()}
        if (
            all(snapshot.tenants.get(device) == turns for device in held.devices)
            and given.isdisjoint(held.devices)
            and all(device.node in nodes for device in held.devices)
            and all(_runs_on(plan, job, held.devices, visible) for job in members.values())
        ):
            yield held.devices, members


def _beginning(plan: Plan) -> Iterator[tuple[tuple[Device, ...], dict[int, Job]]]:
    """Jobs that this plan starts on free devices, those on the same devices together."""
    rows, tenants = plan.snapshot.jobs, plan.snapshot.tenants
    found: dict[tuple[Device, ...], dict[int, Job]] = {}
    users = Counter[Device]()
    for name, new in plan.changes.items():
        if new is not None:
            users.update(new.devices)
            if rows[name].allocation is None:
                found.setdefault(new.devices, {})[new.turn] = rows[name]
    for devices, members in found.items():
        if all(not tenants.get(d) and users[d] == len(members) for d in devices):
            yield devices, members


def _groups(plan: Plan) -> Iterator[Group]:
    """Both, with what their nodes have for each."""
    nodes = {node.name: node for node in plan.snapshot.cluster.nodes}
    for place, (devices, members) in enumerate(chain(_together(plan), _beginning(plan))):
        counts = Counter(device.node for device in devices)
        device_gib = min(nodes[name].device_memory_gib for name in counts)
        if device_gib and plan.room.kept_gib:  # Frozen jobs keep theirs.
            device_gib = max(_NOTHING_GIB, min(map(plan.room.device_gib, devices)))
        cores = min(nodes[name].cores / count for name, count in counts.items())
        yield Group(place, devices, members, device_gib, cores)


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
    if not begun:
        return []
    others = {**plan.changes, **dict.fromkeys(lower), **changes, **dict.fromkeys(begun)}
    held = [others.get(name, row.allocation) for name, row in rows.items()]
    taken = {device for old in held if old is not None for device in old.devices}
    given = [device for new in begun.values() for device in new.devices]
    if len(set(given)) == len(given) and taken.isdisjoint(given):
        return []  # None is beside another.
    cores, found = Cores(plan.snapshot, others), list[JobId]()
    for name, new in sorted(begun.items(), key=lambda each: each[1].turn):
        if not taken.isdisjoint(new.devices) and not cores.suffice(rows[name].spec, new.devices):
            found.append(name)
        else:
            cores.take(rows[name].spec, new.devices)
            taken.update(new.devices)
    return found
