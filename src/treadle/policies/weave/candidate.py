"""A job as one decision weighs it, and the same at one size."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from treadle.core.job import Job
from treadle.models.sizes.work import Curve


class Sized(NamedTuple):
    """A job at one size."""

    job: "Candidate"
    kind: int
    value: float  # worth x rate alone
    home: Hashable  # what it holds now, if that is of this size; else None
    cost: float  # of being moved from there


class Candidate:
    """A job that may be given devices; `bit` stands for it in sets of jobs (values.py)."""

    __slots__ = (
        "_sized",
        "bit",
        "curve",
        "held",
        "job",
        "kind",
        "resize_cost",
        "stop_cost",
        "worth",
    )

    def __init__(self, job: Job, curve: Curve, worth: float, kind: int, bit: int) -> None:
        self.job = job
        self.curve = curve
        self.worth = worth  # of a unit of its work
        self.kind = kind  # jobs of one kind share alike (sharing.py)
        self.bit = bit
        self.held = 0 if job.allocation is None else len(job.allocation.devices)
        # What changes cost it, as shares of the work that it would do until it ends.
        self.stop_cost = self.resize_cost = 0.0
        self._sized: dict[int, Sized | None] = {}

    def __repr__(self) -> str:
        return f"Candidate({self.job.id})"

    def runs(self, work: float, restart_s: float, resize_s: float) -> None:
        """It holds devices, and changes cost it this; work: what they are weighed against."""
        left_s = max(work / self.held, 1e-9)
        self.stop_cost = min(restart_s / left_s, 1.0)
        self.resize_cost = min(resize_s / left_s, 1.0)

    @property
    def sizes(self) -> Sequence[int]:
        """Those at which it can run, ascending."""
        return self.curve.sizes

    def at(self, size: int) -> Sized | None:
        """The job at this size; None if it cannot run so."""
        try:
            return self._sized[size]
        except KeyError:
            made = self._sized[size] = self._made(size)
            return made

    def _made(self, size: int) -> Sized | None:
        rate = self.curve.rates.get(size)
        if rate is None:
            return None
        value = self.worth * rate
        held = self.job.allocation
        if held is None:
            return Sized(self, self.kind, value, None, 0.0)
        if self.held == size:
            return Sized(self, self.kind, value, held.devices[0], value * self.stop_cost)
        value -= value * self.resize_cost
        return Sized(self, self.kind, value, None, 0.0)

    def costs_to_stop(self) -> float:
        """What is lost if it is stopped, as value."""
        return self.worth * self.curve.rates.get(self.held, 0.0) * self.stop_cost
