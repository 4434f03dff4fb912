"""Apply facts to a scheduler's state: one function for each fact, one table that finds it.

Each function also notes in `state.stale` whether its fact may have changed the policy's answer;
asking the policy is the scheduler's task.
"""

from collections.abc import Callable, Iterable, Mapping

from treadle.core import events as facts
from treadle.core.allocation import Allocation, Pause
from treadle.core.events import Event, Report
from treadle.core.job import CHECKPOINTS, ONE_NODE, Job
from treadle.core.lifecycle import TRANSITIONS, Phase
from treadle.core.retry import Failure
from treadle.core.state import SchedulerState

GROW_AGAIN_S = 600.0  # until a job whose new ranks failed is given more devices again
RESUME_AGAIN_S = 30.0  # until a paused job that could not go on is tried again


def apply(state: SchedulerState, events: Iterable[Event], now: float) -> None:
    """Bring the state up to date with facts, in the order in which they came."""
    if state.ended:
        state.ended = {}
    for event in events:
        _APPLY[type(event)](state, event, now)


# -- what users want -----------------------------------------------------------------------------


def _submitted(state: SchedulerState, event: facts.JobSubmitted, now: float) -> None:
    state.submit(event.spec, now)


def _cancelled(state: SchedulerState, event: facts.JobCancelled, now: float) -> None:
    job = state.rows.get(event.job)
    if job is None or job.phase is Phase.CANCELLING:
        return
    phase = TRANSITIONS[job.phase, "JobCancelled"]
    if phase.ended:
        state.end(job, phase)
    else:
        state.rows[job.id] = job._replace(phase=phase, since_at=now)
        state.ranking.drop(job.id)
        state.unfit.pop(job.id, None)
        state.must_stop.append(job.id)
    state.stale = True


def _blocked(state: SchedulerState, event: facts.JobHeld, now: float) -> None:
    job = state.rows.get(event.job)
    reasons = state.blocked.get(event.job, ())
    if job is None or event.reason in reasons or job.phase is Phase.CANCELLING:
        return
    runs = job.phase is Phase.RUNNING
    if event.how and runs and event.how not in job.pauses:
        return  # It is not to be stopped instead.
    state.blocked[job.id] = (*reasons, event.reason)
    if event.how and runs:
        state.must_pause[job.id] = event.how
    elif job.phase is Phase.WAITING or job.phase is Phase.PAUSED:
        if not reasons:
            job = state.rows[job.id] = job._replace(waited_s=job.waited_at(now), since_at=now)
        state.enqueue(job, now)
    elif job.allocation is not None and job.id not in state.paused:
        if event.how and job.phase is Phase.STARTING:
            state.rows[job.id] = job._replace(pause_as=event.how)
        else:
            state.must_stop.append(job.id)
    state.stale = True


def _released(state: SchedulerState, event: facts.JobReleased, now: float) -> None:
    reasons = state.blocked.get(event.job, ())
    if event.reason not in reasons:
        return
    state.blocked[event.job] = tuple(reason for reason in reasons if reason != event.reason)
    if state.blocked[event.job]:
        return
    del state.blocked[event.job]
    job = state.rows[event.job]
    held = job.allocation
    if held is not None and state.cluster.names.issuperset(held.nodes()):
        # It was put on hold and released at once: nothing else stops it.
        state.must_stop = [name for name in state.must_stop if name != job.id]
        state.must_pause.pop(job.id, None)
    if job.pause_as is not None:
        job = state.rows[job.id] = job._replace(pause_as=None)
    if job.phase is Phase.WAITING or job.phase is Phase.PAUSED:
        job = state.rows[job.id] = job._replace(since_at=now)  # It could not start before.
        state.enqueue(job, now)
        state.stale = True


def _updated(state: SchedulerState, event: facts.JobUpdated, now: float) -> None:
    job = state.rows.get(event.spec.id)
    if job is None or job.spec == event.spec:
        return
    # Its work may be counted in other units from now on; the share that is done stays.
    scale = event.spec.iterations / job.spec.iterations
    job = job.settled(now)._replace(spec=event.spec)
    job = job._replace(
        iterations_done=min(job.iterations_done * scale, event.spec.iterations),
        iterations_per_s=job.iterations_per_s * scale,
    )
    state.rows[job.id] = job
    state.rank(job, now)
    state.stale = True


