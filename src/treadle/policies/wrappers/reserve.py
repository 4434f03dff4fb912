"""Gangs wait in turn: a job of several devices that was overtaken often gets a reservation.

Policies that pass over jobs that do not fit keep devices busy, and small jobs then take every
device that comes free. Here a job that cannot start with fewer than two devices is overtaken by at
most so many jobs that arrived later, or waits at most so long; then devices are kept for it: those
that are expected to be free together first. They stay its own:

- jobs that run on them run on to their end, and the inner policy sees neither them nor the devices;
- once one is free, only a job that is expected to end before the gang's expected start may use it;
  that moment is fixed when the devices are chosen, so that wrong guesses cannot put it off again
  and again;
- it starts when all of them are free, or as soon as enough others are.

Reservations are served in the order in which they were made, and one at a time keeps devices. The
gang therefore starts once the jobs have ended that run on its devices when they are chosen, and
those that were let in before its expected start. While a job of higher priority waits, no device is
kept.

Under a policy that lets no job overtake there is nothing to do. What is reserved is the wrapper's
memory: after a restart counting begins again.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import are, devices, span, times
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.expected import alone_s, releases
from treadle.policies.wrappers.views import Changes, plain, starts
from treadle.policies.wrappers.wrapper import Note, Remembering, Wrapper


def reserve(
    inner: Policy,
    placement: Placement,
    belief: PerformanceModel,
    *,
    overtakes: int = 8,
    wait_s: float = 14_400.0,
) -> Wrapper:
    """A job of several devices that others overtook gets a reservation.

    overtakes: so many jobs that came later may start first. wait_s: so long it waits at most
    without a reservation.
    """
    if overtakes < 0:
        raise InvalidInputError(f"reserve overtakes must be 0 or more, not {overtakes}")
    if not wait_s >= 0:
        raise InvalidInputError(f"reserve wait_s must be 0 or more, not {wait_s:g}")
    if _in_order(inner):
        return Wrapper(inner)
    return Reserve(inner, placement, belief, overtakes, wait_s)


class Reservation(NamedTuple):
    """Devices that are kept for a job; none yet while others are before it."""

    job: JobId
    since_at: float
    by_at: float = inf  # when it was expected to start when its devices were chosen
    devices: tuple[Device, ...] = ()


class Lines(NamedTuple):
    """What one decision tells the next."""

    overtaken: Mapping[JobId, int] = {}  # jobs of several devices that wait
    reserved: tuple[Reservation, ...] = ()  # in the order in which they are served


class Reserve(Remembering):
    """Counts who is overtaken, and keeps devices for those that were often enough."""

    def __init__(
        self,
        inner: Policy,
        placement: Placement,
        belief: PerformanceModel,
        overtakes: int,
        wait_s: float,
    ) -> None:
        super().__init__(inner)
        self._placement = placement
        self._belief = belief
        self._overtakes = overtakes
        self._wait_s = wait_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        gangs = [job for job in snapshot.waiting() if _gang(job)]
        if not gangs:
            schedule = self.inner.decide(self.inside(snapshot))
            return Schedule(schedule.changes, schedule.valid_until, Note(Lines(), schedule.memory))
        before = self._lines(snapshot)
        names = {job.id for job in gangs}
        reserved = [entry for entry in before.reserved if entry.job in names]
        counted = {job.id: before.overtaken.get(job.id, 0) for job in gangs}
        self._add(reserved, snapshot, gangs, counted)
        while True:
            changes, schedule, kept = self._decided(snapshot, reserved)
            after = _overtaken(snapshot, gangs, counted, changes)
            known = {entry.job for entry in kept}
            late = {
                name: count
                for name, count in after.items()
                if count > self._overtakes and name not in known and changes.get(name) is None
            }
            if not late:
                break
            self._add(reserved, snapshot, gangs, {**counted, **late})
        waiting = {name: count for name, count in after.items() if changes.get(name) is None}
        left = tuple(entry for entry in kept if changes.get(entry.job) is None)
        until = min(schedule.valid_until, self._next_at(snapshot, gangs, left))
        return Schedule(changes, until, Note(Lines(waiting, left), schedule.memory))

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row, lines = snapshot.jobs[job], self._lines(snapshot)
        head = next((entry for entry in lines.reserved if entry.devices), None)
        inner = self.inner.why(self.inside(snapshot), job)
        if row.allocation is not None or head is None or head.job not in snapshot.jobs:
            return inner
        free = sum(snapshot.free.knows((d,)) and snapshot.free.holds((d,)) for d in head.devices)
        ago = span(snapshot.now - head.since_at)
        if job == head.job:
            left_s = head.by_at - snapshot.now
            start = f"; it is expected to start in {span(left_s)}" if 0 < left_s < inf else ""
            return Reason(
                "devices",
                f"{devices(len(head.devices))} are being kept for it since {ago} ago; "
                f"{free} of {len(head.devices)} {are(free)} free{start}",
            )
        if any(entry.job == job for entry in lines.reserved):
            return Reason(
                "order", f"it has a reservation, and devices are kept for job {head.job} before it"
            )
        if row.spec.sizes[0] > free:
            return inner
        takes_s, left_s = alone_s(row, self._belief, snapshot.now), head.by_at - snapshot.now
        until = f"that end within {span(left_s)}" if left_s > 0 else "that were let in before"
        return Reason(
            "order",
            f"{free} free {'device is' if free == 1 else 'devices are'} kept for job {head.job}, "
            f"which needs {len(head.devices)} and was overtaken "
            f"{times(lines.overtaken.get(head.job, 0))}; only jobs {until} may use them, and it "
            f"is expected to take {span(takes_s)}",
        )

    # -- one decision ---------------------------------------------------------------------------

    def _decided(
        self, snapshot: Snapshot, reserved: Sequence[Reservation]
    ) -> tuple[dict[JobId, Allocation | None], Schedule, list[Reservation]]:
        """All changes, the inner policy's answer, and the reservations as they then are."""
        changes: dict[JobId, Allocation | None] = {}
        seen, kept = self.inside(snapshot), list(reserved)
        head: Reservation | None = None
        for entry in reserved:
            job = snapshot.jobs[entry.job]
            if not _ready(job, snapshot.now) or _outranked(snapshot, job):
                continue
            found = self._placement.place(seen.free, job.spec.sizes[0])
            if found is None:
                head = self._with_devices(seen, entry)
                break
            changes[job.id] = Allocation(found)
            seen = seen.hiding([job.id]).withholding(found)
            kept.remove(entry)
        if head is None:
            schedule = self.inner.decide(seen)
            return {**schedule.changes, **changes}, schedule, [_without(entry) for entry in kept]
        kept = [head if entry.job == head.job else _without(entry) for entry in kept]
        view = _without_devices(seen, head.devices)
        schedule = self.inner.decide(view)
        short = self._let_in(seen, view, head, schedule.changes)
        return {**schedule.changes, **changes, **short}, schedule, kept

    def _with_devices(self, seen: Snapshot, entry: Reservation) -> Reservation | None:
        """The reservation with devices: those it has, or those that are free together first."""
        known = seen.free.knows(entry.devices)
        if entry.devices and known and all(_here(seen, device) for device in entry.devices):
            return entry
        size = seen.jobs[entry.job].spec.sizes[0]
        for release in releases(seen, self._belief, {}):
            if release.free.total >= size:
                found = self._placement.place(release.free, size)
                if found is not None:
                    return entry._replace(by_at=seen.now + release.in_s, devices=found)
        return None

    def _let_in(
        self, seen: Snapshot, view: Snapshot, head: Reservation, changes: Changes
    ) -> Changes:
        """Starts of short jobs on devices that are kept, as the inner policy chooses them."""
        room_s = head.by_at - seen.now
        free = [device for device in head.devices if seen.free.holds((device,))]
        if not free or room_s <= 0:
            return {}
        short = {
            job.id
            for job in view.waiting()
            if changes.get(job.id) is None
            and job.id != head.job
            and job.spec.sizes[0] <= len(free)
            and alone_s(job, self._belief, seen.now) <= room_s
        }
        if not short:
            return {}
        kept = set(free)
        others = [device for device in seen.free if device not in kept]
        only = seen.keeping(list(seen.holding())).withholding(others)
        only = only.hiding([job.id for job in seen.waiting() if job.id not in short])
        return starts(seen, self.inner.decide(only).changes)

    # -- who is next ----------------------------------------------------------------------------

    def _add(
        self,
        reserved: list[Reservation],
        snapshot: Snapshot,
        gangs: Iterable[Job],
        overtaken: Mapping[JobId, int],
    ) -> None:
        """Reservations for those that were overtaken or waited long enough; the longest first."""
        known = {entry.job for entry in reserved}
        now = snapshot.now
        for job in sorted(gangs, key=lambda job: job.sequence):
            long = now >= job.since_at + self._wait_s
            if job.id not in known and (long or overtaken[job.id] >= max(self._overtakes, 1)):
                reserved.append(Reservation(job.id, now))

    def _next_at(
        self, snapshot: Snapshot, gangs: Iterable[Job], reserved: Sequence[Reservation]
    ) -> float:
        """When the next job has waited long enough."""
        known = {entry.job for entry in reserved}
        moments = [job.since_at + self._wait_s for job in gangs if job.id not in known]
        return min((at for at in moments if at > snapshot.now), default=inf)

    def _lines(self, snapshot: Snapshot) -> Lines:
        known = self.remembered(snapshot)
        return known if isinstance(known, Lines) else Lines()


