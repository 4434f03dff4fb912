"""A snapshot of a live scheduler, simulated to its end as things are, and as they might be.

The server runs this file as a process of its own (control/api/what_if.py): a simulation takes
seconds of the processor, and in the server's process it would take every other turn from its
event loop. `treadle what-if FILE` calls it directly.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import msgspec

from treadle.control.loop import belief_on, worked_for
from treadle.core.actions import Action, Stop
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.events import Event, JobCancelled, JobFailed, JobFinished, JobStopped
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.state import Counters, Kept
from treadle.core.wording import named_jobs, several
from treadle.policies.base.placement import placement
from treadle.policies.live.naming import wrapped
from treadle.policies.registry import policy
from treadle.reports.metrics import mean
from treadle.sim.run import Simulation
from treadle.sim.start_estimate import LiveStateEngine, World
from treadle.traces.clusters import cluster as cluster_of
from treadle.wire.what_if import Outcome, WhatIf, WhatIfJob, WhatIfRequest, WhatIfSpell

JOBS_MAX = 2000
SPELLS_MAX = 5000
WITHIN_S = 10.0  # of the processor, for each of the two simulations
HORIZON_S = 90 * 86_400.0
NAMED_MAX = 4


class _Row(msgspec.Struct):
    job: dict[str, Any]
    held: tuple[str, ...] = ()


class Known(msgspec.Struct):
    """What the server knows of a job beside its row."""

    name: str = ""
    left_s: float | None = None  # with the devices that it has or asks for; None: not known


class SnapshotFile(msgspec.Struct):
    """What `treadle snapshot` prints; `wall_at` and `known` are there only for the server's own."""

    at: float
    policy: str
    placement: str
    cluster: tuple[Node, ...]
    jobs: list[_Row]
    drained: tuple[Node, ...] = ()  # not in the cluster; jobs run on there
    closed: dict[str, str] = {}
    wall_at: float = 0.0
    known: dict[str, Known] | None = None


class Question(msgspec.Struct):
    snapshot: SnapshotFile
    asked: WhatIfRequest


@dataclass(slots=True)
class _Run:
    """What one simulation came to."""

    ends: dict[JobId, float] = field(default_factory=dict)  # seconds from now
    spells: list[WhatIfSpell] = field(default_factory=list)
    cut: bool = False


def read_snapshot(name: str, text: bytes) -> SnapshotFile:
    try:
        return msgspec.json.decode(text, type=SnapshotFile)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"{name} is no snapshot of treadle: {error}") from None


def what_if(snapshot: SnapshotFile, asked: WhatIfRequest) -> WhatIf:
    """Both simulations, job by job."""
    rows = [_job(row) for row in snapshot.jobs]
    unknown = [name for name in asked.without if name not in {row.id for row in rows}]
    if unknown:
        raise InvalidInputError(f"{named_jobs(unknown, NAMED_MAX)}: there is none in the snapshot")
    blocked = {job.id for job, row in zip(rows, snapshot.jobs, strict=True) if row.held}
    kept = [job for job in rows if job.id not in blocked and job.phase is not Phase.CANCELLING]
    if len(kept) > JOBS_MAX:
        raise InvalidInputError(f"{len(kept):,} jobs are too many to simulate, beyond {JOBS_MAX:,}")
    here = Cluster(snapshot.cluster)
    there = _like(here, cluster_of(asked.cluster)) if asked.cluster else here
    others = [job for job in kept if job.id not in asked.without]
    if asked.cluster:
        others = [_anew(job) for job in others]
    now_policy = snapshot.policy
    then_policy = wrapped(asked.policy) if asked.policy else now_policy
    now = _simulated(snapshot, now_policy, here, kept)
    then = _simulated(snapshot, then_policy, there, others)
    known = snapshot.known or {}
    assumed = {job.id for job in kept if (k := known.get(job.id)) is None or k.left_s is None}
    both = now.ends.keys() & then.ends.keys()
    jobs = tuple(
        WhatIfJob(
            job=job.id,
            name=known[job.id].name if job.id in known else "",
            user=job.spec.owner,
            now_s=_rounded(now.ends.get(job.id)),
            then_s=_rounded(then.ends.get(job.id)),
            assumed=job.id in assumed,
        )
        for job in kept
    )
    return WhatIf(
        at=snapshot.wall_at,
        now=outcome(now_policy, _shape(here), now.ends, both, len(kept)),
        then=outcome(then_policy, _shape(there), then.ends, both, len(others)),
        jobs=jobs,
        spells_now=tuple(now.spells),
        spells_then=tuple(then.spells),
        notes=(
            *compared_note(len(both), len(now.ends), len(then.ends)),
            *unended_note(jobs, asked.without),
            *_notes(snapshot, asked, kept, blocked, assumed, [now, then]),
        ),
    )