def _learned(state: SchedulerState, event: facts.JobsLearned, now: float) -> None:
    for identity in event.jobs:
        job = state.rows.get(identity)
        if job is not None:
            _updated(state, facts.JobUpdated(event.applied(job.spec)), now)


# -- what engines report -------------------------------------------------------------------------


def _started(state: SchedulerState, event: facts.JobStarted, now: float) -> None:
    job = _current(state, event)
    if job is None or event.action != job.action:
        return  # Superseded: a newer order is on its way.
    if (job.phase, "JobStarted") not in TRANSITIONS:
        return  # Late: it has released its devices since, or is about to.
    leaving, paused = state.leaving.pop(event.job, None), event.job in state.paused
    if paused and leaving is None:
        return  # Late: it is paused otherwise.
    if job.observed_at != now:
        job = job.settled(now)
    if (event.refused or paused) and leaving is not None:
        job = _as_before(state, job, leaving.allocations[0], now)._replace(pauses=event.pauses)
    elif job.pauses != event.pauses:
        job = job._replace(pauses=event.pauses)
    if job.over_at is not None and job.phase is Phase.STARTING:
        job = job._replace(over_at=None)  # Of an attempt that this one has replaced.
    if event.job in state.once_running:
        state.stale = True
    if event.kept_on or job.kept_on:
        job = job.kept(event.kept_on)
    phase = TRANSITIONS[job.phase, "JobStarted"]
    job = job.started(phase, event.iterations_done, event.iterations_per_s, now)
    state.rows[event.job] = job = _as_was_asked(state, job)
    state.ranking.put(job, now)


def _as_was_asked(state: SchedulerState, job: Job) -> Job:
    """It runs, and may have to be paused now; the rule of hold if it cannot be so."""
    how = job.pause_as
    if how is None:
        return job
    if job.id not in state.blocked:
        return job._replace(pause_as=None)
    how = how if how in job.pauses else Pause.FROZEN
    if how in job.pauses:
        state.must_pause[job.id] = how
    elif job.spec.resumable:
        state.must_stop.append(job.id)
    else:
        del state.blocked[job.id]
    state.stale = True
    return job._replace(pause_as=None)


def _as_before(state: SchedulerState, job: Job, before: Allocation, now: float) -> Job:
    """The job could not be given more devices, or not be paused: it has what it had."""
    held = job.allocation
    if held is not None and held.paused:
        return _goes_on(state, job, before)
    if held is None or not before.grows_to(held):
        return job
    state.tenancy.release(held)
    state.tenancy.claim(job.id, before)
    state.stale = True
    return job._replace(allocation=before, grow_at=now + GROW_AGAIN_S)


def _goes_on(state: SchedulerState, job: Job, before: Allocation) -> Job:
    """It could not be paused: those that were to have its devices are stopped, none has begun."""
    del state.paused[job.id]
    state.blocked.pop(job.id, None)
    for device in before.devices:
        other = state.tenancy.tenants.get(device, {}).get(before.turn)
        if other is not None:
            state.must_stop.append(other)
    if state.must_stop:
        state.unbooked[job.id] = None
    else:
        state.tenancy.claim(job.id, before)
    state.stale = True
    return job._replace(allocation=before)


def _paused(state: SchedulerState, event: facts.JobPaused, now: float) -> None:
    job = _current(state, event)
    if job is None or event.action != job.action or (job.phase, "JobPaused") not in TRANSITIONS:
        return
    held = job.allocation
    assert held is not None, "it is changing"
    if not held.paused and not (event.refused and job.pauses):
        return  # Late: it goes on.
    leaving = state.leaving.pop(event.job, None)
    if event.refused:  # It was to go on, or to be paused otherwise.
        state.tenancy.release(held)
        held, state.paused[job.id] = held.as_paused(event.how), None
        job = job._replace(ready_at=now + RESUME_AGAIN_S)
    job = job.settled(now)._replace(
        phase=Phase.PAUSED, since_at=now, allocation=held, iterations_per_s=0.0
    )
    state.rows[job.id] = job
    state.ranking.drop(job.id)
    state.enqueue(job, now)
    state.wake_at = min(state.wake_at, state.ranking.next_expiry_at)
    if event.refused or leaving is None or leaving.decisions != state.decisions:
        state.stale = True


