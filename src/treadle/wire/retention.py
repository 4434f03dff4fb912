"""What is kept of ended jobs and for how long; and the answer to pruning."""

import re
from dataclasses import dataclass

from treadle.core.errors import InvalidInputError
from treadle.wire.job_fields import duration_text
from treadle.wire.notation import duration, shown

DAY_S = 86_400.0
FOREVER = "forever"
SHOWN_MAX = 1000  # jobs that one answer lists
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([KMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True)
class Keep:
    """Until an age or a sum of sizes is reached, whichever comes first; None: no limit."""

    age_s: float | None = None
    bytes: int | None = None

    @classmethod
    def of(cls, text: str, what: str) -> "Keep":
        """From "30d,20GiB", "30d", "20GiB" or "forever"."""
        if text.strip().lower() == FOREVER:
            return cls()
        age_s: float | None = None
        most: int | None = None
        for part in text.split(","):
            if _SIZE.fullmatch(part.strip()) and part.strip()[-1] in "bB" and most is None:
                most = size(part, what)
            elif age_s is None:
                age_s = duration(part, what)
            else:
                raise InvalidInputError(
                    f"{what} is {shown(text)}; expected an age, a size or both, such as 30d,20GiB, "
                    f"or {FOREVER}"
                )
        return cls(age_s, most)

    def __str__(self) -> str:
        age = [] if self.age_s is None else [duration_text(self.age_s)]
        most = [] if self.bytes is None else [size_text(self.bytes)]
        return ",".join([*age, *most]) or FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The daemon's setting."""

    logs: Keep = Keep(30 * DAY_S, 20 * 2**30)
    records: Keep = Keep()


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRequest:
    """What to prune; without age and size: what the daemon's setting says."""

    older_than_s: float | None = None  # since the job ended
    logs_over: int | None = None  # bytes: the oldest logs go until the rest is below
    records: bool = False  # also the records of these jobs
    mine: bool = False  # only the caller's jobs; for users who are no admins it is always so
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedJob:
    id: str
    user: str
    ended_at: float
    bytes: int  # of its output
    record: bool = False  # whether its record went too


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed, or would be by the same request without `dry_run`."""

    dry_run: bool
    jobs: tuple[PrunedJob, ...]  # at most 1,000 are listed
    logs: int  # jobs whose output went
    bytes: int  # on disk, of output
    checkpoint_folders: int  # empty ones
    records: int
    journal_lines: int
    kept_bytes: int  # of output that stays
    keep_logs: str = ""  # the daemon's setting
    keep_records: str = ""


def check_keeping(logs: str | None, records: str | None) -> None:
    """Refuse options of `treadle up` that cannot be read."""
    if logs is not None:
        Keep.of(logs, "--keep-logs")
    if records is not None and Keep.of(records, "--keep-records").bytes is not None:
        raise InvalidInputError(
            f"--keep-records is {shown(records)}; expected an age such as 365d, or {FOREVER}"
        )


def size(text: str, what: str) -> int:
    """`20GiB`, `500MB`, `1.5T`, or bytes as a number."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected a size such as 20GiB, 500MB or 0B"
        )
    base = 1024 if found[3] or not text.strip().lower().endswith("b") else 1000
    return int(float(found[1]) * base ** _POWERS[found[2].lower()])


def size_text(count: int) -> str:
    """In the largest unit that leaves at least 1."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f}".removesuffix(".0") + units[0]
