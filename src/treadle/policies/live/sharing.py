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
from treadle.core.snapshot import Snapshot
from treadle.policies.live.eligibility import Eligibility, LevelOf, movable
from treadle.policies.live.groups import Cores, Group, Hosts
from treadle.policies.live.plan import Plan, any_size

_NOTHING_GIB = 1e-6  # 0 would mean that it is not known
Ring = tuple[tuple[Device, ...], dict[int, Job]]  # jobs on the same devices, by turn
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

    def part(self, plan: Plan, rings: Sequence[Ring]) -> None:
        """Stop the newest of each group that turned out badly, if it can resume."""
        several = [ring for ring in rings if len(ring[1]) > 1]
        for _, members in list(_going_on(plan, several)):
            if self._belief.to_part([job.id for job in members.values()]):
                newest = max(members.values(), key=lambda job: (job.begun_at, job.sequence))
                if movable(newest):
                    plan.stop(newest)

    def join(
        self,
        plan: Plan,
        rings: Sequence[Ring],
        eligible: Eligibility,
        ousted: Iterable[Job],
        level_of: LevelOf,
    ) -> None:
        """Start waiting jobs beside others, each where most is gained by it."""
        able = list(islice(self._able(plan, eligible), _LOOKED_AT))
        if not able:
            return
        alone = {
            other for job in ousted if plan.has(job.id) is None for other in job.spec.ousted_by
        }
        groups = _groups(plan, rings)
        groups = map(self._as_known, groups) if self._try else groups
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


def run_again(plan: Plan, rings: Sequence[Ring], ousted: Sequence[Job], level_of: LevelOf) -> None:
    """Start such jobs, if of the highest level that waits, on free devices or those of before."""
    first = min(map(level_of, plan.snapshot.waiting()), default=None) if ousted else None
    for job in ousted:
        if level_of(job) != first or DATA_PARALLEL not in job.spec.plans:
            continue
        sizes = any_size(job, plan.room.most(job))
        found = next((f for size in sizes if (f := plan.room.place(job, size))), None)
        found = found or _made_way(plan, rings, job, level_of)
        if found is not None:
            plan.give(job, Allocation(found))
            plan.urgent.add(job.id)


def _made_way(
    plan: Plan, rings: Sequence[Ring], job: Job, level_of: LevelOf
) -> tuple[Device, ...] | None:
    """The devices on which it failed, if all that run there can resume; they are stopped."""
    for devices, members in _going_on(plan, rings):
        ring = members.values()
        failed_there = any(member.id in job.spec.ousted_by for member in ring)
        if not failed_there or not job.spec.runs_on(len(devices)):
            continue
        if all(movable(one) and level_of(one) >= level_of(job) for one in ring):
            for member in ring:
                plan.stop(member, job.id)
            return devices
    return None


def rings_of(snapshot: Snapshot, holding: Iterable[Job]) -> list[Ring]:
    """Jobs in sight that run, and share all their devices or have them to themselves."""
    nodes, tenants = snapshot.cluster.names, snapshot.tenants
    visible = {job.id: job for job in holding}
    found, seen = list[Ring](), set[JobId]()
    for first in sorted(visible):
        held = visible[first].allocation
        if first in seen or held is None:
            continue
        devices, turns = held.devices, tenants.get(held.devices[0], {})
        seen.update(turns.values())
        if all(tenants.get(each) == turns and each.node in nodes for each in devices):
            members = {turn: visible[name] for turn, name in turns.items() if name in visible}
            runs = (_runs_on(job, devices) for job in members.values())
            if len(members) == len(turns) and all(runs):
                found.append((devices, members))
    return found


def _runs_on(job: Job, devices: tuple[Device, ...]) -> bool:
    held = job.allocation
    runs = job.phase is Phase.STARTING or job.phase is Phase.RUNNING
    return runs and held is not None and held.devices == devices


def _going_on(plan: Plan, rings: Iterable[Ring]) -> Iterator[Ring]:
    """Those that this plan leaves as they are, and starts no job beside."""
    given = {d for new in plan.changes.values() if new is not None for d in new.devices}
    for devices, members in rings:
        changed = any(job.id in plan.changes for job in members.values())
        if not changed and given.isdisjoint(devices):
            yield devices, members


def _beginning(plan: Plan) -> Iterator[Ring]:
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


def _groups(plan: Plan, rings: Iterable[Ring]) -> Iterator[Group]:
    """Both, with what their nodes have for each."""
    nodes = {node.name: node for node in plan.snapshot.cluster.nodes}
    for place, (devices, members) in enumerate(chain(_going_on(plan, rings), _beginning(plan))):
        counts = Counter(device.node for device in devices)
        device_gib = min(nodes[name].device_memory_gib for name in counts)
        if device_gib and plan.room.kept_gib:  # Frozen jobs keep theirs.
            device_gib = max(_NOTHING_GIB, min(map(plan.room.device_gib, devices)))
        cores = min(nodes[name].cores / count for name, count in counts.items())
        yield Group(place, devices, members, device_gib, cores)


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
