"""Altruistic scheduling (Grandl et al., OSDI'16): keep what you need to end in time, lend the rest.

Every job is promised the end it would have under max-min fairness, and nothing more:

- Its fair share is what max-min gives it of its sizes that speed it up. If not even the smallest
  sizes fit, it is the smallest size for a part of the time, the same part for all.
- Its fair end is its submission plus the time that all its work takes at that share: the end it
  would have had if the jobs present now had been there all along. A job that ran ahead of its fair
  share has time to spare; one that was held up has none.
- It needs the smallest size at which it ends by its fair end, and never more than its fair share.
  If not all smallest sizes fit, it needs nothing until waiting any longer would make it miss that.

What no job needs is lent to the shortest at their fair shares. In a crowd, jobs in need are served
by fair end. A job that arrives later has a later fair end than one that has missed its own, so no
job starves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from treadle.core.job import Job
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.models.sizes.ladders import Ladder
from treadle.policies.afs.afs import Climbing
from treadle.policies.base.shares import hand_out

_HAIR_S = 1e-3  # No job is late, or early, by what is only rounding.


@dataclass(slots=True)
class _Claim:
    """What a job was promised, and what it needs for that."""

    job: Job
    ladder: Ladder
    fair: int  # its max-min share; a size of its ladder
    part: float  # of the time
    now: float

    @property
    def fair_speed(self) -> float:
        """At the fair share, for as long as it is held."""
        return self.ladder.speeds[self.ladder.sizes.index(self.fair)]

    @property
    def fair_end_at(self) -> float:
        return self.job.submitted_at + self.job.spec.iterations / (self.fair_speed * self.part)

    @property
    def late_at(self) -> float:
        """When it must begin to run at its fair share, and without a break."""
        return self.fair_end_at - self.job.remaining_at(self.now) / self.fair_speed

    def needed(self) -> int:
        """The smallest size that is enough, up to the fair share."""
        left_s = self.fair_end_at - self.now + _HAIR_S
        return next(
            size
            for size, speed in zip(self.ladder.sizes, self.ladder.speeds, strict=True)
            if size == self.fair or self.job.remaining_at(self.now) / speed <= left_s
        )


class Altruistic(Climbing):
    """Jobs keep what they need to end when fairness would end them, and lend the rest."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        devices, now = snapshot.supply, snapshot.now
        if not devices:
            return KEEP
        in_want = self.with_room_for_all(snapshot)
        if in_want is not None:
            ladder = self._ladders.of  # The shortest at its largest size first.
            return self.largest_each(
                snapshot,
                in_want,
                lambda job: (job.order_at(now) / ladder(job).speeds[-1], job.sequence),
            )
        claims = self._claims(snapshot)
        if all(claim.part == 1.0 for claim in claims):
            sizes = {claim.job.id: claim.needed() for claim in claims}
        else:
            late = [claim for claim in claims if claim.late_at <= now + _HAIR_S]
            late.sort(key=lambda claim: (claim.fair_end_at, claim.job.sequence))
            sizes, _ = self.smallest_each([claim.job for claim in late], devices)
        # The rest is lent: to those that have nothing, then as many as speed a job up.
        idle = [claim.job for claim in claims if claim.job.id not in sizes]
        borrowed, left = self.smallest_each(idle, devices - sum(sizes.values()))
        sizes |= borrowed
        for claim in claims:
            held = sizes.get(claim.job.id)
            if held is not None and left:
                most = max(size for size in claim.ladder.sizes if size <= held + left)
                sizes[claim.job.id], left = most, left - (most - held)
        late_at = (claim.late_at for claim in claims if claim.job.id not in sizes)
        until = min((moment for moment in late_at if moment > now + _HAIR_S), default=inf)
        return self.schedule(snapshot, sizes, valid_until=until)

    def _claims(self, snapshot: Snapshot) -> list[_Claim]:
        """One for each job that waits or holds devices, the shortest at its fair share first."""
        jobs = sorted([*snapshot.waiting(), *snapshot.holding()], key=lambda job: job.sequence)
        ladders = [self._ladders.of(job) for job in jobs]
        devices = snapshot.supply
        smallest = sum(ladder.sizes[0] for ladder in ladders)
        part = 1.0 if smallest <= devices else devices / smallest
        fair = fair_shares(ladders, devices)
        claims = [
            _Claim(job, ladder, size, part, snapshot.now)
            for job, ladder, size in zip(jobs, ladders, fair, strict=True)
        ]
        now = snapshot.now
        claims.sort(key=lambda one: (one.job.order_at(now) / one.fair_speed, one.job.sequence))
        return claims


def fair_shares(ladders: Sequence[Ladder], devices: int) -> list[int]:
    """Max-min: each job's smallest size, then the next step to the job that holds least."""
    sizes = {number: ladder.sizes[0] for number, ladder in enumerate(ladders)}
    left = devices - sum(sizes.values())
    hand_out(sizes, left, lambda job: ladders[job].sizes, lambda job, size, _: (size, job))
    return list(sizes.values())
