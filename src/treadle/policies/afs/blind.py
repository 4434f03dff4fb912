"""AFS-P: AFS for jobs of unknown length (Hwang et al., NSDI'21).

Which jobs run: if every job's first step fits, all; otherwise in turns. A turn lasts a quantum of
holding devices, and jobs with fewer turns behind them go first.

Which jobs grow: the same inequality as AFS, but which job would end earlier is unknown, so it is
tried both ways round. A job that wins even in the worse role wins for certain. Where neither does,
the authors toss a coin; here the job with less attained service has it, which is the better guess
at "shorter" and gives the same answer every time.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId
from treadle.core.ports import PerformanceModel
from treadle.core.snapshot import Schedule, Snapshot
from treadle.core.waiting_by_kind import Waiting
from treadle.policies.afs.afs import Climbing
from treadle.policies.base.in_turn import InTurn
from treadle.policies.base.placement import Placement


class AfsBlind(Climbing):
    """AFS without knowing lengths: turns when not all fit, then the certain gains."""

    def __init__(
        self, placement: Placement, belief: PerformanceModel, *, quantum_s: float = 7200.0
    ) -> None:
        if not quantum_s > 0:
            raise InvalidInputError(f"afs-p quantum_s must be above 0, not {quantum_s:g}")
        super().__init__(placement, belief)
        self._quantum_s = quantum_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        now = snapshot.now

        def order(job: Job) -> tuple[float, ...]:
            return self._turns(job, now), not job.size, job.sequence

        in_want = self.with_room_for_all(snapshot)
        if in_want is not None:
            return self.largest_each(snapshot, in_want, order)
        runs, left, all_run = self._admitted(snapshot, order)
        sizes = {job.id: job.spec.sizes[0] for job in runs}
        until = inf
        if not all_run:
            until = min((self._turn_ends_at(job, now) for job in runs), default=inf)
        self._grow(runs, sizes, left, now)
        return self.schedule(snapshot, sizes, valid_until=until)

    def _admitted(
        self, snapshot: Snapshot, order: Callable[[Job], tuple[float, ...]]
    ) -> tuple[list[Job], int, bool]:
        """Jobs in order whose first step fits, what is then left, and whether these are all.

        A waiting job keeps its place, so the queue is not sorted again, and a smallest size that
        no longer fits is not looked at again.
        """
        jobs, left, runs = snapshot.jobs, snapshot.supply, list[Job]()

        def classified(waiting: Waiting) -> tuple[int, tuple[float, ...]]:
            job = jobs[waiting[2]]
            return job.spec.sizes[0], order(job)

        turns = InTurn[int](())
        for smallest, line in snapshot.ranking.by_kind(classified, self).items():
            turns.add((), line, smallest)
        active = len(snapshot.ranking.queue)
        for job in snapshot.holding():
            turns.add((), ((order(job), job.id),), job.spec.sizes[0])
            active += 1
        for identity, smallest in turns:
            if smallest > left:
                turns.done.add(smallest)
            else:
                left -= smallest
                runs.append(jobs[identity])
        return runs, left, len(runs) == active

    def _turns(self, job: Job, now: float) -> int:
        # A hair more, so that a turn which ends now has ended.
        return int(job.held_at(now) / self._quantum_s + 1e-9)

    def _turn_ends_at(self, job: Job, now: float) -> float:
        left_s = (self._turns(job, now) + 1) * self._quantum_s - job.held_at(now)
        return now + max(left_s, 1.0)

    def _grow(self, runs: Sequence[Job], sizes: dict[JobId, int], left: int, now: float) -> None:
        """Hand the rest out, each device to the winner of a scan."""
        steps = [step for job in runs for step in self._steps_from(job, 0, now)]
        while left and steps:
            place = 0
            for other, step in enumerate(steps):
                if step.beats(steps[place]):
                    place = other
            best, after = steps[place], list[_Step]()
            if best.devices <= left:
                left -= best.devices
                sizes[best.job.id] = best.size
                after = self._steps_from(best.job, best.rung + 1, now)
            steps[place : place + 1] = after

    def _steps_from(self, job: Job, rung: int, now: float) -> list["_Step"]:
        """The next step of a job up its ladder, if there is one."""
        ladder = self._ladders.of(job)
        if rung + 1 >= len(ladder.sizes):
            return []
        gains = ladder.gain_if_shorter[rung], ladder.gain_if_longer[rung]
        size = ladder.sizes[rung + 1]
        return [_Step(job, rung, size, size - ladder.sizes[rung], *gains, job.service_at(now))]


class _Step(NamedTuple):
    """A step of a job on its ladder, and what it gains in each role."""

    job: Job
    rung: int  # from which
    size: int  # after it
    devices: int  # that it takes
    shorter: float
    longer: float
    service_s: float

    def beats(self, champion: "_Step") -> bool:
        if self.longer >= champion.shorter:
            return True
        if champion.longer >= self.shorter:
            return False
        return self.service_s < champion.service_s