def compared_note(both: int, *ended: int) -> list[str]:
    """Of how many jobs times are compared, if others end in only one of the simulations."""
    if max(ended) == both:
        return []
    which = several(both, "job that ends", "jobs that end")
    return [f"times are compared of the {which} in both simulations"]


def unended_note(jobs: Iterable[WhatIfJob], without: Collection[JobId] = ()) -> list[str]:
    """How many jobs have no end in one of the simulations, beside those that are left out of it."""
    count = sum(None in (job.now_s, job.then_s) for job in jobs if job.job not in without)
    if not count:
        return []
    end = "does not end" if count == 1 else "do not end"
    return [f"{several(count, 'job')} {end} in a simulation: - stands for when"]


def _notes(
    snapshot: SnapshotFile,
    asked: WhatIfRequest,
    kept: Sequence[Job],
    blocked: Collection[JobId],
    assumed: Collection[JobId],
    runs: Sequence[_Run],
) -> list[str]:
    found = ["no new jobs are assumed to come"]
    if assumed:
        guesses = sorted(
            job.remaining_at(snapshot.at) / _speed(job) for job in kept if job.id in assumed
        )
        middle = guesses[len(guesses) // 2]
        found.append(
            f"how long {several(len(assumed), 'job')} will run is not known: what the scheduler "
            f"assumes is taken, {middle:.0f} s in the middle"
        )
    if blocked:
        found.append(f"{several(len(blocked), 'job')} held or waiting for others: left out")
    if asked.cluster and snapshot.cluster:
        found.append(
            f"the other machines are like {snapshot.cluster[0].name}; on them every job waits at "
            "first and goes on from what it has done"
        )
    if asked.policy or asked.cluster:
        found.append("speeds at sizes that were not measured, and beside other jobs, are modelled")
    if any(run.cut for run in runs):
        found.append("a simulation was ended at its limit of time or length")
    return found


def _job(row: _Row) -> Job:
    """A row as the scheduler has it; the snapshot names its fields."""
    try:
        return msgspec.convert([row.job[name] for name in Job._fields], Job)
    except (KeyError, msgspec.ValidationError) as error:
        raise InvalidInputError(f"a job of the snapshot cannot be read: {error}") from None


def _like(here: Cluster, counted: Cluster) -> Cluster:
    """As many nodes and devices, of the kind of the first node here."""
    if not here.nodes:
        return counted
    kind = here.nodes[0]
    return Cluster(
        tuple(
            replace(kind, name=node.name, device_count=node.device_count) for node in counted.nodes
        )
    )


def _anew(job: Job) -> Job:
    """It waits, with the work that it has done."""
    return job._replace(phase=Phase.WAITING, allocation=None, iterations_per_s=0.0)


def _speed(job: Job) -> float:
    return job.iterations_per_s or 1.0 / job.spec.profile.iteration_s


def _simulated(snapshot: SnapshotFile, name: str, cluster: Cluster, jobs: Sequence[Job]) -> _Run:
    now = snapshot.at
    drained = [node for node in snapshot.drained if node.name not in cluster.names]
    everywhere = Cluster((*cluster.nodes, *drained))
    belief = belief_on(everywhere)
    made = policy(name, placement(snapshot.placement), belief)
    scheduler = Scheduler(made, cluster)
    there = {str(d): d for node in cluster.nodes for d in _devices(node)}
    closed = {there[text]: why for text, why in snapshot.closed.items() if text in there}
    counters = Counters(
        1 + max((job.action for job in jobs), default=0),
        1 + max((job.sequence for job in jobs), default=0),
    )
    kept = [Kept(_settled(job, everywhere)) for job in jobs]
    scheduler.restore(kept, closed, counters, now, drained)
    scheduler.wake_at = now  # The policy decides first, even if nothing runs that could end.
    known = snapshot.known or {}
    left = {job: k.left_s for job, k in known.items() if k.left_s is not None}
    engine = LiveStateEngine(scheduler, belief, now=now, world=World(left))
    watch = _Watch(jobs, now)
    with suppress(_LimitReached):
        Simulation(scheduler, engine, observers=(watch,)).run(until=now + HORIZON_S)
    return watch.close()


def _settled(job: Job, cluster: Cluster) -> Job:
    """One that is being stopped has left by then; one whose node is gone waits."""
    lost = job.allocation is not None and not cluster.names.issuperset(job.allocation.nodes())
    return _anew(job) if lost or job.phase is Phase.STOPPING else job


def _devices(node: Node) -> list[Device]:
    return [Device(node.name, number) for number in range(node.device_count)]


class _LimitReached(Exception):  # noqa: N818  # Not an error.
    pass


class _Watch:
    """Follows a simulation until all have ended, or its time is over."""

    def __init__(self, jobs: Sequence[Job], now: float) -> None:
        self.run = _Run()
        self._now = now
        self._spent = worked_for(WITHIN_S)
        self._left = {job.id for job in jobs}
        self._held = {
            job.id: (now, tuple(map(str, job.allocation.devices)))
            for job in jobs
            if job.allocation is not None and not job.allocation.paused
        }

    def __call__(
        self,
        at: float,
        events: Sequence[Event],
        actions: Sequence[Action],
        scheduler: Scheduler,  # noqa: ARG002
    ) -> None:
        for event in events:
            if isinstance(event, JobFinished | JobFailed | JobCancelled | JobStopped):
                self._leave(event.job, at)
            if isinstance(event, JobFinished):
                self.run.ends[event.job] = at - self._now
                self._left.discard(event.job)
        for action in actions:
            self._leave(action.job, at)
            if not isinstance(action, Stop) and not action.allocation.paused:
                self._held[action.job] = (at, tuple(map(str, action.allocation.devices)))
        if not self._left or self._spent():
            raise _LimitReached

    def close(self) -> _Run:
        """What it came to; of jobs that have not ended it is not known for how much longer."""
        self.run.cut = bool(self._held)
        last_at = self._now + max(self.run.ends.values(), default=HORIZON_S)
        for job in list(self._held):
            self._leave(job, last_at)
        return self.run

    def _leave(self, job: JobId, at: float) -> None:
        hold = self._held.pop(job, None)
        if hold is None or at <= hold[0] or len(self.run.spells) >= SPELLS_MAX:
            return
        from_s, to_s = round(hold[0] - self._now, 3), round(at - self._now, 3)
        spell = WhatIfSpell(job=job, devices=hold[1], from_s=from_s, to_s=to_s)
        self.run.spells.append(spell)


def outcome(
    name: str,
    cluster: str,
    ends: Mapping[JobId, float],
    both: Collection[JobId],
    jobs: int,
    *,
    from_now: bool = True,
) -> Outcome:
    """both: the jobs that end in this simulation and in the other one.

    from_now: ends count from one moment, and not from each job's submission.
    """
    ordered = sorted(ends[job] for job in both)
    return Outcome(
        policy=name,
        cluster=cluster,
        jobs=jobs,
        ended=len(ends),
        mean_completion_s=_rounded(mean(ordered)),
        p90_completion_s=_rounded(ordered[int(0.9 * (len(ordered) - 1) + 0.5)] if both else None),
        makespan_s=_rounded(ordered[-1]) if both and len(ends) == jobs and from_now else None,
    )


def _shape(cluster: Cluster) -> str:
    counts: dict[int, int] = {}
    for node in cluster.nodes:
        counts[node.device_count] = counts.get(node.device_count, 0) + 1
    return "+".join(f"{count}x{size}" for size, count in counts.items())


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None or seconds == inf else round(seconds, 3)


def main() -> None:
    """A question on standard input; the answer, or what is wrong with it, on standard output."""
    answer: Mapping[str, object]
    try:
        question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
        answer = {"found": what_if(question.snapshot, question.asked)}
    except TreadleError as error:
        answer = {"error": str(error)}
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
