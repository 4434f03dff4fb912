"""Jobs are given only devices that they may use, and devices of one type where that is possible.

Policies take devices for alike. So each type of device is a pool, a cluster of its own about which
the inner policy is asked: about the jobs that hold devices there, and of the waiting jobs those
that may use that type. One that may use several is offered to one of them: to a pool with enough
free devices, the one that jobs with no choice want least, else to the one with the least to do. If
the policy does not start it there, or stops it, it may go on what is left free in another.

Two types are one pool while a job needs devices of both, and while tenants have quotas, which count
devices of all types. A policy that tells GPUs from CPU slots (`Policy.knows_slots`) has both in one
pool while a job may have both; while one needs both, all devices there look alike to it. In such
a pool, and where a job is bound to the nodes that have its files (`Job.only_on`), the policy may
give a job what it may not use. It is then asked again: about that job on the nodes that it may use,
and about the others without it. A running job that would be given such devices keeps what it has.

A running job that has fewer devices than it can use goes to another type where no job wants what is
free, if the policy would give it more there than it has. Whether that pays is for `pays` to say.

A policy that gives each job what it asks for would never start one that asks for more than is in
any pool, as where its files are on a small node. Such a job is taken to ask for what there is.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import Nodes, devices_on, named, needs_both, says_any
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.models.workers import says_slots
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import (
    all_suit,
    places,
    places_of,
    usable_by,
    within,
    words_of,
)
from treadle.policies.wrappers.outgrown import FASTER, outgrown
from treadle.policies.live.pools import Pool, Types, members_of, merged, narrowed
from treadle.policies.wrappers.unsuitable import bound, lacking, never_suits
from treadle.policies.wrappers.views import Changes, free_after, let_go, starts
from treadle.policies.wrappers.wrapper import Note, Remembering


def suitable(
    inner: Policy,
    placement: Placement,  # noqa: ARG001
    belief: PerformanceModel,
) -> "Suitable":
    """A job runs only on devices that it may use, of one type where that is possible."""
    return Suitable(inner, belief)


# Why a job waits, of reasons that count devices.
_BY_DEVICES = ("devices", "fragmentation", "order", "rank")


class _Asked(NamedTuple):
    """What the inner policy saw of one pool, and what comes of its answer."""

    seen: Snapshot
    changes: Changes
    schedule: Schedule


class Suitable(Remembering):
    """The inner policy for each pool of devices."""

    def __init__(self, inner: Policy, belief: PerformanceModel) -> None:
        super().__init__(inner)
        self._belief = belief
        self.in_order = False  # A job that waits for its type is overtaken by those of others.

    def decide(self, snapshot: Snapshot) -> Schedule:
        if all_suit(snapshot.jobs, snapshot.cluster):
            types, view = self._whole(snapshot)
            schedule = self.inner.decide(view)
            memory = self._noted(snapshot, {types: schedule.memory})
            return Schedule(schedule.changes, schedule.valid_until, memory)
        snapshot, views = self._divided(snapshot)
        asked = {pool: self._asked(view) for pool, view in views.items()}
        found = self._left_over(snapshot, asked, {})
        asked = self._with_guests(snapshot, asked, found)
        changes: dict[JobId, Allocation | None] = {}
        for one in asked.values():
            changes |= one.changes
        if stopped := [snapshot.jobs[name] for name, new in changes.items() if new is None]:
            found |= self._left_over(_stopping(snapshot, stopped), asked, found)
        changes |= found
        changes |= self._larger_elsewhere(snapshot, asked, changes)
        until = min((one.schedule.valid_until for one in asked.values()), default=inf)
        memories = {pool.types: one.schedule.memory for pool, one in asked.items()}
        return Schedule(changes, until, self._noted(snapshot, memories))

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        where = places_of(spec, cluster)
        found = [
            self.inner.never_fits(spec, self._shown(cluster.part(nodes), [spec])) for nodes in where
        ]
        if None in found:
            return None
        if len(named(words_of(spec, cluster), cluster)) == len(cluster.by_type):
            # Whatever the types.
            never = self.inner.never_fits(spec, self._shown(cluster, [spec]))
            if never is not None:
                return never
        if not where or spec.asked > max(devices_on(nodes, cluster) for nodes in where):
            return never_suits(spec, cluster, where)
        return f"of the devices of one type: {found[0]}"

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row, lacks = snapshot.jobs[job], ""
        if row.allocation is None:
            if (tied := bound(snapshot, row)) is not None:
                return tied
            lacks = lacking(snapshot, row, places(row, snapshot.cluster))
        views = self._views(snapshot).values()
        mine = next((view for view in views if job in view.ranking), None)
        found = self.inner.why(snapshot if mine is None else self._alike(_own(mine, row)), job)
        if not lacks:
            return found
        if found.cause in _BY_DEVICES:  # It may count devices that the job may not use.
            return Reason("devices", lacks)
        return Reason(found.cause, f"{lacks}; {found.sentence}", lacks)

    def held_back(self, snapshot: Snapshot) -> Mapping[int, int]:
        found: dict[int, int] = {}
        for view in self._views(snapshot).values():
            for size, count in self.inner.held_back(self._alike(view)).items():
                found[size] = found.get(size, 0) + count
        return found

    def unshared(self, snapshot: Snapshot) -> Set[JobId]:
        found: set[JobId] = set()
        for view in self._views(snapshot).values():
            found |= self.inner.unshared(self._alike(view))
        return found

    # -- pools ----------------------------------------------------------------------------------

    def _views(self, snapshot: Snapshot) -> dict[Pool, Snapshot]:
        """What the inner policy sees of each pool, with what it remembers of it."""
        if all_suit(snapshot.jobs, snapshot.cluster):
            types, view = self._whole(snapshot)
            return {Pool(types, snapshot.cluster): view}
        return self._divided(snapshot)[1]

    def _divided(self, snapshot: Snapshot) -> tuple[Snapshot, dict[Pool, Snapshot]]:
        """The same with jobs that ask for what there is, and what is seen of each pool."""
        cluster, notes = snapshot.cluster, self._notes(snapshot)
        groups = merged(tuple(cluster.by_type), self._joined(snapshot))
        pools = [Pool.of(types, cluster) for types in groups]
        snapshot = _fitted(snapshot, pools)
        return snapshot, {
            pool: narrowed(snapshot, pool.cluster, names)._replace(memory=_of(notes, pool.types))
            for pool, names in zip(pools, members_of(snapshot, pools), strict=True)
        }

    def _whole(self, snapshot: Snapshot) -> tuple[Types, Snapshot]:
        """All types, and the same as the inner policy sees it where all devices suit all jobs."""
        types = tuple(snapshot.cluster.by_type)
        return types, snapshot._replace(memory=_of(self._notes(snapshot), types))

    def _notes(self, snapshot: Snapshot) -> Mapping[Types, object]:
        note = self.remembered(snapshot)
        return note if isinstance(note, dict) else {}

    def _noted(self, snapshot: Snapshot, memories: Mapping[Types, object]) -> Note:
        """What is remembered of each pool, and of types that no node has for now."""
        here = snapshot.cluster.by_type.keys()
        gone = {t: note for t, note in self._notes(snapshot).items() if here.isdisjoint(t)}
        return Note({**gone, **memories}, None)

    def _joined(self, snapshot: Snapshot) -> list[Set[str]]:
        """Types that are one pool now."""
        cluster = snapshot.cluster
        if self.inner.quotas(snapshot) is not None:
            return [cluster.by_type.keys()]
        kind = {node.name: node.device_type for node in cluster.nodes}
        together: dict[Nodes | tuple[str, ...], None] = {}  # Most jobs are like others.
        mixes = False
        for job in (*snapshot.holding(), *snapshot.waiting()):
            if job.allocation is not None:
                together[job.allocation.nodes()] = None
            elif len(own := places(job, cluster)) == 1:
                together[own[0]] = None
            mixes = mixes or says_any(job.spec.device_types)
        found = {
            frozenset(kind[each] for each in nodes if each in kind): None for nodes in together
        }
        others = [each for each in cluster.by_type if each != CPU]
        if mixes and self.inner.knows_slots and 0 < len(others) < len(cluster.by_type):
            sizes = {each: devices_on(cluster.by_type[each], cluster) for each in others}
            found[frozenset({CPU, max(others, key=sizes.__getitem__)})] = None
        return [types for types in found if len(types) > 1]

    def _alike(self, view: Snapshot) -> Snapshot:
        """A pool as the inner policy sees it."""
        jobs = (*view.holding(), *view.waiting())
        return view._replace(cluster=self._shown(view.cluster, (job.spec for job in jobs)))

    def _shown(self, cluster: Cluster, specs: Iterable[JobSpec]) -> Cluster:
        """Devices without kinds, if the policy tells kinds apart and one of these needs both."""
        if not self.inner.knows_slots or CPU not in cluster.by_type or len(cluster.by_type) < 2:
            return cluster
        both = (
            needs_both(spec.sizes[0], usable_by(spec, cluster), cluster)
            for spec in specs
            if says_slots(spec)
        )
        return cluster.alike if any(both) else cluster

    # -- one pool -------------------------------------------------------------------------------

    def _asked(self, view: Snapshot) -> _Asked:
        """The inner policy's answer about a pool, without devices that a job may not use."""
        seen, shown = view, self._alike(view).cluster
        own: dict[JobId, Allocation | None] = {}
        while True:
            schedule = self.inner.decide(seen._replace(cluster=shown))
            stray = _stray(seen, schedule.changes)
            if not stray:
                return _Asked(view, {**own, **schedule.changes}, schedule)
            for job in stray:
                if job.allocation is not None:
                    seen = seen.keeping([job])
                    continue
                if job.id not in seen.ranking:
                    continue  # Others like it found no room.
                seen = seen.hiding([job.id])
                found = self._there(seen, job)
                own |= found
                seen = _done(seen, found) if found else seen.hiding(_no_smaller(seen, job))

    def _there(self, seen: Snapshot, job: Job) -> Changes:
        """What the inner policy would do for a waiting job on the nodes that suit it."""
        for nodes in places(job, seen.cluster):
            cluster = seen.cluster.part(nodes)
            kept = seen.keeping([row for row in seen.holding() if not _is_on(row, nodes)])
            alone = kept.keeping(list(kept.holding()))
            for view, size in (
                (kept, job.spec.asked),
                *((alone, size) for size in _sizes(job.spec, alone.free.only(nodes).total)),
            ):
                row = job._replace(spec=_at_most(job.spec, size))
                names = {job.id, *(each.id for each in view.holding())}
                only = narrowed(view, cluster, names)
                only = only._replace(jobs={**only.jobs, job.id: row})
                only.ranking.put(row, seen.now)
                changes = self.inner.decide(self._alike(only)).changes
                if changes.get(job.id) is not None and not _stray(only, changes):
                    return changes
        return {}

    # -- what is left ---------------------------------------------------------------------------

    def _left_over(
        self, snapshot: Snapshot, asked: Mapping[Pool, _Asked], before: Mapping[JobId, Allocation]
    ) -> dict[JobId, Allocation]:
        """Starts in another pool of waiting jobs that their own did not start.

        before: those that were found so far.
        """
        started = {name for one in asked.values() for name, new in one.changes.items() if new}
        started.update(before)
        rest = [job for job in snapshot.waiting() if job.id not in started]
        found: dict[JobId, Allocation] = {}
        for pool, one in asked.items():
            here = {name: new for name, new in before.items() if pool.has(new)}
            free, own = free_after(one.seen, {**one.changes, **here}), one.seen.ranking
            guests = {
                job.id
                for job in rest
                if job.spec.sizes[0] <= free.total
                and job.id not in own
                and job.id not in found
                and pool.is_open(job, snapshot.cluster)
            }
            if not guests:
                continue
            # Those of this pool are there too: under a policy that keeps the order, they go first.
            late = [one.seen.jobs[job.id] for job in rest if job.id in own]
            names = guests | {job.id for job in late if job.allocation is None}
            held = [device for device in one.seen.emptied() if not free.holds((device,))]
            view = narrowed(snapshot, pool.cluster, names)._replace(
                free=free.withholding(held), tenants={}, memory=one.schedule.memory
            )
            found |= starts(view, self._asked(view).changes)
        return found

    def _larger_elsewhere(
        self, snapshot: Snapshot, asked: Mapping[Pool, _Asked], changes: Changes
    ) -> Changes:
        """A running job with more devices of another type, which all others leave free.

        One at a time: what the next one finds is another matter once it has moved.
        """
        if not self.inner.resizes or len(asked) < 2:
            return {}
        late = [job for job in snapshot.waiting() if changes.get(job.id) is None]
        for pool, one in asked.items():
            own = one.changes.keys() | {
                name for name, new in changes.items() if new and pool.has(new)
            }
            free = free_after(one.seen, {name: changes[name] for name in own})
            if not free.total or any(pool.is_open(job, snapshot.cluster) for job in late):
                continue
            job = outgrown(snapshot, pool, free.total, self._belief)
            if job is None or job.id in changes or job.id not in snapshot.ranking:
                continue
            view = narrowed(_stopping(snapshot, [job]), pool.cluster, {job.id})
            held = [device for device in one.seen.emptied() if not free.holds((device,))]
            view = view._replace(
                free=free.withholding(held), tenants={}, memory=one.schedule.memory
            )
            new = starts(view, self._asked(view).changes).get(job.id)
            if new is not None and self._is_more(job, new):
                return {job.id: new}
        return {}

    def _is_more(self, job: Job, new: Allocation) -> bool:
        """Whether a running job would be faster with other devices, of which there are more."""
        assert job.allocation is not None, "it runs"
        speed = self._belief.iterations_per_s
        faster = speed(job.spec, new, ()) > FASTER * speed(job.spec, job.allocation, ())
        return new.size > job.size and faster

    def _with_guests(
        self, snapshot: Snapshot, asked: dict[Pool, _Asked], found: Mapping[JobId, Allocation]
    ) -> dict[Pool, _Asked]:
        """The same, where a pool makes way for jobs that no other pool has started.

        Otherwise a job that may use several types would wait for one of them alone, however
        long the jobs there are.
        """
        answers = dict(asked)
        started = {name for one in asked.values() for name, new in one.changes.items() if new}
        rest = [job for job in snapshot.waiting() if job.id not in started and job.id not in found]
        for pool, one in asked.items():
            own = one.seen.ranking
            guests = {
                job.id for job in rest if job.id not in own and pool.is_open(job, snapshot.cluster)
            }
            if not guests or any(map(pool.has, found.values())):
                continue  # What was left over has been given out: the next time.
            names = guests | {job.id for job in (*one.seen.holding(), *one.seen.waiting())}
            view = narrowed(snapshot, pool.cluster, names)._replace(memory=one.seen.memory)
            again = self._asked(view)
            begun = {name for name in guests if again.changes.get(name) is not None}
            if begun:
                answers[pool] = again
                rest = [job for job in rest if job.id not in begun]
        return answers


