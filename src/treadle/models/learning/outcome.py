"""What one attempt taught: how long it ran, how much work it did, how fast, and what it needed."""

from math import inf

from treadle.core.sighting import Sighting
from treadle.core.value import value

STEP_MIN_S, STEP_MAX_S = 1e-9, 1e8  # steps beyond these are no steps
UNKNOWN_TYPE = "?"  # of devices of a node that has left
RAN_MIN_S = 0.01  # clocks cannot tell shorter runs from none


@value
class Outcome:
    """One attempt that ended, or that still runs and is looked at."""

    size: int  # devices it ran on
    ran_s: float  # how long it ran; of a job with several attempts, all of them
    whole: bool = False  # it did all the work of the job, at this size, and succeeded
    cut_off: bool = False  # it ended before its work was done: stopped, failed, cancelled, limited
    total: float | None = None  # steps of the whole job, if it said
    step_s: float | None = None  # seconds a step at this size, alone
    shared: bool = False  # it had company, so its times are not its own
    # Seconds of a step alone, in its stages and as a whole, as the job itself measured them.
    stages: tuple[tuple[str, float], ...] = ()
    seen: Sighting | None = None
    spread: str = ""  # on more nodes or racks than it needs (spread.py); empty: it was not
    device_type: str = ""  # of its devices (unlike.py); empty: there is but one
    took_s: tuple[tuple[str, float], ...] = ()  # a pause, or to go on: as costs name them

    @property
    def timed(self) -> bool:
        """Whether its running time says something about lengths."""
        return (self.whole or self.cut_off) and not self.shared and 0 <= self.ran_s < inf

    @property
    def paced(self) -> bool:
        """Whether its steps say how fast it runs at this size."""
        return not self.shared and self.step_s is not None and STEP_MIN_S < self.step_s < STEP_MAX_S

    @property
    def says_more(self) -> bool:
        """Whether it says something besides how long it took."""
        known = self.total is not None or self.seen is not None
        return self.paced or known or bool(self.stages or self.took_s)
