"""Days in UTC, by which usage is summed."""

from collections.abc import Iterator
from datetime import UTC, datetime

DAY_S = 86_400.0
DAYS_MAX = 400  # whose sums are kept and given

Part = tuple[int, float]  # the day, counted from 1970, and the seconds in it


def parts(from_at: float, to_at: float) -> Iterator[Part]:
    """A span of time, cut at midnight UTC."""
    while from_at < to_at:
        day = int(from_at // DAY_S)
        end = min(to_at, (day + 1) * DAY_S)
        yield day, end - from_at
        from_at = end


def date_of(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()
