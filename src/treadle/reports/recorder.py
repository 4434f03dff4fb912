"""Record a run: the history of each job and the state of the cluster over time.

The recorder needs only what is in the journal (events and actions, step by step), so it works on a
live run, a simulation and a journal that is read back.
"""

from collections.abc import Callable, Mapping, Sequence

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.events import (
    DeviceClosed,
    DeviceOpened,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobPaused,
    JobProgressed,
    JobReleased,
    JobsLearned,
    JobStarted,
    JobStopped,
    JobSubmitted,
    JobUpdated,
    NodeDrained,
    NodeJoined,
    NodeLost,
    RankReplaced,
    TrainingEnded,
)
from treadle.core.job import JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.retry import Failure, RetryRule, fixed
from treadle.reports.bookkeeping import NO_JOBS, Bookkeeping
from treadle.reports.run_history import FailedAttempt, JobHistory


class Recorder(Bookkeeping):
    """Reads histories, holds and series out of events and actions."""

    def __init__(
        self,
        speedup: Callable[[JobSpec, float], float] | None = None,
        *,
        retry: RetryRule = fixed,
    ) -> None:
        super().__init__(speedup)
        self._retry = retry  # the scheduler's
        self.failures: list[FailedAttempt] = []
        self.thrown_back: list[tuple[float, float]] = []  # when, and how much of `useful` x time
        self._cancelling: set[JobId] = set()  # cancelled while they held devices
        self._blocked: dict[JobId, set[str]] = {}  # reasons why a job may not start

    def step(
        self,
        now: float,
        events: Sequence[Event],
        actions: Sequence[Action],
        *,
        free: int,
        room: int | None = None,
        head: int | None = None,
        held_back: Mapping[int, int] = NO_JOBS,
        unfit: Mapping[int, int] = NO_JOBS,
    ) -> None:
        """Record one step; `note` says what the rest is."""
        self.pass_time(now)
        for event in events:
            self._EVENTS[type(event)](self, event, now)
        if actions:
            lost = [event.node for event in events if isinstance(event, NodeLost)]
            for action in actions:
                self._ACTIONS[type(action)](self, action, now, lost)
            if head is None:
                self.overtake([action.job for action in actions if isinstance(action, Start)])
        self.note(now, free=free, room=room, head=head, held_back=held_back, unfit=unfit)

    def settle(self, ended: Mapping[JobId, Phase], now: float) -> None:
        """What the scheduler says of jobs that ended by the facts of this step is right.

        A job that was ordered to stop may have finished first: the fact wins over the order.
        """
        for identity, phase in ended.items():
            history = self.histories.get(identity)
            if history is not None and history.status != phase.value:
                self.end(history, phase.value, now)
                history.status, history.ended_at = phase.value, now

    def wait(self, history: JobHistory, now: float) -> None:
        if history.spec.id not in self._blocked:  # It may wait already: it failed while stopping.
            super().wait(history, now)

    # -- facts ----------------------------------------------------------------------------------

    def _submitted(self, event: JobSubmitted, now: float) -> None:  # noqa: ARG002
        history = self.arrive(event.spec)
        self.wait(history, history.submitted_at)

    def _observed(self, event: JobStarted | JobProgressed, now: float) -> None:
        history = self.histories[event.job]
        if history.allocation is not None:
            self.run(history, event.iterations_done, event.iterations_per_s, now)

    def _stopped(self, event: JobStopped, now: float) -> None:
        history = self.histories[event.job]
        self._fall_back(history, event.iterations_done, now)
        # A report older than the current start belongs to the hold before it.
        if history.allocation is not None and event.action >= history.attempt:
            self.leave(history, now)
            self.wait(history, now)

    def _failed(self, event: JobFailed, now: float) -> None:
        history = self.histories[event.job]
        if event.action < history.attempt or event.action <= history.failed:
            return  # It was reported before; the scheduler passes over it as well.
        history.failed = event.action
        if event.job in self._cancelling:
            self._failed_cancelled(event, history, now)
            return
        if history.ended_at is not None:
            return
        history.failures += 1
        held = history.allocation
        size, nodes = (0, ()) if held is None else (held.size, held.nodes())
        self._fall_back(history, event.iterations_done, now)
        self.leave(history, now)
        devices = () if held is None else tuple(map(str, held.devices))
        failure = Failure(history.spec, history.failures, event.reason, nodes, now, devices)
        retried = self._retry(failure).again
        self._note_failure(event, history, now, size=size, retried=retried)
        if retried:
            self.wait(history, now)
        else:
            self.end(history, "failed", now)

    def _failed_cancelled(self, event: JobFailed, history: JobHistory, now: float) -> None:
        """It failed before the order to stop it arrived: its last attempt failed all the same."""
        history.failures += 1
        self.end(history, "cancelled", now)
        held = self.holds[history.last_hold].allocation if history.last_hold >= 0 else None
        self._note_failure(event, history, now, size=held.size if held else 0, retried=False)

    def _finished(self, event: JobFinished, now: float) -> None:
        self.end(self.histories[event.job], "finished", now)

    def _cancelled(self, event: JobCancelled, now: float) -> None:
        history = self.histories.get(event.job)
        if history is None or history.ended_at is not None:
            return
        if history.allocation is None:
            self.end(history, "cancelled", now)
        else:
            self._cancelling.add(event.job)  # The stop that follows ends it.

    # -- orders ---------------------------------------------------------------------------------

    def _start(self, action: Start, now: float, lost: list[str]) -> None:  # noqa: ARG002
        self.start(self.histories[action.job], action.allocation, action.id, now)

    def _change(self, action: Change, now: float, lost: list[str]) -> None:  # noqa: ARG002
        self.change(self.histories[action.job], action.allocation, now)

    def _stop(self, action: Stop, now: float, lost: list[str]) -> None:
        history = self.histories.get(action.job)
        if history is None or history.allocation is None:
            return
        if action.job in self._cancelling:
            self.end(history, "cancelled", now)
            return
        if lost and not set(lost).isdisjoint(history.allocation.nodes()):
            history.interruptions += 1
        else:
            history.preemptions += 1
        self.leave(history, now)
        self.wait(history, now)

    # -- leaves ---------------------------------------------------------------------------------

    def _note_failure(
        self, event: JobFailed, history: JobHistory, now: float, *, size: int, retried: bool
    ) -> None:
        ran_s, device_s = (
            history.held_s - history.tried_s,
            history.service_s - history.tried_device_s,
        )
        history.tried_s, history.tried_device_s = history.held_s, history.service_s
        self.failures.append(
            FailedAttempt(
                event.job, now, event.reason, history.failures, size, ran_s, device_s, retried
            )
        )

    def _fall_back(self, history: JobHistory, done: float, now: float) -> None:
        """Count work that is gone: what was done less what can be resumed from."""
        gone = history.iterations_at(now) - done
        if gone > 0:
            size = history.spec.asked if history.allocation is None else history.allocation.size
            history.lost_s += gone * history.spec.profile.iteration_s * size
            if self._speedup is not None:
                self.thrown_back.append((now, self._speedup(history.spec, gone)))
            if history.allocation is None and history.last_hold >= 0:
                hold = self.holds[history.last_hold]
                self.holds[history.last_hold] = hold._replace(iterations=hold.iterations - gone)
        history.done, history.observed_at = done, now

    def _block(self, event: JobHeld, now: float) -> None:
        history = self.histories.get(event.job)
        if history is not None and history.ended_at is None:
            self._blocked.setdefault(event.job, set()).add(event.reason)
            self.wait_no_more(history, now)

    def _released(self, event: JobReleased, now: float) -> None:
        reasons = self._blocked.get(event.job, set())
        reasons.discard(event.reason)
        history = self.histories.get(event.job)
        waits = history is not None and history.allocation is None and history.ended_at is None
        if not reasons and self._blocked.pop(event.job, None) is not None and history and waits:
            self.wait(history, now)

    def _updated(self, event: JobUpdated, now: float) -> None:
        history = self.histories.get(event.spec.id)
        if history is None or history.ended_at is not None:
            return
        waits = history.waiting_since_at is not None
        self.wait_no_more(history, now)
        history.done *= event.spec.iterations / history.spec.iterations
        history.spec = event.spec
        if waits:
            self.wait(history, now)

    def _learned(self, event: JobsLearned, now: float) -> None:
        for identity in event.jobs:
            history = self.histories.get(identity)
            if history is not None:
                self._updated(JobUpdated(event.applied(history.spec)), now)

    def _pass_over(self, event: Event, now: float) -> None:
        """Nodes and devices have no history of their own, and an end is counted when it comes."""

    _EVENTS: Mapping[type, Callable[..., None]] = {
        JobSubmitted: _submitted,
        JobStarted: _observed,
        JobProgressed: _observed,
        TrainingEnded: _pass_over,
        RankReplaced: _pass_over,
        JobPaused: _pass_over,
        JobStopped: _stopped,
        JobFailed: _failed,
        JobFinished: _finished,
        JobCancelled: _cancelled,
        NodeJoined: _pass_over,
        NodeLost: _pass_over,
        NodeDrained: _pass_over,
        DeviceClosed: _pass_over,
        DeviceOpened: _pass_over,
        JobHeld: _block,
        JobReleased: _released,
        JobUpdated: _updated,
        JobsLearned: _learned,
    }
    _ACTIONS: Mapping[type, Callable[..., None]] = {Start: _start, Change: _change, Stop: _stop}
