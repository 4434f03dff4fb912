"""The record of a trace that says when, and perhaps where, its jobs ran.

Of several attempts of a job all but the last failed, or there would have been no retry. The last
one has the status that the trace gives for the job. Traces do not say why jobs waited or failed,
or how far they got.
"""

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from operator import itemgetter
from typing import NamedTuple

from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import Event, JobCancelled, JobFailed, JobFinished, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.retry import Answer, Failure
from treadle.reports.recorder import Recorder
from treadle.study.record import NOWHERE, Record
from treadle.traces.workload import Ran, Workload

_FAILED = {"unsuccessful", "failed"}
_STOPPED = {"killed", "cancelled"}


class _Fact(NamedTuple):
    """What happened at a moment."""

    at: float
    number: int  # makes the order of facts at the same time deterministic
    event: Event | None
    action: Action | None


def as_recorded(workload: Workload) -> Record:
    """The record of the jobs with known runs."""
    known = ((job, _in_order(job, workload.runs.get(job.id, ()))) for job in workload.jobs)
    runs = {job.id: attempts for job, attempts in known if attempts}
    jobs = tuple(job for job in workload.jobs if job.id in runs)
    if not jobs:
        raise InvalidInputError(f"{workload.source} does not say when its jobs ran")

    def again(failure: Failure) -> Answer:
        return Answer(failure.number < len(runs[failure.spec.id]))

    recorder = Recorder(retry=again)
    numbers = count()
    ends = workload.statuses
    facts = sorted(
        fact for job in jobs for fact in _facts(job, runs[job.id], ends.get(job.id, ""), numbers)
    )
    for at, group in groupby(facts, key=itemgetter(0)):
        together = list(group)
        events = [fact.event for fact in together if fact.event is not None]
        actions = [fact.action for fact in together if fact.action is not None]
        recorder.step(at, events, actions, free=0)
    recorder.close(facts[-1].at)
    left_out = len(workload.jobs) - len(jobs)
    note = f"{left_out:,} jobs do not say when they ran and are left out"
    return Record(
        how="as the trace records it",
        workload=workload,
        cluster=Cluster(()),
        recorder=recorder,
        statuses=ends,
        has_causes=False,
        has_cluster=False,
        has_progress=False,
        notes=(*workload.notes, *((note,) if left_out else ())),
    )


def _facts(
    job: JobSpec, attempts: Sequence[Ran], status: str, numbers: Iterator[int]
) -> Iterator[_Fact]:
    yield _Fact(job.submit_at, next(numbers), JobSubmitted(job), None)
    for place, ran in enumerate(attempts, start=1):
        number = next(numbers)
        yield _Fact(ran.from_at, number, None, Start(number, job.id, _allocation(job, ran)))
        if place < len(attempts) or status in _FAILED:
            yield _Fact(ran.to_at, next(numbers), JobFailed(job.id, number, 0.0), None)
        elif status in _STOPPED:
            stop = next(numbers)
            yield _Fact(ran.to_at, stop, JobCancelled(job.id), Stop(stop, job.id))
        else:
            yield _Fact(ran.to_at, next(numbers), JobFinished(job.id, number), None)


def _allocation(job: JobSpec, ran: Ran) -> Allocation:
    """The devices of an attempt; if its nodes are not recorded, the asked number on no node."""
    nodes = ran.nodes or ((NOWHERE, job.asked),)
    return Allocation(tuple(Device(name, n) for name, devices in nodes for n in range(devices)))


def _in_order(job: JobSpec, attempts: Sequence[Ran]) -> list[Ran]:
    """Attempts in sequence, none before the submission, because clocks in logs disagree."""
    found: list[Ran] = []
    free_at = job.submit_at
    for ran in attempts:
        from_at = max(ran.from_at, free_at)
        if ran.to_at > from_at:
            found.append(ran._replace(from_at=from_at))
            free_at = ran.to_at
    return found
