"""Replay a recorded run with the same inputs, decide again, and compare the orders.

Submissions and device events come at the recorded times. The engine's reports on an order come
again, at the same time and with the observed speed, if the scheduler gives that order again. So the
orders equal the recorded ones as long as the decisions do. An order that is not in the record, or a
recorded report on an order that is not given now, is a difference.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from treadle.core.actions import Action, Stop
from treadle.core.errors import TreadleError
from treadle.core.events import Event, JobFailed, JobFinished, JobProgressed, JobStarted, JobStopped
from treadle.core.job import JobId
from treadle.core.ports import Policy
from treadle.core.retry import RetryRule
from treadle.core.scheduler import Scheduler
from treadle.journal.journal import Journal

_Reports = JobStarted | JobProgressed | JobStopped | JobFinished | JobFailed
_Ordinal = tuple[JobId, int]  # a job, and which of its orders (0 is the first)


class DifferenceError(TreadleError):
    """The decisions differ from the recorded ones."""


class RecordedEngine:
    """An engine for the simulator's loop that reports what a journal recorded."""

    def __init__(self, journal: Journal) -> None:
        self._events = deque((step.now, event) for step in journal.steps for event in step.events)
        self._recorded: dict[int, _Ordinal] = {}
        self._then: Counter[JobId] = Counter()  # orders about each job in the record
        for step in journal.steps:
            for action in step.actions:
                self._recorded[action.id] = (action.job, self._then[action.job])
                self._then[action.job] += 1
        self._given: dict[_Ordinal, int] = {}
        self._counts: Counter[JobId] = Counter()
        self.orders: list[tuple[str, JobId, int]] = []

    def due(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self._events and self._events[0][0] <= now:
            at, event = self._events.popleft()
            events.append(self._again(event, at) if isinstance(event, _Reports) else event)
        return events

    def carry_out(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            ordinal = (action.job, self._counts[action.job])
            self._counts[action.job] += 1
            self._given[ordinal] = action.id
            self.orders.append(compared(action))
            if self._counts[action.job] > self._then[action.job]:
                raise DifferenceError(f"at {now:g} s: an order that is not in the record: {action}")

    def _again(self, event: "_Reports", at: float) -> Event:
        ordinal = self._recorded.get(event.action)
        if ordinal is None or ordinal not in self._given:
            raise DifferenceError(
                f"at {at:g} s: job {event.job} reported on an order that was not given this time"
            )
        return replace(event, action=self._given[ordinal])


def compared(action: Action) -> tuple[str, JobId, int]:
    """The part of an order that is compared: kind, job, number of devices."""
    size = 0 if isinstance(action, Stop) else action.allocation.size
    return type(action).__name__, action.job, size


def recorded_orders(journal: Journal) -> list[tuple[str, JobId, int]]:
    return [compared(action) for step in journal.steps for action in step.actions]


def orders_again(
    journal: Journal, policy: Policy, retry: RetryRule
) -> list[tuple[str, JobId, int]]:
    """The orders of a scheduler under this policy, given the inputs of the record.

    It decides at the recorded decision times: a busy machine wakes a little late, and the policy
    had seen the events of that delay.
    """
    engine = RecordedEngine(journal)
    scheduler = Scheduler(policy, journal.opened.cluster, retry=retry)
    for step in journal.steps:
        actions = scheduler.take(engine.due(step.now), step.now)
        if step.wake_at is not None:
            actions += scheduler.decide(step.now)
        engine.carry_out(actions, step.now)
    return engine.orders
