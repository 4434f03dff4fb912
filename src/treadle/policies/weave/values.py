"""What groups of jobs are worth, each found once in a decision.

A search asks for the same groups many times over, so that asking must cost next to nothing. A set
of jobs is one whole number, the sum of their bits: a job joins, leaves or takes another's place by
one operation, and no order of members needs to be agreed on.
"""

from collections.abc import Sequence
from math import inf

from treadle.policies.weave.candidate import Candidate, Sized
from treadle.policies.weave.sharing import Group, Mask, SharedSpeeds


class Values:
    """The values of groups, by size; -inf where jobs cannot share so many devices."""

    def __init__(self, shared: SharedSpeeds, jobs: Sequence[Candidate]) -> None:
        self.count = 0  # groups that were valued
        self._shared = shared
        self._of_bit = {job.bit: job for job in jobs}
        self._known: dict[int, dict[Mask, float]] = {}
        self._tables: dict[int, dict[Mask, Sized | None]] = {}  # single jobs by size

    def at(self, size: int) -> dict[Mask, float]:
        """What is known of groups on so many devices."""
        known = self._known.get(size)
        if known is None:
            known = self._known[size] = {0: 0.0}
        return known

    def put(self, group: Group) -> None:
        """What is known already."""
        self.at(group.size)[group.mask] = group.value

    def of(self, size: int, mask: Mask) -> float:
        known = self.at(size)
        value = known.get(mask)
        if value is None:
            sized = self._sized(size, mask)
            value = known[mask] = -inf if sized is None else self._shared.value(sized)
            self.count += 1
        return value

    def members(self, mask: Mask) -> tuple[Candidate, ...]:
        """The jobs of a set, in the order of their bits."""
        found = []
        while mask:
            lowest = mask & -mask
            found.append(self._of_bit[lowest])
            mask ^= lowest
        return tuple(found)

    def group(self, size: int, mask: Mask) -> Group | None:
        """The jobs as a group; None if they cannot be one."""
        sized = self._sized(size, mask)
        return None if sized is None else self._shared.together(sized, size)

    def _sized(self, size: int, mask: Mask) -> list[Sized] | None:
        """The jobs of a set at this size; None if one of them cannot run so."""
        found, table = [], self._tables.setdefault(size, {})
        while mask:
            lowest = mask & -mask
            if lowest not in table:
                table[lowest] = self._of_bit[lowest].at(size)
            one = table[lowest]
            if one is None:
                return None
            found.append(one)
            mask ^= lowest
        return found
