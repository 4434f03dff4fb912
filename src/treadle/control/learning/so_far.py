"""What was seen of an attempt so far, as it is stored: the next controller goes on with it."""

import msgspec

from treadle.core.job import JobId


class Tally(msgspec.Struct):
    """The sum of a figure over time, and for how many seconds it was known."""

    total: float
    seconds: float


class Spell(msgspec.Struct):
    """Seconds with the same jobs, and steps done in them."""

    others: tuple[JobId, ...]  # none: alone
    seconds: float
    steps: float
    mps: bool


class SoFar(msgspec.Struct, kw_only=True):
    """All that a Sighting is made of, but for moments."""

    spells: list[Spell] = []
    alone: dict[str, Tally] = {}  # by the fields of Load
    shared: dict[str, Tally] = {}
    starting: dict[str, Tally] = {}
    device_memory_peak_gib: float | None = None
    memory_peak_gib: float | None = None
    energy_j: float | None = None
    busy: tuple[float, int] = (0.0, 0)  # sum and count of what was measured
    trains: bool = False
    longest_s: float = 0.0
