"""Add a run up as it goes: the history of each job, who held what, the cluster over time.

It is told of each moment: `pass_time`, what happens to jobs, `note`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobId, JobSpec
from treadle.core.scheduler import Scheduler
from treadle.reports.overtakes import Overtakes
from treadle.reports.run_history import Hold, JobHistory, Series

WAIT_CAUSES = ("devices", "fragmentation", "order", "fair share")
NO_JOBS: Mapping[int, int] = {}


def standing(scheduler: Scheduler) -> tuple[int, int, int | None, Mapping[int, int]]:
    """What `Bookkeeping.note` asks of a scheduler: free, room, head, unfit."""
    jobs, head, unfit = scheduler.rows, None, NO_JOBS
    if scheduler.policy.in_order and scheduler.ranking.queue:
        head = jobs[scheduler.ranking.queue[0][2]].spec.asked
    if scheduler.unfit:
        unfit = Counter(jobs[identity].spec.asked for identity in scheduler.unfit)
    free = scheduler.tenancy.free
    return free.total, free.most_on_a_node(), head, unfit


class Bookkeeping:
    """Histories, holds and series of a run; `close` ends what is still open."""

    def __init__(self, speedup: Callable[[JobSpec, float], float] | None = None) -> None:
        """speedup: of a job at a speed, over one device."""
        self.histories: dict[JobId, JobHistory] = {}
        self.holds: list[Hold] = []
        self.series = Series()
        # Seconds that jobs of a size waited, by cause.
        self._wait_s: dict[str, defaultdict[int, float]] = {
            cause: defaultdict(float) for cause in WAIT_CAUSES
        }
        self._speedup = speedup
        self._busy = 0  # devices with a job
        # Jobs on each device; None until a second turn is assigned: until then no job shares.
        self._sharers: Counter[Device] | None = None
        self._waiting: Counter[int] = Counter()  # jobs by asked size
        self._queued = 0  # their sum
        self._running = 0
        self._useful = 0.0
        self._unfinished = 0
        self._contention = 0.0  # integral of unfinished jobs
        self._last_at = 0.0
        self._noted_at: float | None = None
        self._overtakes = Overtakes()
        # As `note` was told last.
        self._free = 0
        self._room: int | None = None
        self._head: int | None = None
        self._held_back = self._unfit = NO_JOBS

    def overtaken(self, job: JobId) -> int:
        """How many later jobs have started while this one waited, up to now."""
        history = self.histories[job]
        waits = history.waiting_since_at is not None
        return history.overtaken + (self._overtakes.after(history.place) if waits else 0)

    def close(self, now: float) -> None:
        """End the record at that moment; running jobs are cut off."""
        self.pass_time(now)
        for history in self.histories.values():
            self.leave(history, now)
            self.wait_no_more(history, now)

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

    # -- moments --------------------------------------------------------------------------------

    def pass_time(self, now: float) -> None:
        past_s = now - self._last_at
        if past_s > 0.0:
            self._contention += past_s * self._unfinished
            self._last_at = now
            if self._queued:
                self._count_waits(past_s)

    def _count_waits(self, past_s: float) -> None:
        """Count the time that jobs waited, by cause."""
        free, room, head = self._free, self._room, self._head
        held_back, unfit = self._held_back, self._unfit
        lack, fragmentation, order, fair_share = self._wait_s.values()
        for size, count in self._waiting.items():
            if not count:
                continue
            if held_back and (others := min(held_back.get(size, 0), count)):
                fair_share[size] += past_s * others
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
            fragmentation[size] += past_s * lacking
            order[size] += past_s * (count - lacking)

    def note(
        self,
        now: float,
        *,
        free: int,
        room: int | None = None,
        head: int | None = None,
        held_back: Mapping[int, int] = NO_JOBS,
        unfit: Mapping[int, int] = NO_JOBS,
    ) -> None:
        """How things stand after this moment. `free`: devices. `room`: the most of them on one
        node. `head`: size of the job that blocks the queue, under policies without overtaking.
        `held_back`: jobs by asked size that wait because of other tenants' shares. `unfit`: jobs
        that the cluster cannot hold."""
        self._free, self._room, self._head = free, room, head
        self._held_back, self._unfit = held_back, unfit
        series = self.series
        if now == self._noted_at:
            series.busy[-1] = self._busy
            series.waiting[-1] = self._queued
            series.running[-1] = self._running
            series.useful[-1] = self._useful
            return
        self._noted_at = now
        series.at.append(now)
        series.busy.append(self._busy)
        series.waiting.append(self._queued)
        series.running.append(self._running)
        series.useful.append(self._useful)

    # -- what happens to jobs -------------------------------------------------------------------

    def arrive(self, spec: JobSpec) -> JobHistory:
        """A new job, which does not wait yet."""
        history = self.histories[spec.id] = JobHistory(
            spec,
            # The submission time counts, even if the engine looks only at the end of rounds.
            spec.submit_at,
            place=self._overtakes.join(),
            contention=-self._contention,
        )
        self._unfinished += 1
        return history

    def wait(self, history: JobHistory, now: float) -> None:
        if history.waiting_since_at is not None:
            return
        if history.starts:  # No job has arrived after a new one.
            history.overtaken -= self._overtakes.after(history.place)
        history.status = "waiting"
        history.waiting_since_at = now
        self._waiting[history.spec.asked] += 1
        self._queued += 1

    def wait_no_more(self, history: JobHistory, now: float) -> None:
        since_at = history.waiting_since_at
        if since_at is None:
            return
        if waited_s := now - since_at:
            history.waited_s += waited_s
            history.overtaken += self._overtakes.after(history.place)
            spec = history.spec
            profile = spec.profile
            remaining_s = (spec.iterations - history.done) * profile.iteration_s * profile.size
            history.blocking += waited_s * waited_s / 2.0 / max(remaining_s, 1.0)
        history.waiting_since_at = None
        self._waiting[history.spec.asked] -= 1
        self._queued -= 1

    def start(self, history: JobHistory, allocation: Allocation, action: int, now: float) -> None:
        self.wait_no_more(history, now)
        history.starts += 1
        history.attempt = action
        history.status = "running"
        if history.first_start_at is None:
            history.first_start_at = now
        self.hold(history, allocation, now)

    def overtake(self, started: Iterable[JobId]) -> None:
        """Jobs that still wait, if the policy allows it, were overtaken by these if they came
        later."""
        for identity in started if self._queued else ():
            self._overtakes.start(self.histories[identity].place)

    def change(self, history: JobHistory, allocation: Allocation, now: float) -> None:
        """It holds other devices, or is to."""
        before = history.allocation
        self.leave(history, now)
        if allocation.paused:
            history.pauses += before is not None
            self.wait(history, now)
            return
        if before is None:  # It was paused.
            self.wait_no_more(history, now)
            history.status = "running"
        elif before.size != allocation.size:
            history.resizes += 1
        else:
            history.moves += 1
        self.hold(history, allocation, now)

    def run(self, history: JobHistory, done: float, speed: float, now: float) -> None:
        """It has done so much and goes on at that speed."""
        self._respeed(history, speed)
        history.done, history.observed_at = done, now

    def hold(self, history: JobHistory, allocation: Allocation, now: float) -> None:
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

    def leave(self, history: JobHistory, now: float) -> None:
        """It holds nothing any more."""
        allocation = history.allocation
        if allocation is None:
            return
        begun, history.done = history.begun, history.iterations_at(now)
        history.observed_at = now
        since_at, size = history.held_since_at, len(allocation.devices)
        held_s = now - since_at
        if held_s > 0.0:
            hold = Hold(history.spec.id, allocation, since_at, now, history.done - begun)
            history.last_hold = len(self.holds)
            self.holds.append(hold)
            history.held_s += held_s
            history.service_s += size * held_s
        if self._sharers is None:
            self._busy -= size
        else:
            for device in allocation.devices:
                self._sharers[device] -= 1
                if not self._sharers[device]:
                    del self._sharers[device]
            self._busy = len(self._sharers)
        self._running -= 1
        self._respeed(history, 0.0)
        history.allocation = None

    def end(self, history: JobHistory, status: str, now: float) -> None:
        if history.ended_at is not None:
            return
        self.leave(history, now)
        self.wait_no_more(history, now)
        history.status, history.ended_at = status, now
        history.contention += self._contention
        self._unfinished -= 1

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