def _in_order(policy: Policy) -> bool:
    """Whether the policy inside all wrappers lets no job overtake."""
    while isinstance(policy, Wrapper):
        policy = policy.inner
    return policy.in_order


def _gang(job: Job) -> bool:
    return job.spec.sizes[0] > 1 and plain(job.spec)


def _ready(job: Job, now: float) -> bool:
    return job.ready_at <= now and not job.avoid


def _outranked(snapshot: Snapshot, job: Job) -> bool:
    own = job.spec.priority
    return any(other.spec.priority > own for other in snapshot.waiting())


def _without(entry: Reservation) -> Reservation:
    return entry._replace(by_at=inf, devices=()) if entry.devices else entry


def _here(snapshot: Snapshot, device: Device) -> bool:
    return device in snapshot.tenants or snapshot.free.holds((device,))


def _without_devices(seen: Snapshot, kept: Sequence[Device]) -> Snapshot:
    """Without these devices and without the jobs on them."""
    on_them = {job for device in kept for job in seen.tenants.get(device, {}).values()}
    view = seen.keeping([seen.jobs[name] for name in sorted(on_them)])
    return view.withholding([device for device in kept if device not in seen.tenants])


def _overtaken(
    snapshot: Snapshot, gangs: Iterable[Job], counted: Mapping[JobId, int], changes: Changes
) -> dict[JobId, int]:
    """How often each gang was overtaken once these changes are made."""
    begun = [snapshot.jobs[name] for name in starts(snapshot, changes)]
    first = [job for job in begun if not job.starts]
    return {
        gang.id: counted[gang.id]
        + sum(
            other.sequence > gang.sequence and other.spec.priority <= gang.spec.priority
            for other in first
        )
        for gang in gangs
    }
