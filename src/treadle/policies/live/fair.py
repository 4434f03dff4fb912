"""Users share the devices fairly: among jobs of equal priority, those within their user's share go
first.

A user who has jobs is entitled to devices by weight, and to less the more it used lately: as much
as its share of the machine, and its weight counts half. What one user cannot use, the others may.
Of its jobs, those that run count first, then those that wait, each by priority. Those that begin
within the entitlement are decided about before all others of their priority, so the first job of a
user is never behind the second of another. No job is stopped for that unless it pays (costs.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from math import inf, log
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot, Standing
from treadle.wire.notation import duration
from treadle.wire.quotas import by_tenant

OFF = "off"
HALF_LIFE = "1d"
_ROUNDING = 1e-6
_FORGOTTEN_S = 1.0  # device-seconds that are not kept any more


class Used(NamedTuple):
    """Device-seconds that users used, counted less the longer ago they were used."""

    at: float = 0.0
    device_s: Mapping[str, float] = {}
    holds: Mapping[str, int] = {}  # devices since then

    def until(self, now: float, half_life_s: float) -> "Used":
        """The same, with what was held meanwhile."""
        left = 0.5 ** ((now - self.at) / half_life_s)
        grown_s = (1.0 - left) * half_life_s / log(2.0)
        sums = {
            user: self.device_s.get(user, 0.0) * left + self.holds.get(user, 0) * grown_s
            for user in dict.fromkeys((*self.device_s, *self.holds))
        }
        kept = {user: sum_s for user, sum_s in sums.items() if sum_s > _FORGOTTEN_S}
        return Used(now, kept, self.holds)


class Fairness:
    """What a user is entitled to. text: the half-life of what it used, and weights, or off."""

    def __init__(self, text: str) -> None:
        half_life, _, weights = text.partition("/")
        self.half_life_s, self._weights = inf, dict[str, float]()
        if text.lower() in (OFF, "false"):
            return
        self.half_life_s = duration(half_life, "live fair")
        if not self.half_life_s:
            raise InvalidInputError("live fair is a time in which use counts half, or off, not 0")
        self._weights = by_tenant("live fair", weights) if weights else {}
        if not all(self._weights.values()):
            raise InvalidInputError(f"live fair: weights must be above 0, not {weights!r}")

    @property
    def on(self) -> bool:
        return self.half_life_s < inf

    def standings(self, snapshot: Snapshot, used: Used, *, resizes: bool) -> dict[str, Standing]:
        """Of each user who has jobs."""
        wants: dict[str, int] = {}
        for job in _counted(snapshot):
            most = job.spec.sizes[-1] if resizes else job.least(resizes=False)
            wants[job.spec.owner] = wants.get(job.spec.owner, 0) + most
        weights = {user: self._weights.get(user, 1.0) for user in wants}
        supply, total = max(1, snapshot.supply), sum(weights.values())
        full_s = supply * self.half_life_s / log(2.0)  # of one who always had all devices
        counts = {
            user: weight / (1.0 + used.device_s.get(user, 0.0) / full_s * total / weight)
            for user, weight in weights.items()
        }
        return {
            user: Standing(weights[user], used.device_s.get(user, 0.0), entitled, wants[user])
            for user, entitled in _poured(supply, counts, wants).items()
        }

    def beyond(self, snapshot: Snapshot, used: Used, *, resizes: bool) -> Set[JobId]:
        """Jobs beyond what their users are entitled to; none if all are of one user."""
        owners = {job.spec.owner for job in snapshot.jobs.values()} if self.on else ()
        if len(owners) < 2:
            return frozenset()
        standings = self.standings(snapshot, used, resizes=resizes)
        taken = dict.fromkeys(standings, 0)
        found = set()
        for job in _counted(snapshot):
            user = job.spec.owner
            if taken[user] > standings[user].entitled - _ROUNDING:
                found.add(job.id)
            taken[user] += job.least(resizes=resizes)
        return found


def _counted(snapshot: Snapshot) -> Iterable[Job]:
    """Jobs that run or could, as they are counted: by priority, those that run first."""

    def rows() -> Iterator[Job]:
        yield from sorted(snapshot.holding(), key=lambda job: (job.begun_at, job.sequence))
        yield from snapshot.waiting()

    return sorted(rows(), key=lambda job: -job.spec.priority)


def _poured(
    supply: float, counts: Mapping[str, float], wants: Mapping[str, int]
) -> dict[str, float]:
    """Devices of each user: by what it counts, and no more than it wants."""
    found = {}
    left, total = supply, sum(counts.values())
    # Who wants least for what it counts is filled first.
    for user in sorted(counts, key=lambda user: (wants[user] / counts[user], user)):
        found[user] = min(wants[user], left * counts[user] / total) if total > 0 else 0.0
        left, total = left - found[user], total - counts[user]
    return found
