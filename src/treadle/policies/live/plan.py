"""The plan of one decision: what each job is to have, and what is then left for others.

A policy says who, how many, under which plan and with whom; `settle` sees to it that the devices
are ones that the job may have. A start on others is moved to devices that suit it, or dropped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Snapshot
from treadle.policies.live.may_pause import MayPause
from treadle.policies.live.room import Room

SMALL = 1 / 3  # of its speed, at least, for a job that stays as small as it starts

Units = dict[tuple[Device, ...], list[tuple[Job, Allocation]]]
# On how many devices a job may start, the most first, if it can never have more than so many here.
Sizes = Callable[[Job, int], Sequence[int]]


def any_size(job: Job, most: int) -> Sequence[int]:
    """All that it can use, up to what it asks for."""
    most = min(most, job.spec.asked)
    return [size for size in reversed(job.spec.sizes) if size <= most]


def fast_enough(belief: PerformanceModel) -> Sizes:
    """Those on which it is not much slower: for a policy that does not resize it later."""

    def sizes(job: Job, most: int) -> Sequence[int]:
        found = any_size(job, most)
        least = SMALL * belief.alone(job.spec, found[0]) if found else 0.0
        return [size for size in found if belief.alone(job.spec, size) >= least]

    return sizes


class Plan:
    """Changes so far, and the room that they leave."""

    def __init__(self, snapshot: Snapshot, room: Room, sizes: Sizes = any_size) -> None:
        self.snapshot = snapshot
        self.room = room
        self._sizes = sizes
        self.changes: dict[JobId, Allocation | None] = {}
        self.urgent: set[JobId] = set()  # what they cost others is not asked
        self.dropped: dict[JobId, None] = {}  # the policy would have started them
        self.kept: dict[JobId, None] = {}  # the policy would have changed them
        self.for_whom: dict[JobId, JobId] = {}  # of those that are stopped
        # Those that cannot resume and are paused where others are stopped, and how.
        self.may_pause = MayPause("off")
        self.paused: dict[JobId, Pause] = {}
        self.given_up: dict[JobId, None] = {}  # paused jobs that are stopped
        self._moved: set[Device] = set()  # devices that were given otherwise than chosen

    def has(self, name: JobId) -> Allocation | None:
        """What a job is to have, as far as is known."""
        if name in self.changes:
            return self.changes[name]
        return self.snapshot.jobs[name].allocation

    def give(self, job: Job, new: Allocation) -> None:
        self._let_go(job)
        self._wake(job)
        self.room.take(job, new.devices)
        self.changes[job.id] = new
        self.for_whom.pop(job.id, None)
        if new == job.allocation:
            del self.changes[job.id]

    def stop(self, job: Job, for_whom: JobId = "") -> None:
        """Stop a job, or pause it: see `can_stop`."""
        held = self.has(job.id)
        if held is not None and self.may_pause(job):
            how = self.room.way_to_pause(job, held, self.snapshot.jobs[for_whom])
            assert how is not None, "it cannot make way so"
            self.pause(job, held, how)
        self._let_go(job)
        self.changes[job.id] = None
        if for_whom:
            self.for_whom[job.id] = for_whom

    def pause(self, job: Job, held: Allocation, how: Pause) -> None:
        """It keeps what a paused job keeps, and lets go of the rest."""
        self.room.park(job, held.as_paused(how))
        self.paused[job.id] = how

    def give_up(self, job: Job, held: Allocation) -> None:
        """Stop a paused job, so that it may start elsewhere."""
        self.room.unpark(job, held)
        self.given_up[job.id] = None

    def on(self, devices: Iterable[Device]) -> list[JobId]:
        """The jobs that are to compute on any of these devices."""
        wanted = set(devices)
        found = dict.fromkeys([*self.snapshot.on(wanted), *self.changes])
        return [n for n in found if (new := self.has(n)) and not wanted.isdisjoint(new.devices)]

    def can_stop(self, job: Job, starter: Job) -> bool:
        """Whether it can make way for another job: one that is paused may keep too much."""
        held = self.has(job.id)
        if held is None or not self.may_pause(job):
            return held is not None
        return self.room.way_to_pause(job, held, starter) is not None

    def go_on(self, job: Job, held: Allocation, lower: Sequence[JobId]) -> None:
        """Let a paused job go on where it was, if all others there are gone or make way."""
        self.room.unpark(job, held)
        gone = self._make_way(held.devices, lower, job.id)
        if self.room.takes_back(job, held):
            self.give(job, held.as_paused(None))
        else:
            for other, own in reversed(gone):
                self._stays(other, own)
            self.room.park(job, held)

    def _wake(self, job: Job) -> None:
        """It is not to be paused after all."""
        how = self.paused.pop(job.id, None)
        if how is not None and job.allocation is not None:
            self.room.unpark(job, job.allocation.as_paused(how))

    def _let_go(self, job: Job) -> None:
        held = self.has(job.id)
        if held is not None:
            self.room.release(job, held)

    def drop(self, job: Job) -> None:
        """Do not start it after all."""
        self._let_go(job)
        del self.changes[job.id]
        self.dropped[job.id] = None

    def take_back(self, names: Iterable[JobId]) -> None:
        """Leave these jobs as they are: their changes depend on no others."""
        for name in names:
            if self.changes.get(name) is not None:
                self._let_go(self.snapshot.jobs[name])
                self.changes[name] = None
        for name in names:
            held = self.snapshot.jobs[name].allocation
            self._wake(self.snapshot.jobs[name])
            del self.changes[name]
            if held is not None:
                self.room.take(self.snapshot.jobs[name], held.devices)

    def start_somewhere(self, job: Job, above: int = 0) -> bool:
        """Start a job on any devices that suit it, on as many of those it asks for as can be.

        above: only on more than so many.
        """
        for size in self._fewer(job) if DATA_PARALLEL in job.spec.plans else ():
            found = self.room.place(job, size) if size > above else None
            if found is not None:
                self.give(job, Allocation(found))
                return True
        return False

    def _fewer(self, job: Job) -> Sequence[int]:
        return self._sizes(job, self.room.most(job))

    def made(self) -> dict[JobId, Allocation | None]:
        """The changes, those that only release devices first."""
        rows = self.snapshot.jobs
        real = {name: new for name, new in self.changes.items() if new != rows[name].allocation}
        found: dict[JobId, Allocation | None] = dict.fromkeys(self.given_up)
        found |= sorted(real.items(), key=lambda each: each[1] is not None)
        for name, how in self.paused.items():
            held = rows[name].allocation
            found[name] = None if held is None else held.as_paused(how)
        return found

    def stopped_for(self) -> dict[JobId, JobId]:
        """For whom each job is stopped or shrunk."""
        rows = self.snapshot.jobs
        given = {
            device: name
            for name, new in self.changes.items()
            if new is not None
            for device in new.devices
        }
        found = {}
        for name, new in self.changes.items():
            held = rows[name].allocation
            if held is None or (new is not None and new.size >= held.size):
                continue
            lost = [d for d in held.devices if new is None or d not in new.devices]
            who = self.for_whom.get(name) or next((given[d] for d in lost if d in given), "")
            if who and who != name:
                found[name] = who
        return found

    # -- what a policy wants ----------------------------------------------------------------------

    def settle(
        self,
        changes: Mapping[JobId, Allocation | None],
        lower: Sequence[JobId] = (),
        *,
        in_order: bool = False,
    ) -> None:
        """Make a policy's changes, on devices that suit each job.

        lower: running jobs that make way for these, the first first. in_order: a start that cannot
        be had holds up those behind it.
        """
        rows = self.snapshot.jobs
        before = {name: self.has(name) for name in changes}
        self._moved = set[Device]()
        for name in changes:
            if before[name] is not None:
                self.stop(rows[name])
        for devices, members in self._units(changes).items():
            late = in_order and members[0][0].allocation is None and self._held_up()
            for job in [job for job, _ in members] if late else self._left(members, devices, lower):
                self._stays(job, before[job.id])
        for name, held in before.items():
            if held is not None and self.has(name) == held:
                self.kept[name] = None

    def _units(self, changes: Mapping[JobId, Allocation | None]) -> Units:
        """Jobs by the devices that they are to have, so that those that share stay together."""
        units: Units = {}
        for name, new in changes.items():
            if new is not None:
                units.setdefault(new.devices, []).append((self.snapshot.jobs[name], new))
        if self.room.taken is None:
            return units
        # What runs stays within limits before anything starts.
        order = sorted(units.items(), key=lambda each: each[1][0][0].allocation is None)
        return dict(order)

    def _left(
        self,
        members: Sequence[tuple[Job, Allocation]],
        devices: tuple[Device, ...],
        lower: Sequence[JobId],
    ) -> list[Job]:
        """Give jobs what the policy chose, or as much elsewhere; those that could not have it."""
        found = list(members)
        if self._moved.isdisjoint(devices):  # Else one before it was moved there.
            found = self._left_together(members, devices, lower)
        return [job for job, new in found if not self._elsewhere(job, new, lower)]

    def _left_together(
        self,
        members: Sequence[tuple[Job, Allocation]],
        devices: tuple[Device, ...],
        lower: Sequence[JobId],
    ) -> list[tuple[Job, Allocation]]:
        """Give jobs exactly these devices; those that may not have them, alone or with the rest."""
        alone = len(members) == 1
        if alone and lower and not self.room.free.holds(devices):
            return [*members]  # Others may be better to stop.
        if alone and self._is_better_elsewhere(*members[0]):
            return []
        gone, left = self._make_way(devices, lower, members[0][0].id), []
        for job, new in members:
            if self.room.allows(job, devices):
                self.give(job, new)
            else:
                left.append((job, new))
        if len(left) == len(members):
            for other, held in gone:
                self._stays(other, held)
        return left

    def _held_up(self) -> bool:
        """Whether a start was dropped that others wait behind."""
        return any(self.holds_up(self.snapshot.jobs[name]) for name in self.dropped)

    def holds_up(self, job: Job) -> bool:
        """Whether no job may overtake it: it waits for what all wait for."""
        return not job.only_on and not self.room.is_too_many(job, job.spec.sizes[0])

    def _is_better_elsewhere(self, job: Job, new: Allocation) -> bool:
        """Whether a job that failed on one of these devices was given as good ones instead."""
        failed = set(job.failed_on)
        if job.allocation is not None or failed.isdisjoint(map(str, new.devices)):
            return False
        found = self.room.place(job, new.size)
        if found is None or not failed.isdisjoint(map(str, found)):
            return False
        better = Allocation(found, new.plan)
        if len(better.nodes()) > len(new.nodes()):
            return False
        self._moved.update(found)
        self.give(job, better)
        return True

    def _elsewhere(self, job: Job, new: Allocation, lower: Sequence[JobId]) -> bool:
        """Give a job as many other devices, or fewer if it can use them."""
        fewer = self._fewer(job) if new.plan == DATA_PARALLEL else ()
        for size in (new.size, *(size for size in fewer if size < new.size)):
            found = self.make_room(job, size, lower)
            if found is not None:
                self._moved.update(found)
                self.give(job, Allocation(found, new.plan))
                return True
        return False

    def _stays(self, job: Job, held: Allocation | None) -> None:
        """Leave a job with what it had, if that is still free; one that waits was dropped."""
        if held is not None and self.room.free.holds(held.devices):
            self.give(job, held)
        elif job.allocation is None:
            self.changes.pop(job.id, None)
            self.dropped[job.id] = None

    # -- making way -------------------------------------------------------------------------------

    def _make_way(
        self, devices: Iterable[Device], lower: Sequence[JobId], starter: JobId
    ) -> list[tuple[Job, Allocation]]:
        """Stop those of the jobs that are on these devices; with what they had."""
        gone: list[tuple[Job, Allocation]] = []
        rows = self.snapshot.jobs
        for name in self.on(devices) if lower else ():
            held = self.has(name)
            if name in lower and held is not None and self.can_stop(rows[name], rows[starter]):
                gone.append((rows[name], held))
                self.stop(rows[name], starter)
                self.urgent.add(starter)
        return gone

    def make_room(self, job: Job, size: int, victims: Sequence[JobId]) -> tuple[Device, ...] | None:
        """Free devices, or what is free once as few of the victims are stopped as will do.

        The first of them go first; none if all are too few.
        """
        if (found := self.room.place(job, size)) is not None or not victims:
            return found
        rows = [self.snapshot.jobs[name] for name in victims]
        held = [each for each in rows if self.can_stop(each, job)]
        before = {each.id: self.has(each.id) for each in held}
        gone = list[Job]()
        for each in held:
            if not self.can_stop(each, job):  # Others have made way, and keep what they have.
                continue
            self.stop(each, job.id)
            gone.append(each)
            found = self.room.place(job, size)
            if found is not None:
                break
        for each in reversed(gone):  # Those that turn out not to be in the way stay.
            own = before[each.id]
            assert own is not None, "it held devices"
            if found is not None and not set(found).isdisjoint(own.devices):
                continue
            self.give(each, own)
            if found is not None and not self.room.allows(job, found):
                self.stop(each, job.id)
        if found is not None:
            self.urgent.add(job.id)
        return found
