"""How far off simulated starts were: asked beside the loop, and stored for the next controller.

Forecasts are no facts, so the journal has none of it. Those that are open are forgotten when the
controller ends.
"""

import logging
from collections.abc import Iterable, Sequence
from threading import Lock

import msgspec

from treadle.core.job import JobId
from treadle.models.learning.start_errors import Kept, Range, StartErrors

SETTING = "starts"
logger = logging.getLogger("treadle")
_decoder = msgspec.json.Decoder(Kept)


class Starts:
    """Starts are forecast in other threads than the one that hears of them: they take turns."""

    def __init__(self) -> None:
        self._errors = StartErrors()
        self._changed = False
        self._lock = Lock()

    @property
    def compared(self) -> int:
        """How many starts correct a range; 0: too few for that."""
        return self._errors.compared

    def range_of(self, simulated: Sequence[float], now: float) -> Range:
        with self._lock:
            return self._errors.range_of(simulated, now=now)

    def promise(self, job: JobId, simulated: Sequence[float], now: float) -> None:
        """People are shown a range of this job, at its present state."""
        with self._lock:
            self._errors.promise(job, simulated, now=now)

    def started(self, job: JobId, now: float) -> None:
        with self._lock:
            self._changed = self._errors.started(job, now=now) or self._changed

    def forget(self, jobs: Iterable[JobId]) -> None:
        """These jobs have ended."""
        with self._lock:
            self._errors.forget(jobs)

    def take_change(self) -> str | None:
        """What to store, if it changed since this was last asked."""
        if not self._changed:
            return None
        self._changed = False
        return msgspec.json.encode(self._errors.kept).decode()

    def restore(self, text: str | None) -> None:
        """Go on with what was stored; with nothing if that cannot be read."""
        try:
            self._errors = StartErrors(_decoder.decode(text) if text else None)
        except msgspec.MsgspecError as error:
            logger.warning("errors of simulated starts cannot be read and are forgotten: %s", error)
