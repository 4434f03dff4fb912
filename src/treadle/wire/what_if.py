"""The present queue, simulated under something else."""

from dataclasses import dataclass

from treadle.wire.jobs import described


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRequest:
    policy: str = described("", "Another policy; empty: the present one.")
    cluster: str = described("", "Other machines, such as 2x8; empty: the present ones.")
    without: tuple[str, ...] = described(
        (), "Jobs that are left out, each by its id, its array's id, or its name."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a simulation came to; seconds count from the moment of the snapshot.

    The three times are of the jobs that end in both simulations, so that they can be compared.
    """

    policy: str
    cluster: str
    jobs: int  # simulated
    ended: int  # of them, within the simulated time
    mean_completion_s: float | None  # from now; None: no job ends in both
    p90_completion_s: float | None
    makespan_s: float | None  # None: a job of this simulation does not end


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
