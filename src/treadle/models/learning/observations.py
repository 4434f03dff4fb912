"""What was seen of a job's speed, and which sights count.

Two sources give the same kind of observation. A job that runs reports units of work a second
(`of_report`); this is what the simulator's jobs do. An attempt that ends says how long the whole
job takes at its size (`of_end`); this is what the live controller uses, because most scripts
report nothing. There, the unit of work is the whole job.

The learner ignores what was seen on shared devices. Live attempts do not say yet whether they
shared, and their work is not yet counted in steps.
"""

from math import inf
from typing import NamedTuple

MEASURED_MIN_S = 5.0  # a speed counts at the end of an attempt if it was measured for so long
RAN_MIN_S = 0.01  # clocks cannot tell shorter runs from none


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


def of_end(
    size: int,
    *,
    whole: bool,
    ran_s: float,
    share_per_s: float | None,
    measured_s: float,
    shared: bool = False,
) -> Observation | None:
    """How long the whole job takes at the size of an attempt that ended; None if it cannot be said.

    `whole`: the attempt did all the job's work, so it was the first and succeeded. Otherwise the
    share of the work that it did each second tells, if that was measured for long enough.
    """
    if whole:
        return Observation(size, max(RAN_MIN_S, ran_s), shared)
    if share_per_s is None or measured_s < MEASURED_MIN_S:
        return None
    return of_report(size, share_per_s, shared=shared)
