"""What groups of jobs get done, each found once in a decision.

A search asks for the same groups many times over, so that asking must cost next to nothing. A group
is one whole number with a bit for each member: a job joins, leaves or takes another's place by one
operation, and no order of members needs to be agreed on.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Protocol

from treadle.policies.weave.company import Company, Group, Member

Mask = int  # of the positions of jobs: 1 << position for each


class Jobs(Protocol):
    """What is asked about jobs, by position."""

    def sizes(self, job: int) -> Sequence[int]:
        """The sizes at which it can run, ascending."""
        ...

    def member(self, job: int, size: int) -> Member | None:
        """The job at this size; None if it cannot run so."""
        ...

    def stop_cost(self, job: int) -> float:
        """What it costs to stop it."""
        ...


def mask_of(members: Iterable[int]) -> Mask:
    return sum([1 << job for job in members])


def members_of(mask: Mask) -> tuple[int, ...]:
    """The positions, ascending."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(found)


class Values:
    """The values of groups, by size; -inf where jobs cannot share so many devices."""

    def __init__(self, company: Company, jobs: Jobs) -> None:
        self.count = 0  # groups that were valued
        self._company = company
        self._jobs = jobs
        self._known: dict[int, dict[Mask, float]] = {}

    def at(self, size: int) -> dict[Mask, float]:
        """What is known of groups on so many devices."""
        known = self._known.get(size)
        if known is None:
            known = self._known[size] = {0: 0.0}
        return known

    def of(self, size: int, mask: Mask) -> float:
        known = self.at(size)
        value = known.get(mask)
        if value is None:
            ones = self._ones(size, mask)
            value = known[mask] = -inf if ones is None else self._company.value(ones)
            self.count += 1
        return value

    def group(self, size: int, mask: Mask) -> Group | None:
        """The jobs as a group; None if they cannot be one."""
        ones, members = self._ones(size, mask), members_of(mask)
        if ones is None:
            return None
        return self._company.together(members, dict(zip(members, ones, strict=True)))

    def _ones(self, size: int, mask: Mask) -> list[Member] | None:
        """The jobs of a group at its size; None if one of them cannot run so."""
        found = []
        for job in members_of(mask):
            one = self._jobs.member(job, size)
            if one is None:
                return None
            found.append(one)
        return found
