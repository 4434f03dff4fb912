"""Gangs wait in turn: a job of several devices that was overtaken often gets a reservation.

Policies that pass over jobs that do not fit keep devices busy, and small jobs then take every
device that comes free. Here a job that cannot start with fewer than two devices is overtaken by at
most so many jobs that arrived later, or waits at most so long. Jobs that join others take no free
device and are not counted. Then it is promised devices, those that are expected to be free
together first, and the moment at which they are (jobs that can resume count as gone in 5 min):

- up to that moment only jobs that are expected to end before it start on them, or that can resume
  and run for five minutes at least;
- then those that can resume make way;
- if others are still there, the promise was missed. It is made anew by what is then believed, where
  a job that outlived it is taken to stay for as long as the first promise is past. Meanwhile the
  devices are lent as before, but no job starts there in the last quarter;
- it starts when all of them are free, or as soon as enough others are.

So a job that hangs keeps devices idle for about a quarter of the time, not for ever. Nor does a
gang wait for ever because lengths are believed too short: each new promise lasts as long as all
before it, and once a quarter of it is longer than any job runs, no job is there at its end
(docs/sharing.md has the bound).

Reservations are served in the order in which they were made, one at a time has devices. While a job
of higher priority waits, no devices are kept, but the promise stands. Where tenants have quotas,
devices are kept for guaranteed jobs of these alone.

A gang that has run is the policy's to preempt. Once it has waited again for long, it has a
reservation and a turn (gang_turn.py); jobs that can resume then make way within as long again.

Under a policy that lets no job overtake there is nothing to do. What is reserved is the wrapper's
memory; after a restart the counts come from the store (`turns`), and devices are chosen again. So
they are when a gang could not run for a while because nodes were drained or lost: its count stands
(gang_counts.py). Of many gangs, those that came first are counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.device_types import devices_on
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import are, devices, several, span, times
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import place, usable_by
from treadle.policies.wrappers.expected import alone_s, releases
from treadle.policies.wrappers.gang_counts import counted, counted_after
from treadle.policies.wrappers.gang_turn import (
    Turns,
    is_gang,
    outranked,
    waiting_gangs,
    waits_in_turn,
)
from treadle.policies.wrappers.making_way import leaves_at
from treadle.policies.wrappers.reservation import Bounds, Lines, Reservation, lines_in
from treadle.policies.wrappers.views import Changes, starts
from treadle.policies.wrappers.wrapper import Note, Remembering, Wrapper, keeps_order, worn

_WORTH_S = 300.0  # a job is not started to be stopped again sooner
_ANEW_MIN_S = 1.0  # a missed promise is not made anew for less
_UNLENT = 0.25  # of a promise made anew: so long no job starts, for those that take longer


def reserve(
    inner: Policy,
    placement: Placement,
    belief: PerformanceModel,
    *,
    overtakes: float = 2.0,
    wait_s: float = 14_400.0,
    lengths: float = 2.0,
    again: float = 4.0,
) -> Wrapper:
    """A job of several devices that others overtook gets a reservation.

    overtakes: so many jobs that came later may start first, for each device it may use.
    wait_s, lengths: it waits at most so long, and so many times as long as it is expected to take.
    again: one that has run and was preempted waits for so many times as long as it has run.
    """
    if not overtakes >= 0:
        raise InvalidInputError(f"reserve overtakes must be 0 or more, not {overtakes:g}")
    for name, value in (("wait_s", wait_s), ("lengths", lengths), ("again", again)):
        if not value >= 0:
            raise InvalidInputError(f"reserve {name} must be 0 or more, not {value:g}")
    if keeps_order(inner):
        return Wrapper(inner)
    return Reserve(inner, placement, belief, Bounds(overtakes, wait_s, lengths), Turns(again))


def until_reserved(policy: Policy, snapshot: Snapshot, job: JobId) -> str:
    """When a waiting job gets a reservation under a policy; empty if it needs none."""
    found = worn(policy, Reserve)
    return "" if found is None else found.until_reserved(snapshot, job, lines_in(snapshot.memory))


class Reserve(Remembering):
    """Counts who is overtaken, and keeps devices for those that were often enough."""

    def __init__(
        self,
        inner: Policy,
        placement: Placement,
        belief: PerformanceModel,
        bounds: Bounds,
        turns: Turns,
    ) -> None:
        super().__init__(inner)
        self._placement = placement
        self._belief = belief
        self._bounds = bounds
        self._turns = turns

    def decide(self, snapshot: Snapshot) -> Schedule:
        # The whole queue at every decision: most jobs of it are no gangs, by their sizes alone.
        several = [job for job in snapshot.waiting() if job.spec.sizes[0] > 1]
        before = self._lines(snapshot)
        quotas = self.inner.quotas(snapshot) if several or before.overtaken else None
        gangs = waiting_gangs(several, quotas)
        if not gangs:
            schedule = self._turns.decided(self.inner, self.inside(snapshot))
            until = min(schedule.valid_until, self._back_at(snapshot, schedule.changes))
            after = counted_after(snapshot, (), before.overtaken, schedule.changes, quotas)
            return Schedule(schedule.changes, until, Note(Lines(after), schedule.memory))
        names = {job.id for job in gangs}
        reserved = [entry for entry in before.reserved if entry.job in names]
        so_far = {job.id: counted(job, before.overtaken) for job in gangs}
        self._add(reserved, snapshot, gangs, so_far)
        while True:
            changes, schedule, kept = self._decided(snapshot, reserved)
            after = counted_after(snapshot, gangs, before.overtaken, changes, quotas)
            known = {entry.job for entry in kept}
            late = {
                job.id: after[job.id].times
                for job in gangs
                if after[job.id].times > self._most(snapshot, job)
                and job.id not in known
                and changes.get(job.id) is None
                and not job.starts
            }
            if not late:
                break
            self._add(reserved, snapshot, gangs, {**so_far, **late})
        waiting = {name: count for name, count in after.items() if changes.get(name) is None}
        left = tuple(entry for entry in kept if changes.get(entry.job) is None)
        moments = [at for entry in left for at in self._moments(snapshot, entry)]
        moments += [self._next_at(snapshot, gangs, left), self._back_at(snapshot, changes)]
        until = min(schedule.valid_until, *moments)
        return Schedule(changes, until, Note(Lines(waiting, left), schedule.memory))

    def own_part(self, memory: object) -> Lines:
        """A gang keeps its turn when the policy is switched."""
        return lines_in(memory)

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        row, lines = snapshot.jobs[job], self._lines(snapshot)
        head = next((entry for entry in lines.reserved if entry.devices), None)
        if row.allocation is not None or head is None or head.job not in snapshot.jobs:
            seen = self.inside(snapshot)
            turn = None if row.allocation is not None else self._turns.why(self.inner, seen, job)
            return turn or self.inner.why(seen, job)
        inner = self.inner.why(self.inside(snapshot), job)
        free = sum(snapshot.free.knows((d,)) and snapshot.free.holds((d,)) for d in head.devices)
        ago = span(snapshot.now - head.since_at)
        if job == head.job:
            return Reason(
                "devices",
                f"{devices(len(head.devices))} are being kept for it, for {ago} so far; "
                f"{free} of {len(head.devices)} {are(free)} free",
            )
        if any(entry.job == job for entry in lines.reserved):
            return Reason(
                "order", f"it has a reservation, and devices are kept for job {head.job} before it"
            )
        if row.spec.sizes[0] > free:
            return inner
        return Reason(
            "order",
            f"{free} free {'device is' if free == 1 else 'devices are'} kept for job {head.job}, "
            f"which needs {len(head.devices)} and {_kept_for(snapshot, lines, head.job)}; "
            f"{self._not_lent(snapshot, head, row)}",
        )

    def _not_lent(self, snapshot: Snapshot, head: Reservation, row: Job) -> str:
        """Why a job gets none of the free devices that are kept."""
        left_s = head.by_at - snapshot.now
        if snapshot.now >= head.lent_until_at:
            return (
                "jobs on its devices take longer than expected, and no other starts there for "
                f"{span(max(0.0, left_s))}"
            )
        takes_s = alone_s(row, self._belief, snapshot.now)
        may = f"only jobs that are gone within {span(left_s)} may use them, and it"
        return f"{may if left_s > 0 else 'it'} is expected to take {span(takes_s)}"

    def until_reserved(self, snapshot: Snapshot, job: JobId, lines: Lines) -> str:
        """When a gang gets a reservation, and how often it was overtaken; empty if it is none."""
        row = snapshot.jobs[job]
        if row.allocation is not None or any(entry.job == job for entry in lines.reserved):
            return ""  # If it has one, `why` says so.
        left_s = self._waits_until(row, snapshot.now) - snapshot.now
        if row.starts and waits_in_turn(row):
            return self._until_its_turn(row, snapshot.now, left_s)
        if job not in lines.overtaken:
            return ""
        count, most = counted(row, lines.overtaken), max(self._most(snapshot, row), 1)
        so_far = f"it was overtaken {times(count)}" if count else "it was not overtaken yet"
        if count >= most or left_s <= 0:
            # No job has started since, and nothing else has been decided.
            return f"{so_far}; devices are kept for it from the next decision on"
        more = several(most - count, "more later job has", "more later jobs have")
        if not count:
            more = several(most, "later job has", "later jobs have")
        return (
            f"{so_far}; devices are kept for it once {more} overtaken it, or in {span(left_s)}, "
            f"{self._patience_text()}"
        )

    def _until_its_turn(self, row: Job, now: float, left_s: float) -> str:
        """The same of a gang that has run."""
        so_far = (
            f"it ran for {span(row.held_at(now))} and has waited for {span(now - row.since_at)}"
        )
        if left_s <= 0:
            return f"{so_far}; it gets a reservation when those before it have had theirs"
        return f"{so_far}; devices are kept for it in {span(left_s)}"

    def _patience_text(self) -> str:
        """After which wait a gang gets a reservation, whatever overtook it."""
        bounds = self._bounds
        waited = f"when it has waited {span(bounds.wait_s)}"
        if not bounds.lengths:
            return waited
        return f"{waited} and {_times(bounds.lengths)} the time it is taken to need"

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
            if job.ready_at > snapshot.now or outranked(snapshot, job):
                continue
            found = self._placed(seen, job, seen.free)
            if found is None:
                head = self._with_devices(seen, entry)
                break
            changes[job.id] = Allocation(found)
            seen = seen.hiding([job.id]).withholding(found)
            kept.remove(entry)
        if head is None:
            schedule = self._turns.decided(self.inner, seen)
            return {**schedule.changes, **changes}, schedule, kept
        kept = [head if entry.job == head.job else _without(entry) for entry in kept]
        held = _holders(seen, head.devices)
        if seen.now >= head.by_at and all(self._makes_way(seen, job, head) for job in held):
            changes |= {job.id: None for job in held}
            changes[head.job] = Allocation(head.devices)
            view = _frozen(seen, head.devices).hiding([head.job])
            schedule = self._turns.decided(self.inner, view)
            return {**schedule.changes, **changes}, schedule, kept
        return self._around(seen, head, changes, kept)

    def _makes_way(self, seen: Snapshot, job: Job, head: Reservation) -> bool:
        at = leaves_at(job, self._belief, head.by_at, seen.now)
        return at is not None and seen.now >= at and not self._turns.has(seen, job)

    def _around(
        self,
        seen: Snapshot,
        head: Reservation,
        changes: dict[JobId, Allocation | None],
        kept: list[Reservation],
    ) -> tuple[dict[JobId, Allocation | None], Schedule, list[Reservation]]:
        """What else happens while devices are kept for a gang."""
        frozen = _frozen(seen, head.devices)
        if seen.now >= head.by_at:
            schedule = self._turns.decided(self.inner, frozen)
            return {**schedule.changes, **changes}, schedule, kept
        free = [device for device in head.devices if seen.free.holds((device,))]
        schedule = self._turns.decided(self.inner, seen.withholding(free))
        if not self._harmless(seen, head, schedule.changes):
            schedule = self._turns.decided(self.inner, frozen)
        short = self._let_in(seen, head, schedule.changes)
        return {**schedule.changes, **changes, **short}, schedule, kept

    def _harmless(self, seen: Snapshot, head: Reservation, changes: Changes) -> bool:
        """Whether no job that could not make way in time gets one of the devices kept."""
        kept = set(head.devices)
        return all(
            new is None
            or kept.isdisjoint(new.devices)
            or self._gone_by(seen.jobs[name], head, seen.now)
            for name, new in changes.items()
            if name != head.job
        )

    def _gone_by(self, job: Job, head: Reservation, now: float) -> bool:
        """Whether it would leave the devices of a gang when their moment comes, for a gain."""
        room_s = head.by_at - now
        if now >= head.lent_until_at:
            return False
        if job.spec.resumable and room_s >= _WORTH_S:
            return True
        return alone_s(job, self._belief, now) <= room_s

    def _with_devices(self, seen: Snapshot, entry: Reservation) -> Reservation | None:
        """The reservation with devices: those it has, or those that are free together first."""
        known = bool(entry.devices) and seen.free.knows(entry.devices)
        if known and all(_here(seen, device) for device in entry.devices):
            held = _holders(seen, entry.devices)
            late = [job for job in held if not job.spec.resumable or self._turns.has(seen, job)]
            if seen.now < entry.by_at or not late:
                return entry
            return self._anew(seen, entry, late)
        return self._chosen(seen, entry, {})

    def _anew(self, seen: Snapshot, entry: Reservation, late: Iterable[Job]) -> Reservation | None:
        """The promise after one that these jobs made it miss; it lasts as long as all before.

        Otherwise jobs that are believed too short could be lent the devices again and again.
        """
        due_at = min(entry.due_at, entry.by_at)
        outlived_s = max(_ANEW_MIN_S, seen.now - due_at)
        found = self._chosen(seen, entry, {job.id: outlived_s for job in late})
        if found is None:
            return None
        in_s = max(outlived_s, found.by_at - seen.now)
        return found._replace(
            due_at=due_at, by_at=seen.now + in_s, lent_until_at=seen.now + (1.0 - _UNLENT) * in_s
        )

    def _chosen(
        self, seen: Snapshot, entry: Reservation, stay_s: Mapping[JobId, float]
    ) -> Reservation | None:
        """With the devices that are free together first; stay_s: how long jobs stay at least."""
        stay = self._turns.of(seen)
        stay |= {name: max(stay.get(name, 0.0), least_s) for name, least_s in stay_s.items()}
        # Jobs that can resume make way then, however long they would run.
        gang = seen.jobs[entry.job]
        most_s = max(_WORTH_S, seen.now - gang.since_at) if gang.starts else _WORTH_S
        most = {job.id: most_s for job in seen.holding() if job.spec.resumable}
        for release in releases(seen, self._belief, {}, stay, most):
            if release.free.total >= gang.spec.sizes[0]:
                found = self._placed(seen, gang, release.free)
                if found is not None:
                    by_at = seen.now + release.in_s
                    return entry._replace(by_at=by_at, devices=found, lent_until_at=inf)
        return None

    def _placed(self, seen: Snapshot, gang: Job, free: FreeDevices) -> tuple[Device, ...] | None:
        """As many of these devices as a gang needs, of those that it may use."""
        size, placement = gang.spec.sizes[0], self._placement
        return place(gang, size, free, cluster=seen.cluster, placement=placement)

    def _let_in(self, seen: Snapshot, head: Reservation, changes: Changes) -> Changes:
        """Starts on free devices that are kept, as the inner policy chooses."""
        free = [device for device in head.devices if seen.free.holds((device,))]
        waiting = [job for job in seen.waiting() if changes.get(job.id) is None]
        may = {
            job.id
            for job in waiting
            if job.id != head.job
            and job.spec.sizes[0] <= len(free)
            and self._gone_by(job, head, seen.now)
        }
        if not may:
            return {}
        kept = set(free)
        others = [device for device in seen.free if device not in kept]
        only = seen.keeping(list(seen.holding())).withholding(others)
        only = only.hiding([job.id for job in seen.waiting() if job.id not in may])
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
            most = max(self._most(snapshot, job), 1)
            often = overtaken[job.id] >= most and not job.starts
            if job.id in known or not (often or now >= self._waits_until(job, now)):
                continue
            before = [snapshot.jobs[entry.job] for entry in reserved]
            if not job.starts or self._turns.room(snapshot, before, job):
                reserved.append(Reservation(job.id, now))

    def _moments(self, snapshot: Snapshot, entry: Reservation) -> list[float]:
        """When the devices that are kept are to be looked at: when others make way."""
        now, by_at = snapshot.now, entry.by_at
        held = _holders(snapshot, entry.devices)
        found = [by_at, *(leaves_at(job, self._belief, by_at, now) for job in held)]
        later = [at for at in found if at is not None and at > now]
        if not later and held:  # They start or stop, or were believed to be gone by now.
            later = [now + max(_ANEW_MIN_S, _UNLENT * (now - by_at))]
        return later

    def _next_at(
        self, snapshot: Snapshot, gangs: Iterable[Job], reserved: Sequence[Reservation]
    ) -> float:
        """When the next job has waited long enough."""
        known = {entry.job for entry in reserved}
        now = snapshot.now
        moments = [self._waits_until(job, now) for job in gangs if job.id not in known]
        return min((at for at in moments if at > now), default=inf)

    def _back_at(self, snapshot: Snapshot, changes: Changes) -> float:
        """When the first of the gangs that are stopped now has waited long enough again."""
        now = snapshot.now
        stopped = (snapshot.jobs[name] for name, new in changes.items() if new is None)
        waits = [self._wait_again_s(job, now) for job in stopped if is_gang(job)]
        return now + min((wait_s for wait_s in waits if wait_s > 0), default=inf)

    def _wait_again_s(self, job: Job, now: float) -> float:
        """How long a gang that has run waits for its turn."""
        return self._turns.wait_s(job.held_at(now))

    def _most(self, snapshot: Snapshot, gang: Job) -> int:
        """How many may overtake a gang."""
        usable = devices_on(usable_by(gang.spec, snapshot.cluster, gang.only_on), snapshot.cluster)
        return int(self._bounds.overtakes * usable)

    def _waits_until(self, job: Job, now: float) -> float:
        """When it has waited long enough whatever overtook it."""
        if job.starts:
            return job.since_at + self._wait_again_s(job, now)
        length_s = alone_s(job, self._belief, now) if self._bounds.lengths else 0.0
        return job.since_at + self._bounds.wait_s + self._bounds.lengths * length_s

    def _lines(self, snapshot: Snapshot) -> Lines:
        known = self.remembered(snapshot)
        return known if isinstance(known, Lines) else Lines()


def _kept_for(snapshot: Snapshot, lines: Lines, gang: JobId) -> str:
    """Why devices are kept for a gang."""
    row = snapshot.jobs[gang]
    if row.starts:
        return f"has waited for {span(snapshot.now - row.since_at)}"
    return f"was overtaken {times(counted(row, lines.overtaken))}"


def _times(factor: float) -> str:
    return "twice" if factor == 2 else f"{factor:g} times"


def _without(entry: Reservation) -> Reservation:
    return Reservation(entry.job, entry.since_at) if entry.devices else entry


def _here(snapshot: Snapshot, device: Device) -> bool:
    return device in snapshot.tenants or snapshot.free.holds((device,))


def _holders(seen: Snapshot, kept: Sequence[Device]) -> list[Job]:
    names = {job for device in kept for job in seen.tenants.get(device, {}).values()}
    return [seen.jobs[name] for name in sorted(names)]


def _frozen(seen: Snapshot, kept: Sequence[Device]) -> Snapshot:
    """Without these devices and without the jobs on them."""
    view = seen.keeping(_holders(seen, kept))
    return view.withholding([device for device in kept if device not in seen.tenants])