def _own(view: Snapshot, row: Job) -> Snapshot:
    """Of a pool, what a waiting job may be given: it is not told of other devices."""
    usable = usable_by(row.spec, view.cluster, row.only_on)
    if row.allocation is not None or usable == view.cluster.names:
        return view
    names = {job.id for job in view.waiting()}
    names |= {job.id for job in view.holding() if _is_on(job, usable)}
    return narrowed(view, view.cluster.part(usable), names)


def _of(notes: Mapping[Types, object], types: Types) -> object:
    """What is remembered of a pool, or of the one that had most of its types before.

    Pools change with the nodes that are there; what a policy remembers of jobs does not.
    """
    known = max(notes, key=lambda each: len(set(each) & set(types)), default=())
    return notes.get(types, notes[known] if not set(known).isdisjoint(types) else None)


def _no_smaller(seen: Snapshot, job: Job) -> list[JobId]:
    """Waiting jobs that find no room where this one found none."""
    own, least = places(job, seen.cluster), job.spec.sizes[0]
    return [
        each.id
        for each in seen.waiting()
        if each.spec.sizes[0] >= least and places(each, seen.cluster) == own
    ]


def _fitted(snapshot: Snapshot, pools: Sequence[Pool]) -> Snapshot:
    """The same, where waiting jobs ask for no more than a pool has of what they may use.

    Only of those that are bound to nodes, or may have types together, this is not known already:
    `never_fits`.
    """
    cluster, rows = snapshot.cluster, dict[JobId, Job]()
    known: dict[tuple[Nodes, ...], int] = {}
    for job in snapshot.waiting():
        if not job.spec.elastic or not (job.only_on or says_any(job.spec.device_types)):
            continue
        if (own := places(job, cluster)) not in known:
            inside = [nodes for nodes in own if any(nodes <= pool.nodes for pool in pools)]
            known[own] = max((devices_on(nodes, cluster) for nodes in inside), default=0)
        fit = [size for size in job.spec.sizes if size <= known[own]]
        if fit and fit[-1] < job.spec.asked:
            rows[job.id] = job._replace(spec=_at_most(job.spec, fit[-1]))
    return _with_rows(snapshot, rows)


