"""AntMan (Xiao et al., OSDI'20), as Muri's authors model it (Zhao et al., SIGCOMM'22).

Jobs are guaranteed or opportunistic, and no job is preempted. Guaranteed jobs come first, each
device has at most one of them, and they go where the placement puts them. With `hoard=on`, as
Muri's authors have it, one that does not fit hoards: it sets devices aside until it has enough, on
the node that has the most of them, and from then on only there; a job larger than a node sets aside
whole nodes. It is off by default (docs/rubick.md has what it costs), and a job that does not fit
waits while others pass.

A tenant's quota counts what its guaranteed jobs hold and what is set aside for them, so a quota of
the whole cluster is the same as none.

Opportunistic jobs share. A device takes one of them, whether a guaranteed job runs there or not, so
they find room where guaranteed ones cannot, anywhere in the cluster. They take idle devices first,
then those set aside, then those of guaranteed jobs; of equals, those that an opportunistic job left
while the guaranteed one stayed, and then in the cluster's order. (The authors sum up shares of a
device, and there the next to last is an error of rounding. Averages hang on it, so it is kept.)

What was set aside, and which job left which, is handed from decision to decision as the schedule's
memory. Without it, after a restart, jobs set devices aside again.
"""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.ranking import Rank
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot
from treadle.core.why import holders_of, holding
from treadle.core.wording import several, too_large
from treadle.policies.base.companions import Companions
from treadle.policies.base.placement import Fit, Placement
from treadle.policies.base.quotas import Left
from treadle.wire.quotas import Quotas
from treadle.wire.quotas import quotas as parse_quotas

GUARANTEED, OPPORTUNISTIC = range(2)  # turns
_ARRIVALS_MAX = 1e9  # more jobs than ever arrive, so that the two kinds do not mix


class Memory(NamedTuple):
    """What one decision tells the next."""

    hoards: Mapping[JobId, tuple[Device, ...]] = {}  # set aside for guaranteed jobs that wait
    shared: frozenset[Device] = frozenset()  # with an opportunistic job
    left: frozenset[Device] = frozenset()  # by an opportunistic job, while a guaranteed one stayed


class AntMan(Policy):
    """Guaranteed jobs have devices first, opportunistic ones share them; no job is preempted.

    quotas: devices that each tenant's guaranteed jobs may hold at once, as a:32/b:16; others then
    have none. Opportunistic jobs need no quota.
    hoard: set devices aside for a guaranteed job that does not fit yet.
    """

    shares = True

    def __init__(
        self,
        placement: Placement,
        belief: PerformanceModel,
        *,
        quotas: str = "",
        hoard: bool = False,
    ) -> None:
        self._hoard = hoard
        self._placement = placement
        self._belief = belief
        self._quotas = parse_quotas("antman", quotas)
        self._fit = Fit(placement)

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        return Rank(job.sequence + (0.0 if job.spec.guaranteed else _ARRIVALS_MAX))

    def quotas(self, snapshot: Snapshot) -> Quotas | None:  # noqa: ARG002
        return self._quotas

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        if spec.guaranteed:
            quota = inf if self._quotas is None else self._quotas.get(spec.tenant, 0.0)
            if spec.asked > quota:
                return (
                    f"it asks for {several(spec.asked, 'guaranteed device')} and the quota of "
                    f"tenant {spec.tenant!r} is {quota:g}"
                )
            return self._fit.never(spec.asked, cluster)
        if spec.asked > cluster.device_count:
            return too_large(spec.asked, cluster.device_count)
        return None

    def decide(self, snapshot: Snapshot) -> Schedule:
        decision = _Decision(snapshot, self._placement, Companions(snapshot, self._belief))
        left = self._left(snapshot)
        for job in snapshot.waiting():
            if not job.spec.guaranteed:
                decision.squeeze_in(job)
            elif left.of(job.spec) > 0:
                taken = decision.guarantee(job, left.of(job.spec), hoard=self._hoard)
                left.use(job.spec, taken)
        return Schedule(decision.changes, memory=decision.remembered())

    def _left(self, snapshot: Snapshot) -> Left:
        """What guaranteed jobs may still be given."""
        left = Left(self._quotas, inf)
        for job in snapshot.holding():
            if job.spec.guaranteed:
                left.use(job.spec, job.size)
        return left

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        row = snapshot.jobs[job]
        if row.phase is not Phase.WAITING:
            return holding(snapshot, row)
        asked, total = row.spec.asked, snapshot.cluster.device_count
        turn = _turn(row.spec)
        if row.spec.guaranteed:
            left, tenant = self._left(snapshot).of(row.spec), row.spec.tenant
            if asked > left:
                quota = (self._quotas or {}).get(tenant, 0.0)
                used = {"quota": quota, "used": quota - left}
                return Reason("quota", {"tenant": tenant, **used, "asked": asked})
            if self._hoard:
                have = len(_memory(snapshot).hoards.get(job, ()))
                return Reason("set-aside", {"asked": asked, "have": have})
        room = _opened(snapshot, _closed(snapshot, turn))
        if room.total >= asked and row.spec.guaranteed:
            most = room.most_on_a_node()
            return Reason("fragmentation", {"asked": asked, "free": room.total, "most": most})
        taken = [device for device in snapshot.tenants if not room.holds((device,))]
        numbers = {"asked": asked, "free": room.total, "total": total}
        return Reason("devices", {**numbers, "holders": holders_of(snapshot.tenants, taken)})


