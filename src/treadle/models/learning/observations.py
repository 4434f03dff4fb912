"""What was seen of a job's speed, and which sights count.

A job that runs reports units of work a second. What was seen on shared devices does not count.
"""

from math import inf
from typing import NamedTuple


class Observation(NamedTuple):
    """One unit of work took so many seconds on so many devices."""

    size: int
    seconds: float
    shared: bool = False  # other jobs ran on the same devices

    @property
    def counts(self) -> bool:
        return not self.shared and 0 < self.seconds < inf


def of_report(size: int, units_per_s: float, *, shared: bool = False) -> Observation | None:
    """A running job does so many units of work a second; None if it stands still."""
    if not units_per_s > 0:
        return None
    return Observation(size, 1.0 / units_per_s, shared)
