"""What is remembered of gangs that wait in turn (reserve.py): overtakings, and devices kept."""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from treadle.core.cluster import Device
from treadle.core.job import JobId
from treadle.policies.wrappers.wrapper import Note


class Bounds(NamedTuple):
    """Up to when a gang waits without a reservation."""

    overtakes: float  # for each device
    wait_s: float
    lengths: float


class Reservation(NamedTuple):
    """Devices that are kept for a job; none yet while others are before it."""

    job: JobId
    since_at: float
    by_at: float = inf  # when it was expected to start when its devices were chosen
    devices: tuple[Device, ...] = ()
    due_at: float = inf  # the first moment that was promised and missed
    lent_until_at: float = inf  # no job starts on its devices after that


class Count(NamedTuple):
    """How often a gang was overtaken."""

    times: int
    since_at: float  # since when it waits; it is counted anew if it was held meanwhile


class Lines(NamedTuple):
    """What one decision tells the next."""

    overtaken: Mapping[JobId, Count] = {}  # jobs of several devices that wait, in sight or not
    reserved: tuple[Reservation, ...] = ()  # in the order in which they are served


def reservations(memory: object) -> tuple[Reservation, ...]:
    """Those in the memory of a decision, however it is wrapped."""
    return lines_in(memory).reserved


def turns(overtaken: Mapping[JobId, Count]) -> Note:
    """A memory of how often gangs were overtaken, for a policy to take over."""
    return Note(Lines(overtaken), None)


def lines_in(memory: object) -> Lines:
    """The whole of it in the memory of a decision, however it is wrapped."""
    while isinstance(memory, Note):
        if isinstance(memory.own, Lines):
            return memory.own
        memory = memory.inner
    return Lines()