class _Decision:
    """One decision: devices that are open to either kind, and what was given out."""

    def __init__(self, snapshot: Snapshot, placement: Placement, companions: Companions) -> None:
        before = _memory(snapshot)
        self._companions = companions
        self.changes: dict[JobId, Allocation | None] = {}
        self._snapshot = snapshot
        self._placement = placement
        self._shared = _closed(snapshot, OPPORTUNISTIC)
        self._guaranteed = _closed(snapshot, GUARANTEED)
        # Neither held by a guaranteed job nor set aside for one.
        self._open = _opened(snapshot, self._guaranteed)
        # With no guaranteed job running, nothing comes free for those that wait for more.
        earlier = before.hoards if self._guaranteed else {}
        self._earlier = {job: own for job, own in earlier.items() if self._open.holds(own)}
        self._hoards: dict[JobId, tuple[Device, ...]] = {}
        self._aside = {device for own in self._earlier.values() for device in own}
        if self._aside:
            self._open.take(list(self._aside))
        gone = before.shared - self._shared
        self._left = (before.left - gone) | (gone & (self._guaranteed | self._aside))
        self._with_room: list[Device] | None = None  # for opportunistic jobs, the best first

    def remembered(self) -> Memory:
        return Memory(self._hoards, frozenset(self._shared), frozenset(self._left))

    def guarantee(self, job: Job, quota: float, *, hoard: bool) -> int:
        """Start a guaranteed job, or set aside devices for it; how many it has now.

        quota: what its tenant may still be given.
        """
        own = self._earlier.get(job.id, ())
        if not own and not self._open.total:
            return 0
        asked = job.spec.asked
        unsuited = self._companions.unsuited(job.spec, [*self._open, *own])
        closed = [device for device in self._open if device in unsuited]
        if closed:
            self._open.take(closed)
        # It lets go of those set aside on which there is a job now that it cannot be beside.
        devices = self._gathered(tuple(d for d in own if d not in unsuited), asked)
        if closed or own:
            self._open.give([*closed, *own])
        self._aside.difference_update(own)
        if len(devices) < asked or asked > quota:
            devices = devices[: int(min(quota, asked - 1))] if hoard else ()
        if not devices:
            return 0
        self._open.take(devices)
        if len(devices) == asked:
            self._companions.give(job.id, devices)
            self.changes[job.id] = Allocation(devices, turn=GUARANTEED)
            self._guaranteed.update(devices)
        else:
            self._hoards[job.id] = devices
            self._aside.update(devices)
        return len(devices)

    def squeeze_in(self, job: Job) -> None:
        """Start an opportunistic job if enough devices have room for it, wherever they are."""
        if self._with_room is None:
            self._with_room = self._best_first()
        asked = job.spec.asked
        unsuited = self._companions.unsuited(job.spec, self._with_room)
        suited = [device for device in self._with_room if device not in unsuited]
        if asked <= len(suited):
            devices = tuple(suited[:asked])
            taken = set(devices)
            self._with_room = [device for device in self._with_room if device not in taken]
            self._companions.give(job.id, devices)
            self.changes[job.id] = Allocation(devices, turn=OPPORTUNISTIC)
            self._shared.update(devices)

    def _gathered(self, own: tuple[Device, ...], asked: int) -> tuple[Device, ...]:
        """Devices to start on, or all there are to set aside, the job's own among them."""
        free = self._open
        if not own:
            devices = self._placement.place(free, asked)
            if devices is not None:
                return devices
        if asked <= free.largest:
            return self._on_one_node(own, asked)
        missing = asked - len(own)
        whole = free.whole(free.largest)[: missing // free.largest]
        more = tuple(device for node in whole for device in free.pick(node, free.largest))
        if own and len(more) < missing:
            free = free.copy()
            free.give(own)
            devices = self._placement.place(free, asked)
            if devices is not None:
                return devices
        return (*own, *more)

    def _on_one_node(self, own: tuple[Device, ...], asked: int) -> tuple[Device, ...]:
        """More of the node where its own are, or everything open on one that could hold the job."""
        free = self._open
        if own:
            more = [device for device in free if device.node == own[0].node]
            return (*own, *more[: asked - len(own)])
        nodes = [node for node, count in enumerate(free.capacity) if count >= asked]
        node = max(nodes, key=free.count)
        return free.pick(node, free.count(node))

    def _best_first(self) -> list[Device]:
        devices = [device for device in self._snapshot.emptied() if device not in self._shared]
        devices.sort(
            key=lambda device: (
                device in self._guaranteed,
                device in self._aside,
                device not in self._left,
            )
        )
        return devices


def _memory(snapshot: Snapshot) -> Memory:
    return snapshot.memory if isinstance(snapshot.memory, Memory) else Memory()


def _closed(snapshot: Snapshot, turn: int) -> set[Device]:
    """Devices on which there is a job of that kind, or in that turn, already."""
    jobs = snapshot.jobs
    return {
        device
        for device, turns in snapshot.tenants.items()
        if turn in turns or any(_turn(jobs[job].spec) == turn for job in turns.values())
    }


def _opened(snapshot: Snapshot, closed: set[Device]) -> FreeDevices:
    """Free devices, and those that only jobs of the other kind hold."""
    free = snapshot.free.copy()
    others = [device for device in snapshot.tenants if device not in closed]
    if others:
        free.give(others)
    return free


def _turn(spec: JobSpec) -> int:
    return GUARANTEED if spec.guaranteed else OPPORTUNISTIC