def _progressed(state: SchedulerState, event: facts.JobProgressed, now: float) -> None:
    job = _current(state, event)
    if job is None or job.phase is not Phase.RUNNING or event.action != job.action:
        return
    job = job.progressed(event.iterations_done, event.iterations_per_s, now)
    state.rows[event.job] = job
    state.ranking.put(job, now)


def _training_ended(state: SchedulerState, event: facts.TrainingEnded, now: float) -> None:
    """It changes no decision: what the job holds is free when it has ended."""
    job = _current(state, event)
    if job is not None and job.allocation is not None and job.over_at is None:
        state.rows[event.job] = job._replace(over_at=now)


def _rank_replaced(state: SchedulerState, event: facts.RankReplaced, now: float) -> None:
    """The job has what it had: this is for people."""


def _stopped(state: SchedulerState, event: facts.JobStopped, now: float) -> None:
    leaving = state.leaving.get(event.job)
    if leaving is not None and event.action >= leaving.action:
        del state.leaving[event.job]
    job = _current(state, event)
    if job is None or (job.phase, "JobStopped") not in TRANSITIONS:
        return
    phase = TRANSITIONS[job.phase, "JobStopped"]
    if phase.ended:
        state.end(job, phase)
        state.stale = True
        return
    ordered = job.phase is Phase.STOPPING
    state.requeue(job, event.iterations_done, now)
    if not ordered or leaving is None or leaving.decisions != state.decisions:
        state.stale = True


def _finished(state: SchedulerState, event: facts.JobFinished, now: float) -> None:  # noqa: ARG001
    job = _current(state, event)
    if job is not None and (job.phase, "JobFinished") in TRANSITIONS:
        state.end(job, Phase.FINISHED)
        state.stale = True


def _failed(state: SchedulerState, event: facts.JobFailed, now: float) -> None:
    job = _current(state, event)
    if job is None or (job.phase, "JobFailed") not in TRANSITIONS:
        return
    state.stale = True
    if job.phase is Phase.CANCELLING:
        state.end(job, Phase.CANCELLED)
        return
    job = job._replace(failures=job.failures + 1)
    failure = _failure(job, event.reason, now)
    answer = state.retry(failure)
    ready_at = now + answer.wait_s
    job = job._replace(ready_at=ready_at, avoid=answer.avoid, failed_on=failure.devices)
    outcome = "JobRetried" if answer.again else "JobFailed"
    phase = TRANSITIONS[job.phase, outcome]
    if phase.ended:
        state.end(job, phase)
    else:
        state.leaving.pop(job.id, None)
        state.requeue(job, event.iterations_done, now)


def _attempt_ended(state: SchedulerState, event: facts.AttemptEnded, now: float) -> None:
    meaning = event.meaning
    if event.only_on and (job := _current(state, event)) is not None:
        state.rows[job.id] = job._replace(only_on=event.only_on, only_because=event.only_because)
    if meaning is not None:
        _APPLY[type(meaning)](state, meaning, now)


# -- nodes and devices ---------------------------------------------------------------------------


def _joined(state: SchedulerState, event: facts.NodeJoined, now: float) -> None:
    if event.node in state.cluster.nodes:
        return  # A repeated report.
    state.drained.pop(event.node.name, None)
    state.cluster = state.cluster.without([event.node.name]).with_node(event.node)
    state.tenancy.add(event.node)
    for job in list(state.rows.values()):
        if job.starts_over and event.node.name in job.kept_on and job.allocation is None:
            state.rows[job.id] = job.kept(job.kept_on)
    _recheck_fit(state, now)


