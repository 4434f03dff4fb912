"""How often and how much at once: connections of a door, requests of a user, streams."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from treadle.wire.problems import TooManyError

BUCKETS_MAX = 10_000


class DoorLimits(NamedTuple):
    """How many connections one door takes, in all, from one peer, and of one known user."""

    most: int
    per_peer: int
    per_user: int | None = None  # None: where each peer is a user, or has few


# Where descriptors are plenty.
UNIX_LIMITS = DoorLimits(1024, 512)
TCP_LIMITS = DoorLimits(512, 256, 128)


def door_limits(descriptors: int) -> tuple[DoorLimits, DoorLimits]:
    """The limits of the Unix socket and of TCP in a process that may open so many files.

    Half of all descriptors stay with the engine and the store: with too few of them jobs could not
    be started, nor their ends be read.
    """
    doors = max(descriptors // 2, 24)
    unix = min(UNIX_LIMITS.most, doors * 2 // 3)
    tcp = min(TCP_LIMITS.most, doors // 3)
    return DoorLimits(unix, unix // 2), DoorLimits(tcp, tcp // 2, tcp // 4)


class TooFastError(TooManyError):
    """Nothing was done; the same request a moment later will be."""

    code = "too-fast"


class Bucket(NamedTuple):
    left: float
    at: float


class RequestRate:
    """Tokens that come back at a steady rate; a burst may use up what was saved."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: dict[str, Bucket] = {}

    def take(self, user: str, now: float) -> None:
        """Count one request, or refuse it."""
        left = self._left(user, now)
        if left < 1.0:
            raise TooFastError(
                f"rate limit reached: {user} may send {self._burst} requests at once"
                f" and {self._per_s:.0f} per second after that",
                hint="wait a second, or follow the event stream instead of polling",
            )
        if user not in self._buckets and len(self._buckets) >= BUCKETS_MAX:
            self._forget(now)
            if len(self._buckets) >= BUCKETS_MAX:  # a flood from as many addresses
                del self._buckets[next(iter(self._buckets))]
        self._buckets[user] = Bucket(left - 1.0, now)

    def _left(self, user: str, now: float) -> float:
        bucket = self._buckets.get(user)
        if bucket is None:
            return float(self._burst)
        return min(self._burst, bucket.left + (now - bucket.at) * self._per_s)

    def _forget(self, now: float) -> None:
        """Drop the buckets that are full again; a new one would be the same."""
        self._buckets = {
            user: bucket
            for user, bucket in self._buckets.items()
            if self._left(user, now) < self._burst
        }


class StreamCount:
    """How many streams are open, for each user and in all."""

    def __init__(self, *, most: int, per_user: int) -> None:
        self._most = most
        self._per_user = per_user
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._open.total()

    def check(self, user: str) -> None:
        if self._open[user] >= self._per_user:
            raise TooManyError(
                f"user {user} has {self._open[user]} streams open (at most {self._per_user})",
                hint="close one that is no longer read",
            )
        if self.total >= self._most:
            raise TooManyError(
                f"{self.total} streams are open on this server (at most {self._most})",
                hint="try again when a stream has closed",
            )

    @contextmanager
    def counted(self, user: str) -> Iterator[None]:
        self.check(user)
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]
