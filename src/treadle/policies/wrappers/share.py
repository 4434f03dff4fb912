"""A job that finds no free devices joins a running one, if both are known to lose little by it.

The inner policy decides first. A waiting job that it could not start may then be started on the
very devices of a running job, or of a group of up to four, in another turn: a plain start, which
stops and restarts no job and needs nothing of them. All of this must hold:

- the belief knows every member from a time alone, its device memory included, and predicts that
  together they get at least `sum` done and that no one keeps less than `floor` of its speed alone;
- none is exclusive, and their device memories fit with a margin;
- no quota promises a member its devices alone: the inner policy says whom (`Policy.unshared`);
- no member has a higher priority than the newcomer: a job is never slowed by one of lower priority;
- no gang has a reservation, and no job that came before it and can join none, of no lower priority,
  has waited for ten minutes: a join keeps devices taken for longer, and a chain of them would keep
  a gang, an exclusive job or a large one waiting without end. A job that could not start here even
  if no other ran, since devices are closed, keeps none from joining;
- the node has the cores that its jobs were measured to use or ask for, or else one for each. Where
  no other job is there they may use up to 15 % more: that slows them, and their sum counts it.

A group that turns out worse than it may be (models/company/outcomes.py) is parted: the newest is
stopped if it can resume, and what was learnt keeps such jobs apart. A policy that does not share by
itself sees no jobs that share; if a job of higher priority waits, it sees the first of each group.

Waiting jobs choose in the policy's order, each the company that gains most.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from itertools import islice
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.core.wording import named_jobs, several, sizes
from treadle.policies.base.companions import GROUP_MAX, SharingBelief
from treadle.policies.base.placement import Placement
from treadle.policies.live.hosts import TURNS, Cores, Group, Hosts, Terms
from treadle.policies.wrappers.ousted import awaited, run_again, without_company
from treadle.policies.wrappers.passed_over import Passed, Room
from treadle.policies.wrappers.reservation import reservations
from treadle.policies.wrappers.views import Changes, plain
from treadle.policies.wrappers.wrapper import Wrapper, worn

PASSED_S = 600.0  # a job that has waited so long is passed by no more joins
_LOOKED_AT = 256  # waiting jobs at one decision, the first in the policy's order


def share(
    inner: Policy,
    placement: Placement,
    belief: PerformanceModel,
    *,
    sum_: float = 1.15,
    floor: float = 0.5,
    most: int = GROUP_MAX,
) -> Wrapper:
    """A job that finds no free devices joins running ones that it suits, and stops none.

    sum: what they must get done together, where 1 is one after the other. floor: what each must
    keep of its speed alone. most: jobs on one device.
    """
    if not 1 <= sum_ < inf:
        raise InvalidInputError(f"share sum must be 1 or more and finite, not {sum_:g}")
    if not 0 <= floor <= 1:
        raise InvalidInputError(f"share floor must be 0 to 1, not {floor:g}")
    if not 1 <= most <= TURNS:
        raise InvalidInputError(f"share most must be 1 to {TURNS}, not {most}")
    if not isinstance(belief, SharingBelief):
        return Wrapper(inner)  # It knows no job from a time alone, so none may share.
    return Share(inner, placement, belief, Terms(sum_, floor, most))


class Share(Wrapper):
    """Adds starts beside running jobs to what the inner policy decides."""

    def __init__(
        self, inner: Policy, placement: Placement, belief: SharingBelief, terms: Terms
    ) -> None:
        super().__init__(inner)
        self.in_order = False  # A job that arrives may find company at once.
        self.shares = True
        self._placement = placement
        self._belief = belief
        self._terms = terms

    def decide(self, snapshot: Snapshot) -> Schedule:
        seen, again = run_again(snapshot, self._placement)
        shown, guests = (seen, {}) if self.inner.shares else _apart(seen)
        schedule = self.inner.decide(shown)
        changes = {**schedule.changes, **again}
        if self.inner.shares:
            changes = _within_cores(snapshot, without_company(snapshot, changes))
        for host, others in guests.items():
            if host in changes:
                changes |= dict.fromkeys(others)
        changes |= self._partings(snapshot, changes)
        if not reservations(schedule.memory):
            # A join keeps devices taken for longer, so that a gang would wait without end.
            changes |= self._joins(snapshot, changes)
        return Schedule(changes, schedule.valid_until, schedule.memory)

    def inside(self, snapshot: Snapshot) -> Snapshot:
        return snapshot if self.inner.shares else _apart(snapshot)[0]

    def why_alone(self, snapshot: Snapshot, identity: JobId) -> str | None:
        """Why a job has no company, in words; None if it has some or could join a job now."""
        job = snapshot.jobs[identity]
        wrong = self._belief.may_share(job.spec)
        if wrong is not None or job.allocation is not None:
            return wrong
        if kept := reservations(snapshot.memory):
            if identity in {entry.job for entry in kept}:
                return "it has a reservation, and waits for devices to itself"
            head = next((entry for entry in kept if entry.devices), kept[0])
            return f"devices are being kept for job {head.job}, which needs several"
        groups = list(_groups(snapshot, {}))
        alone, unshared = awaited(snapshot, {}), self.unshared(snapshot)
        cores = Cores(snapshot, {})
        joinable = [group for group in groups if not _promised(group, unshared)]
        hosts = Hosts(joinable, self._belief, self._terms, cores)
        first = self._passed(snapshot, {}, hosts).before(job)
        if first is not None:
            return f"job {first.job.id} came before it{first.why}"
        reasons = [
            wrong
            for group in groups
            if (
                wrong := _runs_next(group, alone)
                or _promised(group, unshared)
                or self._against(job, group, snapshot.cluster)
                or cores.lack(job.spec, group.devices)
            )
        ]
        if len(reasons) < len(groups):
            return None
        return reasons[0] if reasons else "no job runs that it could join"

    def _partings(self, snapshot: Snapshot, changes: Changes) -> dict[JobId, None]:
        """The newest of each group that turned out badly, if it can resume."""
        found: dict[JobId, None] = {}
        for group in _groups(snapshot, changes):
            members = group.members.values()
            if len(members) > 1 and self._belief.to_part(job.id for job in members):
                newest = max(members, key=lambda job: (job.begun_at, job.sequence))
                if newest.spec.resumable:
                    found[newest.id] = None
        return found

    def _joins(self, snapshot: Snapshot, changes: Changes) -> dict[JobId, Allocation]:
        waiting = (job for job in snapshot.waiting() if changes.get(job.id) is None)
        able = [job for job in islice(waiting, _LOOKED_AT) if self._able(snapshot, job)]
        if not able:
            return {}
        alone = awaited(snapshot, changes)
        found = [group for group in _groups(snapshot, changes) if not _runs_next(group, alone)]
        if not found:
            return {}
        cores, unshared = Cores(snapshot, changes), self.unshared(snapshot)
        groups = [group for group in found if not _promised(group, unshared)]
        hosts = Hosts(groups, self._belief, self._terms, cores)
        passed = self._passed(snapshot, changes, hosts)
        joins: dict[JobId, Allocation] = {}
        for job in able:
            if passed.before(job) is not None:
                continue
            group = hosts.best(job)
            if group is not None:
                joins[job.id] = Allocation(group.devices, turn=hosts.join(job, group))
        return joins

    def _passed(self, snapshot: Snapshot, changes: Changes, hosts: Hosts) -> Passed:
        """Jobs that have waited for long and need devices to themselves; none goes past them."""
        passed = Passed()
        room = Room(snapshot, self._placement)
        tried = 0
        for job in snapshot.waiting():
            late = snapshot.now - job.since_at >= PASSED_S and job.ready_at <= snapshot.now
            if not late or changes.get(job.id) is not None:
                continue
            if passed.before(job) is not None or not room.has(job):
                continue  # What it keeps others from, that one does; or it waits for no other job.
            able = self._able(snapshot, job)
            try_it = able and tried < _LOOKED_AT
            if try_it:
                tried += 1
                if hosts.best(job) is not None:
                    continue
            passed.add(job, joins_none=try_it or not able)
        return passed

    def _able(self, snapshot: Snapshot, job: Job) -> bool:
        late = job.ready_at > snapshot.now or bool(job.avoid)
        return not late and plain(job.spec) and self._belief.may_share(job.spec) is None

    def _against(self, job: Job, group: Group, cluster: Cluster) -> str | None:
        """Why the job may not join this group, or None."""
        members = list(group.members.values())
        if not group.suits(job, cluster):
            who = named_jobs([member.id for member in members], self._terms.most)
            return f"{who} {'runs' if len(members) == 1 else 'run'} on devices it may not use"
        if not job.spec.runs_on(len(group.devices)):
            who = named_jobs([member.id for member in members], self._terms.most)
            verb = "holds" if len(members) == 1 else "hold"
            held, wanted = several(len(group.devices), "device"), sizes(job.spec.sizes)
            return f"{who} {verb} {held}, and it runs on {wanted}"
        if self._belief.to_part(member.id for member in members):
            return "the jobs there are to be parted"
        if len(members) >= self._terms.most:
            return f"{several(len(members), 'job is', 'jobs are')} on those devices already"
        for member in members:
            if member.spec.priority > job.spec.priority:
                return f"job {member.id} has a higher priority"
        return self._belief.refuses(
            [job.spec, *(member.spec for member in members)],
            device_gib=group.device_gib,
            cores=group.cores,
            sum_min=self._terms.sum_min,
            floor=self._terms.floor,
        )


def why_alone(policy: Policy, snapshot: Snapshot, identity: JobId) -> str | None:
    """Why a job shares with no other under a policy, for the page that explains; None: it may."""
    found = worn(policy, Share)
    return None if found is None else found.why_alone(snapshot, identity)


def _runs_next(group: Group, alone: Mapping[JobId, JobId]) -> str | None:
    """That another job is to run there first, or None."""
    for member in group.members.values():
        if member.id in alone:
            return f"job {alone[member.id]} ran out of GPU memory there and runs next"
    return None


def _promised(group: Group, unshared: Set[JobId]) -> str | None:
    """That a quota promises a member its devices alone, or None."""
    for member in group.members.values():
        if member.id in unshared:
            return f"job {member.id} has its devices alone by its tenant's quota"
    return None


def _groups(snapshot: Snapshot, changes: Changes) -> Iterator[Group]:
    """Jobs that run on and share all their devices, or have them to themselves."""
    memory = {node.name: node.device_memory_gib for node in snapshot.cluster.nodes}
    cores = {node.name: node.cores for node in snapshot.cluster.nodes}
    seen: set[JobId] = set()
    given = {d for new in changes.values() if new is not None for d in new.devices}
    visible = {job.id for job in snapshot.holding()}
    for place, first in enumerate(sorted(visible)):
        job = snapshot.jobs[first]
        if first in seen or job.allocation is None:
            continue
        devices = job.allocation.devices
        turns = snapshot.tenants.get(devices[0], {})
        members = {turn: snapshot.jobs[identity] for turn, identity in turns.items()}
        seen.update(turns.values())
        alike = all(snapshot.tenants.get(device) == turns for device in devices)
        if (
            alike
            and given.isdisjoint(devices)
            and all(
                member.id in visible and member.id not in changes and _stays(member, devices)
                for member in members.values()
            )
        ):
            counts = Counter(device.node for device in devices)
            device_gib = min(memory.get(name, 0.0) for name in counts)
            each = min(cores.get(name, 0) / count for name, count in counts.items())
            yield Group(place, devices, members, device_gib, each)


def _apart(snapshot: Snapshot) -> tuple[Snapshot, dict[JobId, list[JobId]]]:
    """What a policy that does not share is shown, and for each host there the guests to stop.

    It sees no jobs that share, and not their devices. Where a job of higher priority waits, it sees
    the first of each group, if the others can resume: they make way if that one has to.
    """
    groups: dict[tuple[Device, ...], list[Job]] = {}
    for job in snapshot.holding():
        assert job.allocation is not None, "it holds devices"
        if any(len(snapshot.tenants.get(d, ())) > 1 for d in job.allocation.devices):
            groups.setdefault(job.allocation.devices, []).append(job)
    if not groups:
        return snapshot, {}
    highest = max((job.spec.priority for job in snapshot.waiting()), default=None)
    hidden: list[Job] = []
    guests: dict[JobId, list[JobId]] = {}
    tenants = dict(snapshot.tenants)
    for devices, jobs in groups.items():
        host, *others = sorted(jobs, key=lambda job: (job.begun_at, job.sequence))
        outranked = highest is not None and all(highest > job.spec.priority for job in jobs)
        whole = all(len(snapshot.tenants[device]) == len(jobs) for device in devices)
        if outranked and whole and all(job.spec.resumable for job in others):
            guests[host.id] = [job.id for job in others]
            assert host.allocation is not None, "it holds devices"
            tenants |= {device: {host.allocation.turn: host.id} for device in devices}
        else:
            hidden += jobs
    shown = snapshot.keeping(hidden)
    if guests:
        names = [name for others in guests.values() for name in others]
        seen = {device: own for device, own in tenants.items() if device in shown.tenants}
        shown = shown._replace(tenants=seen).hiding(names)
    return shown, guests


def _stays(job: Job, devices: tuple[Device, ...]) -> bool:
    runs = job.phase in {Phase.STARTING, Phase.RUNNING}
    return runs and job.allocation is not None and job.allocation.devices == devices


def _within_cores(snapshot: Snapshot, changes: Changes) -> dict[JobId, Allocation | None]:
    """The changes less those starts beside other jobs for which a node has too few cores.

    A policy that forms groups itself looks at the cores of a group, and not at those of a node.
    """
    rows = snapshot.jobs
    begun = {i: new for i, new in changes.items() if new is not None and not rows[i].allocation}
    if not begun:
        return dict(changes)
    others = {**changes, **dict.fromkeys(begun)}
    held = [others.get(name, row.allocation) for name, row in rows.items()]
    taken = {device for old in held if old is not None for device in old.devices}
    cores = Cores(snapshot, others)
    found = dict(changes)
    for identity, new in sorted(begun.items(), key=lambda each: each[1].turn):
        spec = rows[identity].spec
        if not taken.isdisjoint(new.devices) and not cores.suffice(spec, new.devices):
            del found[identity]
        else:
            cores.take(spec, new.devices)
            taken.update(new.devices)
    return found
