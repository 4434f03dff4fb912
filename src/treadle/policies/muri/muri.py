"""Muri (Zhao et al., SIGCOMM'22): jobs with different bottlenecks take turns on the same devices.

1. Rank jobs, by remaining service (muri-s) or attained service (muri-l).
2. Take as candidates the next jobs of each size, a group's worth for each place in the cluster.
3. Form groups of equal size while there are more jobs than devices (grouping.py), of the jobs of
   the first rank or of the last.
4. With autopack, split a group that gets less done than its jobs one after another.
5. Place groups, the largest first; members of a group share its devices in turns.

When a member ends the policy is asked again, so a group never runs with a hole.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.company import smallest_device_gib
from treadle.core.errors import InvalidInputError
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.policies.base.companions import GROUP_MAX
from treadle.policies.base.placement import Fit, Placement
from treadle.policies.base.turns import add_in_turns
from treadle.policies.muri.grouping import Group, Grouping

_Place = tuple[Group, tuple[Device, ...]]
_DIGITS = 7  # of seconds: values that differ by an error of rounding are equal
_EVEN = 1.0 - 1e-9


@runtime_checkable
class Orderable(Protocol):
    """A model in which the order of the jobs in a group matters."""

    def ordered(self, ordering: str) -> InterleavingModel: ...


class Muri(Policy):
    """Interleave jobs with different bottlenecks; shortest remaining service first.

    merge: whether jobs of the first or of the last rank share first when devices are scarce.
    """

    shares = True
    lengths_known = True

    def __init__(
        self,
        placement: Placement,
        belief: InterleavingModel,
        *,
        group: int = GROUP_MAX,
        ordering: str = "best",
        matching: str = "blossom",
        autopack: bool = True,
        merge: str = "last",
    ) -> None:
        if not 1 <= group <= GROUP_MAX:
            raise InvalidInputError(f"muri group must be 1 to {GROUP_MAX} jobs, not {group}")
        for name, found, one, other in (
            ("ordering", ordering, "best", "worst"),
            ("matching", matching, "blossom", "none"),
            ("merge", merge, "first", "last"),
        ):
            if found not in {one, other}:
                raise InvalidInputError(f"muri {name} is {one} or {other}, not {found!r}")
        if ordering == "worst" and not isinstance(belief, Orderable):
            raise InvalidInputError(
                "muri ordering=worst needs sharing in which order matters, such as "
                "--sharing staggered"
            )
        self._placement, self.place = placement, placement.place
        self._belief, model = belief, belief
        if isinstance(belief, Orderable):
            self._belief, model = belief.ordered("best"), belief.ordered(ordering)
        self._grouping = Grouping(
            model, largest=group, matching=matching == "blossom", last_first=merge == "last"
        )
        self._autopack = autopack
        self._fit = Fit(placement)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        return self._fit.never(spec.asked, cluster)

    def decide(self, snapshot: Snapshot) -> Schedule:
        if not snapshot.jobs:
            return KEEP
        ranked = self._ranked(snapshot)
        buckets = self._candidates(snapshot, (_as_it_runs(job) for _, job in ranked))
        candidates = {spec.id for bucket in buckets for spec in bucket}
        ranked = [each for each in ranked if each[1].spec.id in candidates]

        def home(identity: JobId) -> Device | None:
            allocation = snapshot.jobs[identity].allocation
            return None if allocation is None else allocation.devices[0]

        smallest_gib = smallest_device_gib(snapshot.cluster)
        groups = self._grouping.form(buckets, snapshot.supply, home, smallest_gib)
        if self._autopack:
            values = {job.spec.id: value for value, job in ranked}
            groups = self._pack(snapshot, groups, values)
        place = {job.spec.id: place for place, (_, job) in enumerate(ranked)}
        groups.sort(key=lambda group: (-group[0].asked, min([place[spec.id] for spec in group])))
        return Schedule.whole(snapshot, self._allocate(snapshot, groups))

    def _ranked(self, snapshot: Snapshot) -> list[tuple[float, Job]]:
        """Jobs by remaining or attained service; of equals those seen before, the larger first."""
        now, value = snapshot.now, self._value
        ranked = [
            (value(job, now), job.submitted_at == now, -job.spec.asked, job.sequence, job)
            for jobs in (snapshot.waiting(), snapshot.holding())
            for job in jobs
        ]
        ranked.sort()
        return [(entry[0], entry[4]) for entry in ranked]

    def _value(self, job: Job, now: float) -> float:
        if not self.lengths_known:
            return job.service_at(now)
        spec, asked = job.spec, job.spec.asked
        if spec.estimate_s and not job.starts:
            return spec.estimate_s * asked
        remaining_s = job.order_at(now) / self._belief.alone(spec, asked)
        return round(remaining_s * asked, _DIGITS)

    def _candidates(self, snapshot: Snapshot, specs: Iterable[JobSpec]) -> list[list[JobSpec]]:
        """By size, in order of appearance: a group's worth of jobs for each place that is left."""
        found: dict[int, list[JobSpec]] = {}
        most: dict[int, int] = {}
        free, wanted = snapshot.emptied(), 0  # so many jobs more for the places that were taken
        for spec in specs:
            size = spec.asked
            mine = found.setdefault(size, [])
            if len(mine) == most.get(size, 0):
                devices = self._placement.place(free, size) if free.total else None
                if devices is None:
                    continue
                free.take(devices)
                most[size] = len(mine) + self._grouping.largest
                wanted += self._grouping.largest
            mine.append(spec)
            wanted -= 1
            if not wanted and not free.total:
                break
        return [mine for mine in found.values() if mine]

    def _pack(
        self, snapshot: Snapshot, groups: Iterable[Group], values: dict[JobId, float]
    ) -> list[Group]:
        """Split groups that would lose by sharing, and keep what fits in order of rank."""
        ranked: list[tuple[float, Group]] = []
        for group in groups:
            parts = [group] if self._pays(group) else [(spec,) for spec in group]
            ranked += [(min(values[spec.id] for spec in part), part) for part in parts]
        ranked.sort(key=lambda entry: entry[0])
        in_order = [group for _, group in ranked]
        return [group for group, _ in self._placed(in_order, snapshot.emptied())]

    def _pays(self, group: Group) -> bool:
        """Whether a group gets at least as much done as its jobs one after another."""
        speeds = zip(group, self._belief.together(group), strict=True)
        return sum(speed / self._belief.alone(spec, spec.asked) for spec, speed in speeds) >= _EVEN

    def _allocate(self, snapshot: Snapshot, groups: Sequence[Group]) -> dict[JobId, Allocation]:
        """Devices for each group: where a member already is, unless a larger one needs them."""
        free, places = snapshot.emptied(), dict[int, tuple[Device, ...]]()
        for number, group in enumerate(groups):
            devices = _claim_held(snapshot.jobs, group, free)
            if devices is not None:
                places[number] = devices
        for number, group in enumerate(groups):
            if number not in places:
                self._place(number, group, places, free)
        allocations: dict[JobId, Allocation] = {}
        for number, devices in places.items():
            members = [snapshot.jobs[spec.id] for spec in groups[number]]
            add_in_turns(allocations, members, devices)
        return allocations

    def _place(
        self, number: int, group: Group, places: dict[int, tuple[Device, ...]], free: FreeDevices
    ) -> None:
        """Free devices, or those of groups behind it, the last first; others stay."""
        gone: dict[int, tuple[Device, ...]] = {}
        devices = self._placement.place(free, group[0].asked)
        for last in [other for other in sorted(places, reverse=True) if other > number]:
            if devices is not None:
                break
            gone[last] = places.pop(last)
            free.give(gone[last])
            devices = self._placement.place(free, group[0].asked)
        if devices is not None:
            free.take(devices)
            places[number] = devices
        places.update((last, own) for last, own in gone.items() if free.claim(own))

    def _placed(self, groups: Sequence[Group], free: FreeDevices) -> list[_Place]:
        """Devices for these groups, in order; some may find none."""
        places: list[_Place] = []
        for group in groups:
            devices = self._placement.place(free, group[0].asked)
            if devices is not None:
                free.take(devices)
                places.append((group, devices))
        return places


def _as_it_runs(job: Job) -> JobSpec:
    """Its spec, with the size that it has: live, it may have been given fewer than it asks for."""
    return job.spec if job.size in (0, job.spec.asked) else replace(job.spec, asked=job.size)


def _claim_held(
    jobs: Mapping[JobId, Job], group: Group, free: FreeDevices
) -> tuple[Device, ...] | None:
    """Take the devices that a member holds, if those of any are still free."""
    for spec in group:
        allocation = jobs[spec.id].allocation
        if allocation is not None and free.claim(allocation.devices):
            return allocation.devices
    return None


class MuriL(Muri):
    """Interleave jobs with different bottlenecks; least attained service first.

    merge: whether jobs of the first or of the last rank share first when devices are scarce.
    """

    lengths_known = False
