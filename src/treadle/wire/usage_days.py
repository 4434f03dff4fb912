"""Device-hours by day, and what of them was wasted."""

from dataclasses import dataclass

from treadle.wire.jobs import described


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDayRow:
    """Device-hours of one user in one tenant on one day (UTC)."""

    day: str  # 2026-11-16
    user: str
    tenant: str
    jobs: int
    allocated_h: float  # devices held
    measured_h: float  # of allocated_h, in attempts of which it is measured how busy devices are
    used_h: float | None  # measured_h times how busy they were; None: nothing was measured
    failed_h: float  # of allocated_h, in attempts that failed
    idle_h: float | None  # of measured_h less failed_h, without work on the device
    restart_h: float | None = described(
        None,
        "Beside allocated_h: from the order to start again until the processes ran; None: unknown.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DayTotal:
    day: str
    capacity_h: float | None  # device-hours that there were; None: the journal does not say
    fragmented_h: float | None = described(
        None,
        "Of capacity_h, free while a job waited that needs no more devices than were free, only "
        "because of where they are; None: not known for that day, or only a part of it was asked "
        "for.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDays:
    rows: tuple[UsageDayRow, ...]
    days: tuple[DayTotal, ...]
