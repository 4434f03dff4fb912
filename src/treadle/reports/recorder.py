"""Record a run: the history of each job and the state of the cluster over time.

The recorder needs only what is in the journal (events and actions, step by step), so it works on a
live run, a simulation and a journal that is read back.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
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
from treadle.reports.overtakes import Overtakes
from treadle.reports.run_history import FailedAttempt, Hold, JobHistory, Series

WAIT_CAUSES = ("devices", "fragmentation", "order", "fair share")
_NO_JOBS: Mapping[int, int] = {}


class Recorder:
    """Collects histories, holds and series; `close` ends what is still open."""

    def __init__(
        self,
        speedup: Callable[[JobSpec, float], float] | None = None,
        *,
        retry: RetryRule = fixed,
    ) -> None:
        self._retry = retry  # the scheduler's
        self.histories: dict[JobId, JobHistory] = {}
        self.holds: list[Hold] = []
        self.failures: list[FailedAttempt] = []
        self.series = Series()
        self.thrown_back: list[tuple[float, float]] = []  # when, and how much of `useful` x time
        # Seconds that jobs of a size waited, by cause.
        self._wait_s: dict[str, defaultdict[int, float]] = {
            cause: defaultdict(float) for cause in WAIT_CAUSES
        }
        self._speedup = speedup  # of a job at a speed, over one device
        self._busy = 0  # devices with a job
        # Jobs on each device; None until a second turn is assigned: until then no job shares.
        self._sharers: Counter[Device] | None = None
        self._waiting: Counter[int] = Counter()  # jobs by asked size
        self._queued = 0  # their sum
        self._running = 0
        self._useful = 0.0
        self._unfinished = 0
        self._contention = 0.0  # integral of unfinished jobs
        self._cancelling: set[JobId] = set()  # cancelled while they held devices
        self._last_at = 0.0
        self._overtakes = Overtakes()
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
        held_back: Mapping[int, int] = _NO_JOBS,
        unfit: Mapping[int, int] = _NO_JOBS,
    ) -> None:
        """Record one step. `free`: devices free after it. `room`: the most of them on one node.
        `head`: size of the job that blocks the queue, under policies without overtaking.
        `held_back`: jobs by asked size that wait because of other tenants' shares. `unfit`: jobs
        that the cluster cannot hold."""
        if now > self._last_at:
            self._pass_time(now)
        for event in events:
            self._EVENTS[type(event)](self, event, now)
        if actions:
            lost = [event.node for event in events if isinstance(event, NodeLost)]
            for action in actions:
                self._ACTIONS[type(action)](self, action, now, lost)
            # A start overtakes the jobs that still wait after this step, if the policy allows it.
            if self._queued and head is None:
                for action in actions:
                    if isinstance(action, Start):
                        self._overtakes.start(self.histories[action.job].place)
        self._free, self._room, self._head = free, room, head
        self._held_back, self._unfit = held_back, unfit
        self._note(now)

    def settle(self, ended: Mapping[JobId, Phase], now: float) -> None:
        """What the scheduler says of jobs that ended by the facts of this step is right.

        A job that was ordered to stop may have finished first: the fact wins over the order.
        """
        for identity, phase in ended.items():
            history = self.histories.get(identity)
            if history is not None and history.status != phase.value:
                self._end(identity, phase.value, now)
                history.status, history.ended_at = phase.value, now

    def overtaken(self, job: JobId) -> int:
        """How many later jobs have started while this one waited, up to now."""
        history = self.histories[job]
        waits = history.waiting_since_at is not None
        return history.overtaken + (self._overtakes.after(history.place) if waits else 0)

    def close(self, now: float) -> None:
        """End the record at that moment; running jobs are cut off."""
        if now > self._last_at:
            self._pass_time(now)
        for identity, history in self.histories.items():
            self._end_hold(identity, history, now)
            self._stop_waiting(history, now)

    @property
    def wait_s(self) -> dict[tuple[str, int], float]:
        """Seconds waited by cause and asked size."""
        return {
            (cause, size): seconds
            for cause, sizes in self._wait_s.items()
            for size, seconds in sizes.items()
            if seconds
        }

    def waited_s(self, cause: str) -> float:
        """Seconds that all jobs waited for that cause."""
        return sum(seconds for (why, _), seconds in self.wait_s.items() if why == cause)

    # -- time -----------------------------------------------------------------------------------

    _free = 0
    _room: int | None = None
    _head: int | None = None
    _held_back = _NO_JOBS
    _unfit = _NO_JOBS

    def _pass_time(self, now: float) -> None:
        past_s = now - self._last_at
        self._contention += past_s * self._unfinished
        self._last_at = now
        if self._queued:
            self._wait(past_s)

    def _wait(self, past_s: float) -> None:
        """Count the time that jobs waited, by cause."""
        causes, free, head, room = self._wait_s, self._free, self._head, self._room
        lack, held_back, unfit = causes["devices"], self._held_back, self._unfit
        for size, count in self._waiting.items():
            if held_back and (others := min(held_back.get(size, 0), count)):
                causes["fair share"][size] += past_s * others
                count -= others  # noqa: PLW2901
            if not count:
                continue
            if size > free:
                lack[size] += past_s * count
                continue
            if unfit and (never := min(unfit.get(size, 0), count)):
                lack[size] += past_s * never  # Such a job waits for more devices.
                count -= never  # noqa: PLW2901
            # Where one node has room for it, no place is missing: the policy has others in front
            # of it, or it pauses before a retry. Under policies without overtaking only the job at
            # the head is not behind another one.
            lacking = 0
            if room is None or size > room:
                lacking = count if head is None else int(head == size and count > 0)
            causes["fragmentation"][size] += past_s * lacking
            causes["order"][size] += past_s * (count - lacking)

    def _note(self, now: float) -> None:
        series = self.series
        if series.at and series.at[-1] == now:
            series.busy[-1] = self._busy
            series.waiting[-1] = self._queued
            series.running[-1] = self._running
            series.useful[-1] = self._useful
            return
        series.at.append(now)
        series.busy.append(self._busy)
        series.waiting.append(self._queued)
        series.running.append(self._running)
        series.useful.append(self._useful)

    # -- facts ----------------------------------------------------------------------------------

    def _submitted(self, event: JobSubmitted, now: float) -> None:
        # The submission time counts, even if the engine looks only at the end of rounds.
        history = JobHistory(
            event.spec,
            event.spec.submit_at,
            place=self._overtakes.join(),
            contention=-self._contention,
        )
        self.histories[event.spec.id] = history
        self._unfinished += 1
        self._start_waiting(history, now)
        history.waiting_since_at = history.submitted_at

    def _observed(self, event: JobStarted | JobProgressed, now: float) -> None:
        history = self.histories[event.job]
        if history.allocation is None:
            return
        self._respeed(history, event.iterations_per_s)
        history.done, history.observed_at = event.iterations_done, now

    def _stopped(self, event: JobStopped, now: float) -> None:
        history = self.histories[event.job]
        self._fall_back(history, event.iterations_done, now)
        # A report older than the current start belongs to the hold before it.
        if history.allocation is not None and event.action >= history.attempt:
            self._end_hold(event.job, history, now)
            self._start_waiting(history, now)

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
        self._end_hold(event.job, history, now)
        devices = () if held is None else tuple(map(str, held.devices))
        failure = Failure(history.spec, history.failures, event.reason, nodes, now, devices)
        retried = self._retry(failure).again
        self._note_failure(event, history, now, size=size, retried=retried)
        if retried:
            self._start_waiting(history, now)
        else:
            self._end(event.job, "failed", now)

    def _failed_cancelled(self, event: JobFailed, history: JobHistory, now: float) -> None:
        """It failed before the order to stop it arrived: its last attempt failed all the same."""
        history.failures += 1
        self._end(event.job, "cancelled", now)
        held = self.holds[history.last_hold].allocation if history.last_hold >= 0 else None
        self._note_failure(event, history, now, size=held.size if held else 0, retried=False)

    def _finished(self, event: JobFinished, now: float) -> None:
        self._end(event.job, "finished", now)

    def _cancelled(self, event: JobCancelled, now: float) -> None:
        history = self.histories.get(event.job)
        if history is None or history.ended_at is not None:
            return
        if history.allocation is None:
            self._end(event.job, "cancelled", now)
        else:
            self._cancelling.add(event.job)  # The stop that follows ends it.

    # -- orders ---------------------------------------------------------------------------------

    def _start(self, action: Start, now: float, lost: list[str]) -> None:  # noqa: ARG002
        history = self.histories[action.job]
        self._stop_waiting(history, now)
        history.starts += 1
        history.attempt = action.id
        history.status = "running"
        if history.first_start_at is None:
            history.first_start_at = now
        self._hold(history, action.allocation, now)

    def _change(self, action: Change, now: float, lost: list[str]) -> None:  # noqa: ARG002
        history = self.histories[action.job]
        before = history.allocation
        self._end_hold(action.job, history, now)
        if action.allocation.paused:
            history.pauses += before is not None
            self._start_waiting(history, now)
            return
        if before is None:  # It was paused.
            self._stop_waiting(history, now)
            self._hold(history, action.allocation, now)
            return
        if before.size != action.allocation.size:
            history.resizes += 1
        else:
            history.moves += 1
        self._hold(history, action.allocation, now)

    def _stop(self, action: Stop, now: float, lost: list[str]) -> None:
        history = self.histories.get(action.job)
        if history is None or history.allocation is None:
            return
        if action.job in self._cancelling:
            self._end(action.job, "cancelled", now)
            return
        if lost and not set(lost).isdisjoint(history.allocation.nodes()):
            history.interruptions += 1
        else:
            history.preemptions += 1
        self._end_hold(action.job, history, now)
        self._start_waiting(history, now)

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

    def _hold(self, history: JobHistory, allocation: Allocation, now: float) -> None:
        history.allocation, history.held_since_at, history.begun = allocation, now, history.done
        self._running += 1
        if self._sharers is None and allocation.turn:
            others = (s.allocation for s in self.histories.values() if s is not history)
            self._sharers = Counter(d for held in others if held is not None for d in held.devices)
        if self._sharers is None:
            self._busy += len(allocation.devices)
        else:
            self._sharers.update(allocation.devices)
            self._busy = len(self._sharers)

    def _end_hold(self, identity: JobId, history: JobHistory, now: float) -> None:
        allocation = history.allocation
        if allocation is None:
            return
        begun, history.done = history.begun, history.iterations_at(now)
        history.observed_at = now
        held_s = now - history.held_since_at
        if held_s > 0.0:
            hold = Hold(identity, allocation, history.held_since_at, now, history.done - begun)
            history.last_hold = len(self.holds)
            self.holds.append(hold)
            history.held_s += held_s
            history.service_s += allocation.size * held_s
        if self._sharers is None:
            self._busy -= len(allocation.devices)
        else:
            for device in allocation.devices:
                self._sharers[device] -= 1
                if not self._sharers[device]:
                    del self._sharers[device]
            self._busy = len(self._sharers)
        self._running -= 1
        self._respeed(history, 0.0)
        history.allocation = None

    def _respeed(self, history: JobHistory, speed: float) -> None:
        if speed == history.speed:
            return
        if self._speedup is not None:
            useful = self._speedup(history.spec, speed) if speed else 0.0
            self._useful += useful - history.useful
            history.useful = useful
            if not self._running:
                self._useful = 0.0  # rounding must not pile up
        history.speed = speed

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

    def _start_waiting(self, history: JobHistory, now: float) -> None:
        if history.waiting_since_at is not None or history.spec.id in self._blocked:
            return  # It failed while it was stopping: it is already waiting.
        if history.starts:  # No job has arrived after a new one.
            history.overtaken -= self._overtakes.after(history.place)
        history.status = "waiting"
        history.waiting_since_at = now
        self._waiting[history.spec.asked] += 1
        self._queued += 1

    def _stop_waiting(self, history: JobHistory, now: float) -> None:
        if history.waiting_since_at is None:
            return
        waited_s = now - history.waiting_since_at
        history.waited_s += waited_s
        if waited_s:
            history.overtaken += self._overtakes.after(history.place)
            profile = history.spec.profile
            remaining_s = (
                (history.spec.iterations - history.done) * profile.iteration_s * profile.size
            )
            history.blocking += waited_s * waited_s / 2.0 / max(remaining_s, 1.0)
        history.waiting_since_at = None
        self._waiting[history.spec.asked] -= 1
        self._queued -= 1

    def _end(self, identity: JobId, status: str, now: float) -> None:
        history = self.histories[identity]
        if history.ended_at is not None:
            return
        self._end_hold(identity, history, now)
        self._stop_waiting(history, now)
        history.status, history.ended_at = status, now
        history.contention += self._contention
        self._unfinished -= 1

    def _block(self, event: JobHeld, now: float) -> None:
        history = self.histories.get(event.job)
        if history is not None and history.ended_at is None:
            self._blocked.setdefault(event.job, set()).add(event.reason)
            self._stop_waiting(history, now)

    def _released(self, event: JobReleased, now: float) -> None:
        reasons = self._blocked.get(event.job, set())
        reasons.discard(event.reason)
        history = self.histories.get(event.job)
        waits = history is not None and history.allocation is None and history.ended_at is None
        if not reasons and self._blocked.pop(event.job, None) is not None and history and waits:
            self._start_waiting(history, now)

    def _updated(self, event: JobUpdated, now: float) -> None:
        history = self.histories.get(event.spec.id)
        if history is None or history.ended_at is not None:
            return
        waits = history.waiting_since_at is not None
        self._stop_waiting(history, now)
        history.done *= event.spec.iterations / history.spec.iterations
        history.spec = event.spec
        if waits:
            self._start_waiting(history, now)

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
