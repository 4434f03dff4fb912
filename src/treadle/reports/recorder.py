"""Watch a run: the story of each job and the state of the cluster over time.

The recorder sees what the journal holds (facts and orders, step by step), so it works on a live
run, a simulated one and a journal that is read back.
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
    JobProgressed,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    JobUpdated,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import JobId, JobSpec
from treadle.core.retry import Failure, RetryRule, fixed
from treadle.reports.overtakes import Overtakes
from treadle.reports.story import FailedAttempt, Hold, Series, Story

WAIT_CAUSES = ("devices", "fragmentation", "order", "fair share")
_NOBODY: Mapping[int, int] = {}


class Recorder:
    """Collects stories, holds and series; `close` ends what is still open."""

    def __init__(
        self,
        speedup: Callable[[JobSpec, float], float] | None = None,
        *,
        retry: RetryRule = fixed,
    ) -> None:
        self._retry = retry  # the scheduler's
        self.stories: dict[JobId, Story] = {}
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
        # Jobs on each device; None until a second turn is given out, before which nobody shares.
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
        self._held: dict[JobId, set[str]] = {}  # why a job may not start

    def step(
        self,
        now: float,
        events: Sequence[Event],
        actions: Sequence[Action],
        *,
        free: int,
        head: int | None = None,
        held_back: Mapping[int, int] = _NOBODY,
        unfit: Mapping[int, int] = _NOBODY,
    ) -> None:
        """Take one step in. `free`: devices free after it; `head`: size of the job that blocks
        the queue, under policies in which nobody overtakes; `held_back`: jobs by asked size that
        wait for the sake of other tenants' shares; `unfit`: those that the cluster cannot hold."""
        if now > self._last_at:
            self._pass_time(now)
        for event in events:
            self._EVENTS[type(event)](self, event, now)
        if actions:
            lost = [event.node for event in events if isinstance(event, NodeLost)]
            for action in actions:
                self._ACTIONS[type(action)](self, action, now, lost)
            # Who starts overtakes those who still wait after this step, unless nobody may.
            if self._queued and head is None:
                for action in actions:
                    if isinstance(action, Start):
                        self._overtakes.start(self.stories[action.job].place)
        self._free, self._head, self._held_back, self._unfit = free, head, held_back, unfit
        self._note(now)

    def overtaken(self, job: JobId) -> int:
        """How often jobs that came later have started while this one waited, up to now."""
        story = self.stories[job]
        waits = story.waiting_since_at is not None
        return story.overtaken + (self._overtakes.after(story.place) if waits else 0)

    def close(self, now: float) -> None:
        """End the record at that moment; what runs is cut off."""
        if now > self._last_at:
            self._pass_time(now)
        for identity, story in self.stories.items():
            self._let_go(identity, story, now)
            self._stop_waiting(story, now)

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
        """Seconds that all jobs waited for that reason."""
        return sum(seconds for (why, _), seconds in self.wait_s.items() if why == cause)

    # -- time -----------------------------------------------------------------------------------

    _free = 0
    _head: int | None = None
    _held_back = _NOBODY
    _unfit = _NOBODY

    def _pass_time(self, now: float) -> None:
        past_s = now - self._last_at
        self._contention += past_s * self._unfinished
        self._last_at = now
        if not self._queued:
            return
        free, head = self._free, self._head
        causes = self._wait_s
        devices = causes["devices"]
        overtaken = causes["fragmentation"] if head is None else causes["order"]
        for size, count in self._waiting.items():
            if size > free:
                devices[size] += past_s * count
            else:
                overtaken[size] += past_s * count
        for size, count in self._unfit.items():
            if size <= free:
                # Not where they are: it is more devices that such a job waits for.
                overtaken[size] -= past_s * count
                devices[size] += past_s * count
        if head is not None and head <= free:
            # The job at the head is not behind anybody; it is stuck where it is.
            causes["order"][head] -= past_s
            causes["fragmentation"][head] += past_s
        for size, count in self._held_back.items():
            causes["fair share"][size] += past_s * count
            (devices if size > free else overtaken)[size] -= past_s * count

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
        # The user's moment counts, even where the engine looks only at round ends.
        story = Story(
            event.spec,
            event.spec.submit_at,
            place=self._overtakes.join(),
            contention=-self._contention,
        )
        self.stories[event.spec.id] = story
        self._unfinished += 1
        self._start_waiting(story, now)
        story.waiting_since_at = story.submitted_at

    def _observed(self, event: JobStarted | JobProgressed, now: float) -> None:
        story = self.stories[event.job]
        if story.allocation is None:
            return
        self._respeed(story, event.iterations_per_s)
        story.done, story.observed_at = event.iterations_done, now

    def _stopped(self, event: JobStopped, now: float) -> None:
        story = self.stories[event.job]
        self._fall_back(story, event.iterations_done, now)
        # A report that is older than the present start is of the hold before it.
        if story.allocation is not None and event.action >= story.attempt:
            self._let_go(event.job, story, now)
            self._start_waiting(story, now)

    def _failed(self, event: JobFailed, now: float) -> None:
        story = self.stories[event.job]
        if story.ended_at is not None:
            return  # Cancelled before the report came in.
        if event.job in self._cancelling:
            self._end(event.job, "cancelled", now)
            return
        story.failures += 1
        held = story.allocation
        size, nodes = (0, ()) if held is None else (held.size, held.nodes())
        self._fall_back(story, event.iterations_done, now)
        self._let_go(event.job, story, now)
        devices = () if held is None else tuple(map(str, held.devices))
        failure = Failure(story.spec, story.failures, event.reason, nodes, now, devices)
        retried = self._retry(failure).again
        self._note_failure(event, story, now, size=size, retried=retried)
        if retried:
            self._start_waiting(story, now)
        else:
            self._end(event.job, "failed", now)

    def _finished(self, event: JobFinished, now: float) -> None:
        self._end(event.job, "finished", now)

    def _cancelled(self, event: JobCancelled, now: float) -> None:
        story = self.stories.get(event.job)
        if story is None or story.ended_at is not None:
            return
        if story.allocation is None:
            self._end(event.job, "cancelled", now)
        else:
            self._cancelling.add(event.job)  # The stop that follows ends it.

    # -- orders ---------------------------------------------------------------------------------

    def _start(self, action: Start, now: float, lost: list[str]) -> None:  # noqa: ARG002
        story = self.stories[action.job]
        self._stop_waiting(story, now)
        story.starts += 1
        story.attempt = action.id
        story.status = "running"
        if story.first_start_at is None:
            story.first_start_at = now
        self._hold(story, action.allocation, now)

    def _change(self, action: Change, now: float, lost: list[str]) -> None:  # noqa: ARG002
        story = self.stories[action.job]
        before = story.allocation
        self._let_go(action.job, story, now)
        if before is not None and before.size != action.allocation.size:
            story.resizes += 1
        else:
            story.moves += 1
        self._hold(story, action.allocation, now)

    def _stop(self, action: Stop, now: float, lost: list[str]) -> None:
        story = self.stories.get(action.job)
        if story is None or story.allocation is None:
            return
        if action.job in self._cancelling:
            self._end(action.job, "cancelled", now)
            return
        if lost and not set(lost).isdisjoint(story.allocation.nodes()):
            story.interruptions += 1
        else:
            story.preemptions += 1
        self._let_go(action.job, story, now)
        self._start_waiting(story, now)

    # -- leaves ---------------------------------------------------------------------------------

    def _note_failure(
        self, event: JobFailed, story: Story, now: float, *, size: int, retried: bool
    ) -> None:
        ran_s, device_s = story.held_s - story.tried_s, story.service_s - story.tried_device_s
        story.tried_s, story.tried_device_s = story.held_s, story.service_s
        self.failures.append(
            FailedAttempt(
                event.job, now, event.reason, story.failures, size, ran_s, device_s, retried
            )
        )

    def _hold(self, story: Story, allocation: Allocation, now: float) -> None:
        story.allocation, story.held_since_at, story.begun = allocation, now, story.done
        self._running += 1
        if self._sharers is None and allocation.turn:
            others = (s.allocation for s in self.stories.values() if s is not story)
            self._sharers = Counter(d for held in others if held is not None for d in held.devices)
        if self._sharers is None:
            self._busy += len(allocation.devices)
        else:
            self._sharers.update(allocation.devices)
            self._busy = len(self._sharers)

    def _let_go(self, identity: JobId, story: Story, now: float) -> None:
        allocation = story.allocation
        if allocation is None:
            return
        begun, story.done = story.begun, story.iterations_at(now)
        story.observed_at = now
        held_s = now - story.held_since_at
        if held_s > 0.0:
            hold = Hold(identity, allocation, story.held_since_at, now, story.done - begun)
            story.last_hold = len(self.holds)
            self.holds.append(hold)
            story.held_s += held_s
            story.service_s += allocation.size * held_s
        if self._sharers is None:
            self._busy -= len(allocation.devices)
        else:
            for device in allocation.devices:
                self._sharers[device] -= 1
                if not self._sharers[device]:
                    del self._sharers[device]
            self._busy = len(self._sharers)
        self._running -= 1
        self._respeed(story, 0.0)
        story.allocation = None

    def _respeed(self, story: Story, speed: float) -> None:
        if speed == story.speed:
            return
        if self._speedup is not None:
            useful = self._speedup(story.spec, speed) if speed else 0.0
            self._useful += useful - story.useful
            story.useful = useful
            if not self._running:
                self._useful = 0.0  # rounding must not pile up
        story.speed = speed

    def _fall_back(self, story: Story, done: float, now: float) -> None:
        """Count work that is gone: what was done less what can be resumed from."""
        gone = story.iterations_at(now) - done
        if gone > 0:
            size = story.spec.asked if story.allocation is None else story.allocation.size
            story.lost_s += gone * story.spec.profile.iteration_s * size
            if self._speedup is not None:
                self.thrown_back.append((now, self._speedup(story.spec, gone)))
            if story.allocation is None and story.last_hold >= 0:
                hold = self.holds[story.last_hold]
                self.holds[story.last_hold] = hold._replace(iterations=hold.iterations - gone)
        story.done, story.observed_at = done, now

    def _start_waiting(self, story: Story, now: float) -> None:
        if story.waiting_since_at is not None or story.spec.id in self._held:
            return  # It was told to stop and failed before it could: it waits already.
        if story.starts:  # Nobody has come after a job that comes now.
            story.overtaken -= self._overtakes.after(story.place)
        story.status = "waiting"
        story.waiting_since_at = now
        self._waiting[story.spec.asked] += 1
        self._queued += 1

    def _stop_waiting(self, story: Story, now: float) -> None:
        if story.waiting_since_at is None:
            return
        waited_s = now - story.waiting_since_at
        story.waited_s += waited_s
        if waited_s:
            story.overtaken += self._overtakes.after(story.place)
            profile = story.spec.profile
            remaining_s = (story.spec.iterations - story.done) * profile.iteration_s * profile.size
            story.blocked += waited_s * waited_s / 2.0 / max(remaining_s, 1.0)
        story.waiting_since_at = None
        self._waiting[story.spec.asked] -= 1
        self._queued -= 1

    def _end(self, identity: JobId, status: str, now: float) -> None:
        story = self.stories[identity]
        if story.ended_at is not None:
            return
        self._let_go(identity, story, now)
        self._stop_waiting(story, now)
        story.status, story.ended_at = status, now
        story.contention += self._contention
        self._unfinished -= 1

    def _held_by(self, event: JobHeld, now: float) -> None:
        story = self.stories.get(event.job)
        if story is not None and story.ended_at is None:
            self._held.setdefault(event.job, set()).add(event.reason)
            self._stop_waiting(story, now)

    def _released(self, event: JobReleased, now: float) -> None:
        reasons = self._held.get(event.job, set())
        reasons.discard(event.reason)
        story = self.stories.get(event.job)
        waits = story is not None and story.allocation is None and story.ended_at is None
        if not reasons and self._held.pop(event.job, None) is not None and story and waits:
            self._start_waiting(story, now)

    def _updated(self, event: JobUpdated, now: float) -> None:
        story = self.stories.get(event.spec.id)
        if story is None or story.ended_at is not None:
            return
        waits = story.waiting_since_at is not None
        self._stop_waiting(story, now)
        story.done *= event.spec.iterations / story.spec.iterations
        story.spec = event.spec
        if waits:
            self._start_waiting(story, now)

    def _pass_over(self, event: Event, now: float) -> None:
        """Nodes and devices have no story of their own."""

    _EVENTS: Mapping[type, Callable[..., None]] = {
        JobSubmitted: _submitted,
        JobStarted: _observed,
        JobProgressed: _observed,
        JobStopped: _stopped,
        JobFailed: _failed,
        JobFinished: _finished,
        JobCancelled: _cancelled,
        NodeJoined: _pass_over,
        NodeLost: _pass_over,
        NodeDrained: _pass_over,
        DeviceClosed: _pass_over,
        DeviceOpened: _pass_over,
        JobHeld: _held_by,
        JobReleased: _released,
        JobUpdated: _updated,
    }
    _ACTIONS: Mapping[type, Callable[..., None]] = {Start: _start, Change: _change, Stop: _stop}
