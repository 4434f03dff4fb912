"""The present queue, simulated under something else."""

from dataclasses import dataclass

from treadle.wire.jobs import described


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRequest:
    policy: str = described("", "Another policy; empty: the present one.")
    cluster: str = described("", "Other machines, such as 2x8; empty: the present ones.")
    without: tuple[str, ...] = described((), "Ids of jobs that are left out.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a simulation came to; seconds count from the moment of the snapshot."""

    policy: str
    cluster: str
    jobs: int  # simulated
    ended: int  # of them, within the simulated time
    mean_completion_s: float | None  # from now, of those that ended; None: none did
    p90_completion_s: float | None
    makespan_s: float | None  # None: not all of them ended


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfJob:
    job: str
    name: str
    user: str
    now_s: float | None  # when it ends as things are; None: not within the simulated time
    then_s: float | None
    assumed: bool = described(False, "Its length is not known and was assumed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfSpell:
    job: str
    devices: tuple[str, ...]
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    at: float  # the moment of the snapshot, in seconds since 1970
    now: Outcome
    then: Outcome
    jobs: tuple[WhatIfJob, ...]
    spells_now: tuple[WhatIfSpell, ...]
    spells_then: tuple[WhatIfSpell, ...]
    notes: tuple[str, ...]  # what was assumed or left out
