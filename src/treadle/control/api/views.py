"""Jobs as people see them: from the record and, until the job ends, from the scheduler's row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from treadle.control.api.briefs import Brief, Briefs
from treadle.control.api.context import Context
from treadle.control.api.job_progress import end_of, held_s, progress_of
from treadle.control.api.queue_order import held_devices, sharers
from treadle.control.api.why import ended_reason
from treadle.control.jobs import (
    JobRecord,
    attempt_of,
    away_s,
    company_views,
    given_to,
    id_of,
    likeness_of,
    rank_count,
    submit_again,
)
from treadle.core.job import Job
from treadle.core.job_sentences import advice
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.core.sentences import sentence
from treadle.models.learning.commands import in_words
from treadle.models.learning.kinds import script_id
from treadle.store.rows import AttemptRow
from treadle.wire.jobs import UNUSED, FailureView, JobDetail, JobView, State, in_short

# Fields of a record that people see as they are, also in lists.
_IN_LISTS = (
    *("id", "name", "uid", "tenant", "state", "sizes", "priority", "guaranteed", "resumable"),
    *("submitted_at", "started_at", "resizes", "failures", "array", "model"),
)
_IN_FULL = (
    *("workdir", "env", "secrets", "time_limit_s", "grace_s", "retries", "retry_unknown"),
    *("after", "after_any", "memory_gib", "cpus", "gpu_memory_gib", "device_type", "preemptible"),
    *("notify", "exclusive", "alone_because", "changes", "pauses", "not_paused", "stall_s"),
)
_ON_THE_WAY = (Phase.STARTING, Phase.STOPPING, Phase.CANCELLING)


def job_view(context: Context, record: JobRecord) -> JobView:
    """One job."""
    (view,) = listed(context, [record])
    return view


def listed(context: Context, records: Sequence[JobRecord]) -> list[JobView]:
    """Many jobs, each with its reason."""
    views = []
    rows = [context.row(record.id) for record in records]
    if sum(row is not None and row.phase in _ON_THE_WAY for row in rows) > 1:
        context = context.for_many()
    briefs = Briefs(context)
    for record, row in zip(records, rows, strict=True):
        if row is None:
            views.append(_ending(context, record, briefs))
        else:
            views.append(_view(context, record, row, briefs.of(record, row)))
    return views


def _ending(context: Context, record: JobRecord, briefs: Briefs) -> JobView:
    """A job that has ended, or is about to."""
    view = ended_view(record)
    state = context.jobs.shown_state(record)
    if state.ended:
        return view
    code, sentence = briefs.of(record, None)
    return replace(view, state=state, cause=code.code, because=sentence, ended_at=None, code=None)


def _view(context: Context, record: JobRecord, row: Job, found: Brief) -> JobView:
    devices = tuple(map(str, held_devices(context.scheduler, row)))
    runs_s = held_s(context, record)
    return JobView(
        **_recorded(record),
        cause=found.reason.code,
        numbers=dict(found.reason.numbers),
        because=found.sentence,
        preempted_for=record.preempted_for,
        preempted_at=record.preempted_at,
        pause=record.pause,
        devices=devices,
        beside=sharers(context.scheduler, row),
        plan=_plan(record, row),
        progress=progress_of(context, record, row),
        end=end_of(context, record, row),
        running_s=record.ran_s + runs_s,
        device_s=record.device_s + max(0.0, runs_s - record.counted_s) * len(record.devices),
    )


def _recorded(record: JobRecord) -> dict[str, Any]:
    """What its record alone says of a job, ended or not."""
    return {
        **{name: getattr(record, name) for name in _IN_LISTS},
        "user": record.owner,
        "attempts": record.newest,
        "index": record.member,
        "command": in_short(record.command),
    }


def with_arguments(views: Sequence[JobView], records: Sequence[JobRecord]) -> list[JobView]:
    """The views of these records, each with what its command is given; a variable begins with $."""
    found = []
    for view, record in zip(views, records, strict=True):
        arguments = {in_words(name): value for name, value in given_to(record)}
        found.append(replace(view, arguments=arguments))
    return found


def _plan(record: JobRecord, row: Job) -> str:
    """The plan of a job whose processes follow one; how any other splits its work is unknown."""
    if row.allocation is None or not record.running:
        return ""
    plan = row.allocation.plan
    return plan.name if record.changes or plan.text else ""


def ended_view(record: JobRecord) -> JobView:
    failure = record.failure if record.state is State.FAILED else None  # It may have been retried.
    found = ended_reason(record)
    return JobView(
        **_recorded(record),
        cause=found.code if failure is None else failure.rule,
        numbers=dict(found.numbers),
        because=_ended_because(record, found),
        used=record.devices,
        progress=record.progress,
        ended_at=record.ended_at,
        running_s=record.ran_s,
        device_s=record.device_s,
        code=record.exit,
    )


def _ended_because(record: JobRecord, found: Reason) -> str:
    """What failed, or what ended it from outside."""
    if record.state is State.FAILED:
        return "" if record.failure is None else record.failure.sentence
    return "" if record.state is State.SUCCEEDED else sentence(found)


def _advised(record: JobRecord) -> FailureView | None:
    """Its failure; of a job that has failed for good with what its user can do, and no retry."""
    failure = record.failure
    if failure is None or record.state not in (State.FAILED, State.TIMEOUT):
        return failure
    return replace(failure, advice=advice(ended_reason(record), record.id))


def enforced_limits(context: Context) -> tuple[str, ...]:
    """Which limits of jobs every node enforces: "memory", "cpus"."""
    nodes = context.engine.view()
    if not nodes:
        return ()
    return tuple(sorted(set.intersection(*(set(node.enforced) for node in nodes))))


class Kept(NamedTuple):
    """What only the store has of a job."""

    attempts: Sequence[AttemptRow] = ()  # those that have ended
    diff: str = ""
    logs_pruned_at: float | None = None


def job_detail(context: Context, record: JobRecord, kept: Kept) -> JobDetail:
    """Everything about a job."""
    attempts = {each.number: attempt_of(each.body) for each in kept.attempts}
    attempts = {number: view for number, view in attempts.items() if view.told != UNUSED}
    row = context.row(record.id)
    for a in context.jobs.open_of(record.id):
        if a.number > record.newest:
            continue  # It runs only if the one before cannot change itself.
        view = attempt_of(a.body)
        runs = a.number == record.running
        beside = sharers(context.scheduler, row) if runs and row is not None else ()
        company = company_views(context.learner.sighting(id_of(a)), beside)
        paused_s = away_s(record, context.clock.now()) if runs else 0.0
        attempts[a.number] = replace(view, company=company, paused_s=paused_s)
    return JobDetail(
        job=replace(job_view(context, record), command=record.command),
        **{name: getattr(record, name) for name in _IN_FULL},
        code=None if record.code is None else replace(record.code, diff=kept.diff),
        attempts=tuple(
            replace(run, ranks=rank_count(record, len(run.devices)))
            for _, run in sorted(attempts.items())
        ),
        failure=_advised(record),
        ranks=rank_count(record, record.size or 1),
        logs_pruned_at=kept.logs_pruned_at,
        enforced=enforced_limits(context),
        uses_train=record.uses_train or bool(record.elastic),
        restart_s=0.0 if row is None else row.spec.profile.restart_s,
        script=script_id(likeness_of(record).kinds[0]),
        again=submit_again(record),
    )