def _stopping(snapshot: Snapshot, jobs: Iterable[Job]) -> Snapshot:
    """The same, where these jobs wait; their devices are not free yet."""
    rows = {job.id: let_go(job, snapshot.now) for job in jobs if job.allocation is not None}
    return _with_rows(snapshot, rows)


def _with_rows(snapshot: Snapshot, rows: Mapping[JobId, Job]) -> Snapshot:
    if not rows:
        return snapshot
    ranking = snapshot.ranking.copy()
    for row in rows.values():
        ranking.put(row, snapshot.now)
    return snapshot._replace(jobs={**snapshot.jobs, **rows}, ranking=ranking)


def _is_on(job: Job, nodes: Nodes) -> bool:
    return job.allocation is not None and nodes.issuperset(job.allocation.nodes())


def _at_most(spec: JobSpec, size: int) -> JobSpec:
    """The same job, for a policy that gives each what it asks for."""
    if size == spec.asked:
        return spec
    return replace(spec, sizes=tuple(each for each in spec.sizes if each <= size), asked=size)


def _sizes(spec: JobSpec, free: int) -> list[int]:
    """Sizes to try: as it asks, the largest for which there is room, and the smallest."""
    fit = [size for size in spec.sizes if size <= min(free, spec.asked)]
    return [fit[-1], fit[0]] if fit and fit[0] < fit[-1] else fit


def _stray(seen: Snapshot, changes: Changes) -> list[Job]:
    """Jobs that would be given devices that they may not use."""
    return [
        job
        for identity, new in changes.items()
        if new is not None
        and new != (job := seen.jobs[identity]).allocation
        and not within(places(job, seen.cluster), new.nodes())
    ]


def _done(seen: Snapshot, changes: Changes) -> Snapshot:
    """Once these changes are made: jobs that they stop wait, the others are out of sight."""
    given = {device for new in changes.values() if new is not None for device in new.devices}
    beside = {name for device in given for name in seen.tenants.get(device, {}).values()}
    tenants = {
        device: left
        for device, own in seen.tenants.items()
        if device not in given
        and (left := {turn: name for turn, name in own.items() if name not in changes})
    }
    free = free_after(seen, changes).withholding(tuple(given))
    stopped = [seen.jobs[name] for name, new in changes.items() if new is None]
    after = seen._replace(free=free, tenants=tenants).hiding([*changes, *beside])
    return _stopping(after, stopped)
