"""How many devices, and jobs that run, a user or a tenant may have at once.

Written ann:4:2/@vision:16/*:8 : ann has at most 4 devices and 2 jobs, tenant vision 16 devices, any
other user 8 devices. No job is stopped for that; one that would be too many waits.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Number, Reason
from treadle.core.snapshot import Snapshot
from treadle.wire.lab import AS_TENANT, EVERY_USER

SizeOf = Callable[[JobId], int]  # how many devices a job is to have


class Limit(NamedTuple):
    """What one user or tenant may have."""

    who: str
    devices: float = inf
    running: float = inf


class Limits:
    """All limits. text: as above."""

    def __init__(self, text: str) -> None:
        self._by_who = {limit.who: limit for limit in _entries(text)}

    def __bool__(self) -> bool:
        return bool(self._by_who)

    def of(self, job: Job) -> Sequence[Limit]:
        """What bounds a job."""
        own = self._by_who.get(job.spec.owner) or self._by_who.get(EVERY_USER)
        tenants = self._by_who.get(f"{AS_TENANT}{job.spec.tenant}")
        user = None if own is None else own._replace(who=job.spec.owner)
        return [limit for limit in (user, tenants) if limit is not None]

    def on(self, snapshot: Snapshot) -> "Bounds":
        return Bounds(self, snapshot)


class Bounds:
    """Limits, and whose jobs there are."""

    def __init__(self, limits: Limits, snapshot: Snapshot) -> None:
        self._limits, self._rows = limits, snapshot.jobs
        self._jobs: dict[str, list[JobId]] = defaultdict(list)
        for job in snapshot.jobs.values():
            for limit in limits.of(job):
                self._jobs[limit.who].append(job.id)

    def allow(self, size_of: SizeOf, job: Job, size: int) -> bool:
        """Whether a job may have so many devices, beside what others are to have."""
        return all(
            size + devices <= limit.devices and running < limit.running
            for limit, devices, running in self._taken(size_of, job)
        )

    def binding(self, job: Job, size: int) -> Reason | None:
        """The limit that keeps a job waiting, were all others as small as they can be."""
        for limit, devices, running in self._taken(self._least, job):
            numbers: dict[str, Number] = {"who": limit.who, "asked": size}
            if running >= limit.running:
                return Reason("limit", {**numbers, "what": "jobs", "most": limit.running})
            if size + devices > limit.devices:
                return Reason("limit", {**numbers, "what": "devices", "most": limit.devices})
        return None

    def _taken(self, size_of: SizeOf, job: Job) -> Iterator[tuple[Limit, int, int]]:
        """What the others whom the same limit binds have: devices and jobs."""
        for limit in self._limits.of(job):
            others = [size_of(name) for name in self._jobs[limit.who] if name != job.id]
            yield limit, sum(others), sum(map(bool, others))

    def _least(self, name: JobId) -> int:
        job = self._rows[name]
        may_shrink = job.spec.gives_way and job.phase is Phase.RUNNING
        return min(job.size, job.spec.sizes[0]) if may_shrink else job.size


def _entries(text: str) -> Iterator[Limit]:
    seen = set[str]()
    for entry in text.split("/") if text else ():
        who, *numbers = (word.strip() for word in entry.split(":"))
        if not who.strip(AS_TENANT) or not 1 <= len(numbers) <= 2 or who in seen:
            raise _badly_written(text)
        seen.add(who)
        yield Limit(who, *(_number(text, number) for number in numbers))


def _number(text: str, number: str) -> float:
    if not number:
        return inf
    if not (number.isascii() and number.isdigit()):
        raise _badly_written(text)
    return float(number)


def _badly_written(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"live limits are written ann:4:2/@vision:16/*:8 (devices, then jobs that run; each once), "
        f"not {text!r}"
    )
