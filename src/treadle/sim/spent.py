"""How much CPU time a policy's decisions take."""

from collections.abc import Callable
from time import perf_counter, thread_time

from treadle.core.errors import PolicyError
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot

Stopwatch = Callable[[], float]  # CPU seconds of the thread, unless a test needs another


class Spent:
    """A policy that measures the CPU time of another, live and simulated alike."""

    def __init__(self, inner: Policy, name: str, stopwatch: Stopwatch | None) -> None:
        """stopwatch: None: the clock, times the share of the processor that the run had.

        To ask for the CPU time itself at every decision takes longer than most decisions.
        """
        self._inner = inner
        self._name = name
        self._scaled, self.stopwatch = stopwatch is None, stopwatch or perf_counter
        self._begun = perf_counter(), thread_time()
        self.spent_s = 0.0
        self.in_order = inner.in_order
        self.shares = inner.shares
        self.resizes = inner.resizes
        self.knows_slots = inner.knows_slots
        self.half_life_s = inner.half_life_s
        self.rank = inner.rank
        self.never_fits = inner.never_fits
        self.reason = inner.reason
        self.place = inner.place
        self.held_back = inner.held_back
        self.quotas, self.standings = inner.quotas, inner.standings
        self.take_over = inner.take_over

    @property
    def decide_s(self) -> float:
        """CPU time of all decisions so far."""
        if not self._scaled:
            return self.spent_s
        wall_s, cpu_s = perf_counter() - self._begun[0], thread_time() - self._begun[1]
        return self.spent_s * min(1.0, cpu_s / wall_s if wall_s else 1.0)

    def decide(self, snapshot: Snapshot) -> Schedule:
        begun_s = self.stopwatch()
        try:
            schedule = self._inner.decide(snapshot)
        except Exception as error:
            # A third party's policy may raise anything; the user gets a message, not a traceback.
            raise PolicyError(
                f"policy {self._name} failed at {snapshot.now:g} s: {error!r}"
            ) from error
        self.spent_s += self.stopwatch() - begun_s
        if not isinstance(schedule, Schedule):
            raise PolicyError(
                f"policy {self._name} returned {schedule!r} at {snapshot.now:g} s; "
                "expected a Schedule"
            )
        return schedule
