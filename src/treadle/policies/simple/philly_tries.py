"""When Philly's waiting jobs try again, and which of their tries can be left out.

A job that found no place tries again every few minutes. Between two events only its locality and
its patience change, so most tries fail as the last one did. A decision therefore says until when
all tries are in vain, and the next one counts them without having made them. On 500 jobs of a
Philly virtual cluster this leaves 1 of 180 decisions, and every start and stop as it was.
"""

from collections.abc import Mapping
from math import ceil, inf
from typing import NamedTuple

from treadle.core.job import JobId

ROUNDING = 1e-9
_AHEAD_MAX = 64  # tries; a decision after so many is always soon enough


class Rules(NamedTuple):
    """The parameters, checked."""

    weights: Mapping[str, float]  # of tenants; empty: the same for all
    granted: float  # all quotas together, in clusters
    most: float  # that a tenant may hold, in quotas
    tries: tuple[int, int]  # failed tries before up to twice the nodes will do, and before any
    retry_s: float
    tick_s: float
    full: float  # share of the devices in use from which on there is preemption
    patience_s: float

    def level(self, tries: int) -> int:
        """The locality that a job puts up with after so many failed tries."""
        first, second = self.tries
        return (tries >= first) + (tries >= second)

    def next_try_at(self, now: float) -> float:
        """When a job tries again that fails now: the first tick at or after `retry_s`."""
        at = now + self.retry_s
        return max(ceil(at / self.tick_s - ROUNDING) * self.tick_s, at)


class Wait(NamedTuple):
    """What is known of a job that has tried and waits."""

    next_try_at: float  # at the earliest
    tries: int  # that failed for want of a place
    fair_share: bool  # why the last one failed

    def is_patient(self, since_at: float, rules: Rules) -> bool:
        """Whether the job will have waited long enough at its next try to preempt others."""
        return self.next_try_at - since_at > rules.patience_s

    def changes_at(self, since_at: float, rules: Rules) -> float:
        """The first try, after the next, of another locality or patience; inf: there is none.

        All tries up to then must fail as the last one did. A job that waits for its tenant's share
        gets no further by either.
        """
        patient, level = self.is_patient(since_at, rules), rules.level(self.tries)
        if self.fair_share or (patient and level == rules.level(rules.tries[1])):
            return inf
        wait = self
        for _ in range(_AHEAD_MAX):
            wait = Wait(rules.next_try_at(wait.next_try_at), wait.tries + 1, fair_share=False)
            if (wait.is_patient(since_at, rules), rules.level(wait.tries)) != (patient, level):
                break
        return wait.next_try_at


class Memory(NamedTuple):
    """What one decision tells the next."""

    waits: Mapping[JobId, Wait] = {}
    vain_until: float = 0.0  # earlier tries fail as the last one of the same job did

    def at(self, now: float, rules: Rules) -> Mapping[JobId, Wait]:
        """The waits once the tries in vain before this moment are counted."""
        until = min(now, self.vain_until)
        counted: dict[float, tuple[int, float]] = {}  # by the next try; jobs share few of these

        def caught_up(wait: Wait) -> Wait:
            first = wait.next_try_at
            if first >= until:
                return wait
            if first not in counted:
                number, at = 0, first
                while at < until:
                    number, at = number + 1, rules.next_try_at(at)
                counted[first] = (number, at)
            number, at = counted[first]
            return Wait(at, wait.tries + (0 if wait.fair_share else number), wait.fair_share)

        return {job: caught_up(wait) for job, wait in self.waits.items()}
