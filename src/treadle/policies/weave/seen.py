"""What a decision saw, so that the next costs what has changed.

A new layout of all jobs takes long, and most often what runs, carried on, is worth more: it moves
no job. So all is laid out anew when as much has changed as one in a few of the jobs. In between
only what is new is weighed.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from math import frexp, inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.models.sizes.work import Curve

Devices = tuple[Device, ...]

_ONE_IN = 4  # jobs
_SETTLED = 4.0  # times what a change costs: after so long, one counts for little
_LOOKS = 2  # at that age, and at twice that
_QUANTUM_S = 3600.0  # without lengths: where the first class ends, in device-seconds
_LATER = 1.25  # times as long until a look, and what is due then is looked at together


class Mark(NamedTuple):
    """A job that runs; it is looked at again once this is another."""

    job: JobId
    settled: int  # how often a restart has come to weigh half as much as before
    level: int  # its class of service; 0 where lengths are known
    curve: Curve  # as it is believed to be


class Seen(NamedTuple):
    """The jobs of a decision, as it found them and as it left them."""

    groups: Mapping[Devices, Sequence[Mark]] = {}
    found: Mapping[Devices, Sequence[Mark]] = {}  # not all that it chose may have been made
    waiting: Mapping[JobId, Curve] = {}  # those that it looked at
    changes: int = -1  # since all was laid out anew; -1: it never was
    sharing: Hashable = None  # the state of what is believed of jobs on the same devices

    def news(
        self,
        groups: Mapping[Devices, Sequence[Mark]],
        waiting: Mapping[JobId, Curve],
        sharing: Hashable = None,
    ) -> "News":
        """What is new about these."""
        there = {mark.job for marks in groups.values() for mark in marks} | waiting.keys()
        changed, softer = set[Devices](), set[Devices]()
        for devices, marks in groups.items():
            before, jobs = self.groups.get(devices, ()), _jobs(marks)
            if _jobs(before) != jobs and there.issuperset(_jobs(before)):
                before = self.found.get(devices, ())  # What was chosen was not made.
            if before != marks:
                (softer if _jobs(before) == jobs else changed).add(devices)
        came = {job for job, curve in waiting.items() if self.waiting.get(job) != curve}
        gone = sum([there.isdisjoint(_jobs(marks)) for marks in self.groups.values()])
        others = gone + (sharing != self.sharing)
        return News(changed, softer, came, len(changed) + len(softer) + len(came) + others)

    def is_far(self, news: "News", jobs: int) -> bool:
        """Whether so much has changed that all these jobs are laid out anew."""
        return self.changes < 0 or (self.changes + news.changes) * _ONE_IN >= jobs


class News(NamedTuple):
    """What is new since the last decision."""

    changed: Set[Devices] = frozenset()  # with other jobs than before
    softer: Set[Devices] = frozenset()  # with the same jobs; one costs less to change, or scales
    # otherwise than was believed
    came: Set[JobId] = frozenset()  # waiting jobs, or what is believed of them
    changes: int = 0  # all of them

    def __bool__(self) -> bool:
        return bool(self.changes)


class Look(NamedTuple):
    """A mark, and when it is another although nothing happens."""

    mark: Mark
    settles_at: float
    class_ends_at: float


def look(
    job: Job,
    held: Allocation,
    curve: Curve,
    now: float,
    change_s: float,
    *,
    known: bool,
    changed: bool = False,
) -> Look:
    """A job that is to hold this; known: its length is. changed: it holds something else now."""
    begun_at = now if changed else job.begun_at
    settled, settles_at = 0, begun_at + _SETTLED * change_s
    while settled < _LOOKS and now >= settles_at:
        settled += 1
        settles_at = begun_at + _SETTLED * change_s * 2.0**settled
    if known:
        return Look(Mark(job.spec.id, settled, 0, curve), settles_at, inf)
    served = job.service_at(now)
    level = level_of(served)
    left_s = (_QUANTUM_S * 4.0**level - served) / len(held.devices)
    return Look(Mark(job.spec.id, settled, level, curve), settles_at, now + max(left_s, 1.0))


def level_of(served: float) -> int:
    """The class of a job that was given so many device-seconds: each ends at four times the one
    before."""
    return (frexp(served / _QUANTUM_S)[1] + 1) // 2 if served >= _QUANTUM_S else 0


def by_devices(
    held: Mapping[JobId, Allocation], looks: Mapping[JobId, Look]
) -> Mapping[Devices, Sequence[Mark]]:
    """The marks of the jobs on the same devices."""
    found: dict[Devices, list[Mark]] = {}
    for name, allocation in held.items():
        found.setdefault(allocation.devices, []).append(looks[name].mark)
    for marks in found.values():
        if len(marks) > 1:
            marks.sort(key=_job)
    return found


def _jobs(marks: Sequence[Mark]) -> list[JobId]:
    return [mark.job for mark in marks]


def _job(mark: Mark) -> JobId:
    return mark.job


def next_look_at(looks: Iterable[Look], now: float, *, often: bool) -> float:
    """When to decide again because of these jobs; often: also where little is to be gained."""
    most = _LOOKS if often else 1
    moments = []
    for (_, settled, _, _), settles_at, class_ends_at in looks:
        if settled < most:
            moments.append(settles_at)
        moments.append(class_ends_at)
    soon = now + _LATER * (min(moments, default=inf) - now)
    return max([at for at in moments if at <= soon], default=inf)
