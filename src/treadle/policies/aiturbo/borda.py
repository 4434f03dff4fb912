"""Borda count: two orders of jobs become one, and the one becomes levels.

Every job has a place in the order of attained service. Predictable jobs have a second place, in the
order of value; for the others the one ballot counts twice. Places are shares of the list, 0 best
and 1 worst, so that levels mean the same in a short queue and in a long one; equals share a place.
`raw_scores` is the count of AITurbo's public controller: plain places from 1, whose sum depends on
the queue's length.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treadle.core.job import JobId

LEVELS = (0.33, 0.66)  # scores from which the next level begins
HYSTERESIS = 0.05
RAW_LEVELS = (30.0, 180.0)


class Ballot(NamedTuple):
    """What is known of a job when places are given out."""

    job: JobId
    service: float  # attained
    value: float | None = None  # of its best move; None: unknown
    grows: bool = True  # whether that move takes devices or gives some back


def scores(ballots: Sequence[Ballot]) -> dict[JobId, float]:
    """The score of each job from 0, the best, to 1."""
    by_service, by_value = _by_service(ballots), _by_value(ballots)
    served, valued = max(1, len(by_service) - 1), max(1, len(by_value) - 1)
    found: dict[JobId, float] = {}
    for job, place in by_service.items():
        one = place / served
        found[job] = (one + by_value[job] / valued) / 2.0 if job in by_value else one
    return found


def raw_scores(ballots: Sequence[Ballot]) -> dict[JobId, float]:
    """The public controller's score: the sum of two places, from 1, or twice the only one."""
    by_value = _by_value([ballot for ballot in ballots if ballot.grows])
    by_value |= _by_value([ballot for ballot in ballots if not ballot.grows])
    return {
        job: float(place + by_value.get(job, place) + 2)
        for job, place in _by_service(ballots).items()
    }


def level(score: float, *, before: int | None = None) -> int:
    """The level of a score; one that had a level keeps it near the border."""
    found = bisect_right(LEVELS, score)
    if before is None or found == before:
        return found
    border = LEVELS[before] if found > before else LEVELS[before - 1]
    return before if abs(score - border) < HYSTERESIS else found


def raw_level(score: float) -> int:
    return bisect_right(RAW_LEVELS, score)


def _by_service(ballots: Iterable[Ballot]) -> dict[JobId, int]:
    return _places((ballot.service, ballot.job) for ballot in ballots)


def _by_value(ballots: Iterable[Ballot]) -> dict[JobId, int]:
    return _places((-b.value, b.job) for b in ballots if b.value is not None)


def _places(found: Iterable[tuple[float, JobId]]) -> dict[JobId, int]:
    """How many are better than each; equals share a place."""
    places: dict[JobId, int] = {}
    last, place = None, 0
    for position, (number, job) in enumerate(sorted(found)):
        if number != last:
            last, place = number, position
        places[job] = place
    return places
