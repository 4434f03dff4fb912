"""Orders, in the imperative: what the scheduler wants done.

`after` names the jobs that must release devices first: an engine carries an order out only once
they have, so no device ever runs two jobs of one turn, however long a stop takes.

`beside` names the other jobs on those devices once the orders are given. Only a live journal has
it, for people: an order is the same with and without. So it is with `for_job`, for which job one is
stopped or shrunk, where the policy knows, and with `resumes`: the job was paused.
"""

from dataclasses import field

from treadle.core.allocation import Allocation
from treadle.core.job import JobId
from treadle.core.value import value


@value
class Start:
    id: int
    job: JobId
    allocation: Allocation
    after: tuple[JobId, ...] = ()
    beside: tuple[JobId, ...] = field(default=(), compare=False)


@value
class Change:
    """Any difference between two allocations: size, devices, plan, turn, host, paused."""

    id: int
    job: JobId
    allocation: Allocation
    after: tuple[JobId, ...] = ()
    beside: tuple[JobId, ...] = field(default=(), compare=False)
    for_job: JobId = field(default="", compare=False)
    resumes: bool = field(default=False, compare=False)


@value
class Stop:
    id: int
    job: JobId
    for_job: JobId = field(default="", compare=False)


Action = Start | Change | Stop
