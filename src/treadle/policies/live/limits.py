"""How many devices, and jobs that run, a user or a tenant may have at once.

Written ann:4:2/@vision:16/*:8 : ann has at most 4 devices and 2 jobs, tenant vision 16 devices, any
other user 8 devices. No job is stopped for that; one that would be too many waits.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Number, Reason
from treadle.core.snapshot import Snapshot
from treadle.wire.lab import AS_TENANT, EVERY_USER

if TYPE_CHECKING:
    from treadle.policies.live.plan import Plan


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
    """Limits, and whose jobs have devices."""

    def __init__(self, limits: Limits, snapshot: Snapshot) -> None:
        self._limits, self._rows = limits, snapshot.jobs
        self._holding: dict[str, dict[JobId, None]] = defaultdict(dict)
        self._least: dict[str, tuple[int, int]] = {}  # were all as small as they can be
        for job in snapshot.holding():
            for limit in limits.of(job):
                self._holding[limit.who][job.id] = None
        for who, names in self._holding.items():
            sizes = [_least(self._rows[name]) for name in names]
            self._least[who] = (sum(sizes), sum(map(bool, sizes)))

    def allow(self, plan: "Plan", job: Job, size: int) -> bool:
        """Whether a job may have so many devices, beside what others are to have."""
        for limit in self._limits.of(job):
            new = (name for name in plan.changes if self._is_bound(name, limit))
            names = {*self._holding[limit.who], *new} - {job.id}
            others = [plan.size(name) for name in names]
            if size + sum(others) > limit.devices or sum(map(bool, others)) >= limit.running:
                return False
        return True

    def binding(self, job: Job, size: int) -> Reason | None:
        """The limit that keeps a job waiting, were all others as small as they can be."""
        for limit in self._limits.of(job):
            devices, running = self._least.get(limit.who, (0, 0))
            numbers: dict[str, Number] = {"who": limit.who, "asked": size}
            if running >= limit.running:
                return Reason("limit", {**numbers, "what": "jobs", "most": limit.running})
            if size + devices > limit.devices:
                return Reason("limit", {**numbers, "what": "devices", "most": limit.devices})
        return None

    def _is_bound(self, name: JobId, limit: Limit) -> bool:
        return any(each.who == limit.who for each in self._limits.of(self._rows[name]))


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
