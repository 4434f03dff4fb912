"""How often and how much at once: a bucket of requests for each user, and a count of streams."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from treadle.wire.problems import TooManyError

BUCKETS_MAX = 10_000


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
