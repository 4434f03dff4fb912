"""`treadle explain`: why a job waits or holds its devices at a moment of a simulation."""

import json
from typing import Any

import click

from treadle.cli.numbers import Number
from treadle.cli.show.progress_bar import Progress
from treadle.cli.study.options import (
    interactive,
    policy_option,
    read,
    run_options,
    settings,
    trace_options,
)
from treadle.core.errors import InvalidInputError
from treadle.core.numbers_in_words import Line
from treadle.core.sentences import details, sentence
from treadle.core.wording import devices, did_you_mean, duration, ordinal, several, share, times
from treadle.reports.run_history import JobHistory
from treadle.sim.experiment import Experiment, prepare
from treadle.traces.workload import Workload


@click.command()
@trace_options
@click.option(
    "--at",
    "at_s",
    type=Number(min=0),
    required=True,
    metavar="SECONDS",
    help="The moment, on the trace's clock.",
)
@click.option("--job", "identity", required=True, metavar="ID", help="The job's id in the trace.")
@policy_option
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(
    trace: str,
    cluster_text: str,
    oversize: str,
    at_s: float,
    identity: str,
    policy: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate TRACE up to a moment and explain the state of a job: why it waits or runs."""
    workload, cluster = read(trace, cluster_text, oversize)
    _check_job(workload, identity)
    chosen = settings(policy, options)
    experiment = prepare(workload, cluster, chosen)
    progress = Progress(len(workload.jobs), policy)
    if interactive() and not as_json:
        experiment.simulation.observe(progress)
    experiment.simulation.run(until=at_s)
    progress.done()
    facts = explanation(experiment, workload, identity, at_s)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    click.echo(f"job {identity} is {facts['state']} at {at_s:g} s under {policy}")
    click.echo(f"  {facts['because']}")
    for label, fact in facts["details"]:
        click.echo(f"  {label:<9} {fact}")


def explanation(
    experiment: Experiment, workload: Workload, identity: str, at_s: float
) -> dict[str, Any]:
    """The job's state, the code and numbers of the reason, a sentence and details."""
    scheduler = experiment.simulation.scheduler
    spec = next(job for job in workload.jobs if job.id == identity)
    facts: dict[str, Any] = {"job": identity, "at_s": at_s, "asks_for": spec.asked, "details": []}
    if identity in scheduler.jobs:
        reason = scheduler.why(identity, at_s)
        facts |= {
            "state": str(scheduler.jobs[identity].phase),
            "code": reason.code,
            "numbers": dict(reason.numbers),
            "because": sentence(reason),
            "details": [*details(reason), *_details(experiment, identity, at_s)],
        }
    elif identity not in experiment.recorder.histories:
        later = duration(spec.submit_at - at_s)
        because = f"submitted at {spec.submit_at:g} s, {later} later"
        facts |= {"state": "not submitted", "code": "not submitted", "because": because}
    else:
        story = experiment.recorder.histories[identity]
        facts |= {"state": story.status, "code": story.status, "because": _ended(story)}
    return facts


def _details(experiment: Experiment, identity: str, at_s: float) -> list[Line]:
    """The job's past, its place in the queue, and the cluster."""
    scheduler, recorder = experiment.simulation.scheduler, experiment.recorder
    job, story = scheduler.jobs[identity], recorder.histories[identity]
    past = [f"{duration(at_s - story.submitted_at)} ago"]
    if story.preemptions:
        past.append(f"preempted {times(story.preemptions)}")
    if overtaken := recorder.overtaken(identity):
        past.append(several(overtaken, "later job started first", "later jobs started first"))
    lines = [("submitted", ", ".join(past))]
    waiting = len(scheduler.ranking.queue)
    if job.allocation is None and identity in scheduler.ranking:
        place = scheduler.ranking.ahead_of(identity) + 1
        lines.append(("queue", f"{ordinal(place)} of {waiting:,}"))
    if job.allocation is not None:
        lines.append(("done", share(job.iterations_at(at_s) / job.spec.iterations)))
    running = sum(1 for other in scheduler.jobs.values() if other.allocation is not None)
    free, total = scheduler.tenancy.free.total, scheduler.cluster.device_count
    lines.append(
        ("cluster", f"{running:,} running, {waiting:,} waiting, {free:,} of {devices(total)} free")
    )
    return lines


def _ended(story: JobHistory) -> str:
    assert story.ended_at is not None, "a job that is neither active nor still to come has ended"
    took = duration(story.ended_at - story.submitted_at)
    return (
        f"{story.status} at {story.ended_at:g} s, {took} after it was submitted, "
        f"{duration(story.waited_s)} of them waiting"
    )


def _check_job(workload: Workload, identity: str) -> None:
    known = {job.id for job in workload.jobs}
    if identity not in known:
        hint = did_you_mean(identity, known)
        raise InvalidInputError(f"{workload.source} has no job {identity!r}{hint}")
