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
from treadle.core.sentences import sentence
from treadle.core.wording import did_you_mean, duration, listed, several, times
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
    click.echo(f"job {identity} at {at_s:g} s under {policy}: {facts['state']}")
    click.echo(f"  {facts['because']}")
    for line in facts["details"]:
        click.echo(f"  {line}")


def explanation(
    experiment: Experiment, workload: Workload, identity: str, at_s: float
) -> dict[str, Any]:
    """The job's state, its cause, a sentence and details."""
    scheduler = experiment.simulation.scheduler
    spec = next(job for job in workload.jobs if job.id == identity)
    facts: dict[str, Any] = {"job": identity, "at_s": at_s, "asks_for": spec.asked, "details": []}
    if identity in scheduler.jobs:
        reason = scheduler.why(identity, at_s)
        facts |= {
            "state": str(scheduler.jobs[identity].phase),
            "code": reason.code,
            "because": sentence(reason),
            "details": _details(experiment, identity, at_s),
        }
    elif identity not in experiment.recorder.histories:
        later = duration(spec.submit_at - at_s)
        facts |= {
            "state": "not submitted",
            "code": "not submitted",
            "because": f"it is submitted at {spec.submit_at:g} s, {later} later",
        }
    else:
        story = experiment.recorder.histories[identity]
        facts |= {"state": story.status, "code": story.status, "because": _ended(story)}
    return facts


def _details(experiment: Experiment, identity: str, at_s: float) -> list[str]:
    """The job's past, the jobs ahead of it, the free devices, and advice if there is any."""
    scheduler, recorder = experiment.simulation.scheduler, experiment.recorder
    job, story = scheduler.jobs[identity], recorder.histories[identity]
    lines = [f"submitted {duration(at_s - story.submitted_at)} earlier"]
    if story.preemptions:
        lines[0] += f", preempted {times(story.preemptions)} so far"
    if overtaken := recorder.overtaken(identity):
        lines[0] += f", overtaken {times(overtaken)} by later jobs"
    if job.allocation is None:
        queue = [identity for _, _, identity in scheduler.ranking.queue]
        if job.id in queue and queue.index(job.id):
            ahead = queue[: queue.index(job.id)]
            shown = [f"{name} ({scheduler.jobs[name].spec.asked})" for name in ahead]
            lines.append(f"ahead of it in the queue (devices requested): {listed(shown, 5)}")
    running = sum(1 for other in scheduler.jobs.values() if other.allocation is not None)
    free, devices = scheduler.tenancy.free.total, scheduler.cluster.device_count
    waiting = len(scheduler.ranking.queue)
    lines.append(
        f"{several(running, 'job holds', 'jobs hold')} devices, {free} of "
        f"{several(devices, 'device is', 'devices are')} free, "
        f"{several(waiting, 'job waits', 'jobs wait')}"
    )
    advice = None if experiment.lengths is None else experiment.lengths.stop_advice(job, at_s)
    if advice is not None:
        lines.append(advice.sentence)
    return lines


def _ended(story: JobHistory) -> str:
    assert story.ended_at is not None, "a job that is neither active nor still to come has ended"
    took = duration(story.ended_at - story.submitted_at)
    return (
        f"it {story.status} at {story.ended_at:g} s, {took} after it was submitted, "
        f"{duration(story.waited_s)} of them waiting"
    )


def _check_job(workload: Workload, identity: str) -> None:
    known = {job.id for job in workload.jobs}
    if identity not in known:
        hint = did_you_mean(identity, known)
        raise InvalidInputError(f"{workload.source} has no job {identity!r}{hint}")
