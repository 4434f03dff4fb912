"""What was seen of an attempt from outside: the engine measures it, the learner learns from it.

Nothing here needs the job's help, so it is known of unmodified scripts as well. What an engine
cannot measure is None, never a guess.
"""

from typing import NamedTuple

from treadle.core.job import JobId
from treadle.core.value import value

WATCHED_S = 4.0  # a job that was seen training alone for so long is known


class Load(NamedTuple):
    """What an attempt uses, all its ranks together, on average over a span of time."""

    busy: float | None = None  # share of time in which its devices worked, 0 to 1
    memory_busy: float | None = None  # share of time in which device memory was read or written
    active: float | None = None  # share of the device's multiprocessors that worked
    device_memory_gib: float | None = None  # of the device that has most of it
    power_w: float | None = None  # of its devices
    cores: float | None = None
    memory_gib: float | None = None  # of the host, resident
    read_mb_s: float | None = None  # from storage
    written_mb_s: float | None = None
    network_mb_s: float | None = None  # both ways; None where a node cannot tell jobs apart
    bandwidth: float | None = None  # share of the device memory's bandwidth that was used


@value
class Company:
    """One spell in which an attempt shared its devices with others."""

    jobs: tuple[JobId, ...]  # the others
    seconds: float
    mps: bool = False
    relative: float | None = None  # its speed as a share of its speed alone; None: not measured
    # The rule of the failure that ended it, or "hang": these must not share again. Empty: none.
    fault: str = ""


@value
class Sighting:
    """All that was seen of one attempt when it ended."""

    alone_s: float = 0.0  # seconds in which it was watched without company
    shared_s: float = 0.0  # the same with company
    load: Load = Load()  # immutable; while alone, or of all if it never was
    device_memory_peak_gib: float | None = None
    memory_peak_gib: float | None = None  # of the host
    energy_j: float | None = None
    first_step_s: float | None = None  # from its launch to its first step
    restart_s: float | None = None  # from the order to stop the attempt before to the first step
    resize_s: float | None = None  # how long the last change without a restart stalled it
    company: tuple[Company, ...] = ()
    step_s: float | None = None  # seconds a step while it was alone; None: not measured
    tail_s: float | None = None  # from its last step to its end; None: that step was not seen
    # Never alone: its busy share alone, as the speeds of the jobs that it shares with tell it.
    busy_beside: float | None = None
