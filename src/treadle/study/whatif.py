"""A recorded live run, simulated under another policy.

Every job of the record becomes a simulated job with the same submission time and the observed
length at each size. The length at a size comes from the progress reports at that size, or from the
run itself if there was only one size. The rest of its time is its restart cost.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from treadle.core.actions import Stop
from treadle.core.events import (
    Event,
    JobFailed,
    JobFinished,
    JobPaused,
    JobProgressed,
    JobsLearned,
    JobStarted,
    JobStopped,
    JobSubmitted,
    JobUpdated,
)
from treadle.core.job import JobId, JobSpec, Profile
from treadle.core.ports import Policy
from treadle.journal.journal import Journal
from treadle.models.learning.curves import SERIAL
from treadle.models.learning.speeds import Speeds
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.study.own_orders import CLOSE, AsOrdered
from treadle.traces.workload import Workload


@dataclass(slots=True)
class Seen:
    """What a record says about one job."""

    spec: JobSpec
    submitted_at: float
    live: bool = False  # of a live run, where speeds are assumed until they are measured
    size: int = 0  # of the newest order
    begun_at: float | None = None  # of the present attempt's processes
    share: float = 0.0  # of the work that is done
    lengths: Speeds = field(default_factory=Speeds)  # by its progress
    ran: list[tuple[int, float, float]] = field(default_factory=list)  # size, seconds, share
    first_at: float | None = None  # its first start
    ended_at: float | None = None
    finished: bool = False


def observed(journal: Journal) -> dict[JobId, Seen]:
    """Every job of a record."""
    seen: dict[JobId, Seen] = {}
    for step in journal.steps:
        for event in step.events:
            _take(seen, event, step.now)
        for action in step.actions:
            job = seen[action.job]
            if not isinstance(action, Stop):
                _close(job, step.now, job.share)
                job.size = action.allocation.size
    return seen


def workload_of(journal: Journal, name: str = "recorded") -> Workload:
    """The jobs that finished, as they were observed."""
    jobs = [_spec(job) for job in observed(journal).values() if job.finished]
    return Workload.of(name, jobs)


class Lived(NamedTuple):
    """A job that finished, in seconds."""

    completion_s: float  # from its submission to its end
    run_s: float  # from its first start to its end


def simulated(journal: Journal, policy: str, made: Policy | None = None) -> dict[JobId, Lived]:
    """The finished jobs of a record under that policy."""
    workload = workload_of(journal)
    settings = Settings(policy=policy, restart_cost="profile", restart_charge="starts")
    # CPU slots are ordinary devices here: jobs on them were measured on them.
    cluster = replace(
        journal.opened.cluster,
        nodes=tuple(replace(node, device_type="gpu") for node in journal.opened.cluster.nodes),
    )
    experiment = prepare(workload, cluster, settings, made=made)
    experiment.finish()
    return {
        name: Lived(history.ended_at - history.submitted_at, history.ended_at - first_at)
        for name, history in experiment.recorder.histories.items()
        if history.ended_at is not None and (first_at := history.first_start_at) is not None
    }


def with_own_orders(journal: Journal) -> dict[JobId, Lived]:
    """The same under the orders of the run itself, which says how true the model is."""
    return simulated(journal, "as recorded", AsOrdered(journal))


def recorded(journal: Journal) -> dict[JobId, Lived]:
    """The finished jobs as recorded."""
    return {
        name: Lived(job.ended_at - job.submitted_at, job.ended_at - job.first_at)
        for name, job in observed(journal).items()
        if job.finished and job.ended_at is not None and job.first_at is not None
    }


def contradicted(before: Mapping[JobId, Lived], largest: Mapping[JobId, Lived]) -> JobId | None:
    """A job that is said to run longer with its largest size throughout than it did with less.

    Its speeds were measured too briefly, or it is slower on more devices: either way nothing that
    rests on them can be believed.
    """
    for name, lived in before.items():
        if name in largest and largest[name].run_s > (1.0 + CLOSE) * lived.run_s:
            return name
    return None


def _take(seen: dict[JobId, Seen], event: Event, now: float) -> None:
    match event:
        case JobSubmitted(spec):
            seen[spec.id] = Seen(spec, now)
        case JobUpdated(spec):
            seen[spec.id].spec = spec
        case JobsLearned(jobs):
            for name in jobs:
                seen[name].spec = event.applied(seen[name].spec)
        case JobStarted(name):
            _started(seen[name], event, now)
        case JobProgressed(name):
            _progressed(seen[name], event)
        case JobPaused(name):
            _close(seen[name], now, seen[name].share)
        case JobStopped(name, _, done) | JobFailed(name, _, done):
            job = seen[name]
            _close(job, now, done / job.spec.iterations)
            job.ended_at = now if isinstance(event, JobFailed) else job.ended_at
        case JobFinished(name):
            job = seen[name]
            _close(job, now, 1.0)
            job.ended_at, job.finished = now, True
        case _:
            pass


def _started(job: Seen, event: JobStarted, now: float) -> None:
    """A simulated attempt says how far the job is and how fast it goes; a live one assumes it."""
    job.begun_at, job.live = now, event.attempt > 0
    job.first_at = now if job.first_at is None else job.first_at
    if job.live:
        return
    job.share = event.iterations_done / job.spec.iterations
    if job.ran:
        size, seconds, _ = job.ran[-1]
        before = sum(part for _, _, part in job.ran[:-1])
        job.ran[-1] = (size, seconds, max(0.0, job.share - before))
    if event.iterations_per_s > 0:
        job.lengths.add(job.size, job.spec.iterations / event.iterations_per_s)


def _progressed(job: Seen, event: JobProgressed) -> None:
    """How long the whole job takes at this size, if that was measured.

    Live, a report whose job has not said enough carries the speed that was assumed of it.
    """
    said = event.progress
    if said is None and job.live:
        return
    job.share = event.iterations_done / job.spec.iterations if said is None else said.share
    per_s = event.iterations_per_s / job.spec.iterations if said is None else said.share_per_s
    if per_s:
        job.lengths.add(job.size, 1.0 / per_s)


def _close(job: Seen, now: float, share: float) -> None:
    """Record the end of an attempt and the share of work done."""
    if job.begun_at is None:
        return
    before = sum(part for _, _, part in job.ran)
    job.ran.append((job.size, now - job.begun_at, max(0.0, share - before)))
    job.share, job.begun_at = share, None


def _spec(job: Seen) -> JobSpec:
    """The job as observed: its length by size, and its restart cost."""
    spec = job.spec
    sizes = {size for size, _, _ in job.ran}
    lengths, restart_s = job.lengths, 0.0
    if len(job.ran) == 1 or not lengths.by_size:
        lengths = Speeds()
        by_size: dict[int, float] = defaultdict(float)
        for size, seconds, _ in job.ran:
            by_size[size] += seconds
        share = {size: sum(part for s, _, part in job.ran if s == size) or 1.0 for size in sizes}
        for size, seconds in by_size.items():
            lengths.add(size, max(1e-3, seconds / share[size]))
    else:
        spent_s = sum(seconds for _, seconds, _ in job.ran)
        needed_s = sum(part * lengths.seconds(size) for size, _, part in job.ran)
        restart_s = max(0.0, spent_s - needed_s) / len(job.ran)
    profile = Profile(
        size=spec.asked,
        serial=SERIAL,
        restart_s=restart_s,
        model=spec.profile.model,
        curve=lengths.curve.carried((spec.asked, *spec.sizes)),
    )
    return replace(
        spec,
        iterations=lengths.seconds(spec.asked),
        profile=profile,
        submit_at=job.submitted_at,
        device_types=(),
    )
