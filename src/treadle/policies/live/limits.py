"""How many devices, and jobs that run, a user or a tenant may have at once.

Written ann:4:2/@vision:16/*:8 : ann has at most 4 devices and 2 jobs, tenant vision 16 devices, any
other user 8 devices. No job is stopped for that; one that would be too many waits.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Number, Reason
from treadle.core.snapshot import Snapshot
from treadle.wire.lab import AS_TENANT, EVERY_USER


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


class Taken:
    """Devices, and jobs that have some, of those whom limits bind."""

    def __init__(self, limits: Limits, had: Mapping[str, tuple[int, int]] | None = None) -> None:
        self.limits, self._had = limits, dict(had or {})

    def copy(self) -> "Taken":
        return Taken(self.limits, self._had)

    def by(self, limit: Limit) -> tuple[int, int]:
        return self._had.get(limit.who, (0, 0))

    def count(self, job: Job, size: int, sign: int = 1) -> None:
        """A job takes devices, or gives them back."""
        for limit in self.limits.of(job) if size else ():
            devices, jobs = self.by(limit)
            self._had[limit.who] = (devices + sign * size, jobs + sign)

    def too_many(self, job: Job, size: int) -> bool:
        """Whether its user or tenant would have more than they may. size: beside what they have."""
        for limit in self.limits.of(job):
            devices, jobs = self.by(limit)
            if devices + size > limit.devices or jobs + bool(size) > limit.running:
                return True
        return False


class Bounds:
    """Limits, and what those whom they bind would have, were all jobs as small as they can be."""

    def __init__(self, limits: Limits, snapshot: Snapshot) -> None:
        self.limits = limits
        self._least = Taken(limits)
        for job in snapshot.holding():
            self._least.count(job, _least(job))

    def binding(self, job: Job, size: int) -> Reason | None:
        """The limit that keeps a job waiting, were all others as small as they can be."""
        for limit in self.limits.of(job):
            devices, running = self._least.by(limit)
            numbers: dict[str, Number] = {"who": limit.who, "asked": size}
            if running >= limit.running:
                return Reason("limit", {**numbers, "what": "jobs", "most": limit.running})
            if size + devices > limit.devices:
                return Reason("limit", {**numbers, "what": "devices", "most": limit.devices})
        return None


def _least(job: Job) -> int:
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