def _node_lost(state: SchedulerState, event: facts.NodeLost, now: float) -> None:
    state.drained.pop(event.node, None)
    there = (state.cluster.names | state.drained.keys()) - {event.node}
    for job in list(state.rows.values()):
        if job.allocation is not None and event.node in job.allocation.nodes():
            live = job.phase is Phase.RUNNING and job.spec.profile.lead and job.over_at is None
            (state.must_shrink if live else state.must_stop).append(job.id)
        bound = job.only_because in (CHECKPOINTS, ONE_NODE)
        if bound and event.node in job.only_on and there.isdisjoint(job.only_on):
            state.rows[job.id] = job.let_go()
    _retire(state, event.node, now)


def _drained(state: SchedulerState, event: facts.NodeDrained, now: float) -> None:
    """Jobs that can have another size leave for other nodes that they may use; others run on."""
    state.drained |= {node.name: node for node in state.cluster.nodes if node.name == event.node}
    _retire(state, event.node, now)
    for job in state.rows.values():
        if job.allocation is None or event.node not in job.allocation.nodes():
            continue
        spec, left = job.spec, state.cluster
        if job.only_on:
            left = left.without(name for name in left.names if name not in job.only_on)
        moves = spec.resumable and len(spec.sizes) > 1 and job.over_at is None
        if moves and state.policy.never_fits(spec, left) is None:
            state.must_stop.append(job.id)


def _device_closed(
    state: SchedulerState,
    event: facts.DeviceClosed,
    now: float,  # noqa: ARG001
) -> None:
    state.closed.update(dict.fromkeys(event.devices, event.reason))
    state.stale = True


def _device_opened(
    state: SchedulerState,
    event: facts.DeviceOpened,
    now: float,  # noqa: ARG001
) -> None:
    for device in event.devices:
        if state.closed.pop(device, None) is not None:
            state.stale = True


# -- shared by several facts ---------------------------------------------------------------------


def _current(state: SchedulerState, event: Report) -> Job | None:
    """The job that a report is about, or None if the report is of an earlier attempt."""
    job = state.rows.get(event.job)
    return None if job is None or event.action < job.attempt else job


def _retire(state: SchedulerState, node: str, now: float) -> None:
    """Take a node out of service."""
    state.cluster = state.cluster.without([node])
    state.tenancy.free.remove(node)
    _recheck_fit(state, now)


def _recheck_fit(state: SchedulerState, now: float) -> None:
    """The cluster changed: set aside the jobs that cannot run on it, queue those that now can.

    More nodes may be worse: six devices are three whole nodes of two, but not two of three
    where there is only one of three.
    """
    queue = [identity for _, _, identity in state.ranking.queue]
    unfit, state.unfit = state.unfit, {}
    for identity in (*queue, *unfit):
        state.enqueue(state.rows[identity], now)
    state.stale = True


def _failure(job: Job, reason: str, now: float) -> Failure:
    if job.allocation is None:
        return Failure(job.spec, job.failures, reason, (), now)
    devices = tuple(map(str, job.allocation.devices))
    return Failure(job.spec, job.failures, reason, job.allocation.nodes(), now, devices)


_APPLY: Mapping[type, Callable[..., None]] = {
    facts.JobSubmitted: _submitted,
    facts.JobCancelled: _cancelled,
    facts.JobHeld: _blocked,
    facts.JobReleased: _released,
    facts.JobUpdated: _updated,
    facts.JobsLearned: _learned,
    facts.JobStarted: _started,
    facts.JobPaused: _paused,
    facts.JobProgressed: _progressed,
    facts.TrainingEnded: _training_ended,
    facts.RankReplaced: _rank_replaced,
    facts.JobStopped: _stopped,
    facts.JobFinished: _finished,
    facts.JobFailed: _failed,
    facts.AttemptEnded: _attempt_ended,
    facts.NodeJoined: _joined,
    facts.NodeLost: _node_lost,
    facts.NodeDrained: _drained,
    facts.DeviceClosed: _device_closed,
    facts.DeviceOpened: _device_opened,
}
