"""The answer to `why`: the reason of a job, when it starts or ends, and what would help."""

from dataclasses import replace
from typing import cast

from treadle.control.api.context import Context
from treadle.control.api.estimates import Forecast, forecast
from treadle.control.api.job_progress import done_and_saved, end_of, expectation, length_of
from treadle.control.api.nodes_away import on_drained, starts_over
from treadle.control.api.queue_order import STOPPING, in_queue, position, sharers
from treadle.control.api.remedies import alternatives
from treadle.control.api.sentences import Said
from treadle.control.api.why_holding import holding
from treadle.control.api.why_waiting import preempted, waiting
from treadle.control.jobs import JobRecord, given_name, name_by_default
from treadle.core.job import Job
from treadle.core.job_sentences import advice
from treadle.core.lifecycle import Phase
from treadle.core.reasons import NEVER, Number, Reason, because
from treadle.failures.failure_history import Patience
from treadle.failures.verdict import Exit, Kind
from treadle.policies.live.naming import allows
from treadle.wire.jobs import State, Why

# No job is started, or it cannot be before an admin or a node acts.
_NOT_DECIDED = ("daemon-draining", "store", "policy", "machine", "bound-away")
_FOR_DEVICES = ("devices", "type", "rank", "fragmentation", "preempted")

Details = tuple[tuple[str, str], ...]


def reason(context: Context, record: JobRecord, row: Job | None) -> Reason:
    """The dominant reason for where a job stands; row: None once it has ended."""
    if row is None:
        ended = context.jobs.shown_state(record).ended
        return ended_reason(record) if ended else because("ending")
    stands = waiting if row.phase is Phase.WAITING else holding
    return stands(context, record, row)


def why(context: Context, record: JobRecord, *, verbose: bool = False) -> Why:
    """The whole answer about a job, ended or not; verbose: with what else was tried."""
    row, said = context.row(record.id), Said(context)
    found, state = reason(context, record, row), context.jobs.shown_state(record)
    if found.code == "array":  # A list has no time to look at every member.
        before = context.gates.before(record) - cast("int", found.numbers["running"])
        found = because("array", **found.numbers, before=max(0, before))
    answer = Why(id=record.id, state=state, **said.spoken(found), change=advice(found, record.id))
    if row is None:
        output = record.failure.evidence if record.failure and state is State.FAILED else ""
        details = [*said.details(found), *([("output", output)] if output else [])]
        return replace(answer, name=given_name(record), details=tuple(details))
    queued = in_queue(context.scheduler, record.id)
    decided = queued and found.code not in _NOT_DECIDED
    # Simulations let it through when what it waits for has happened.
    follows = found.code in ("dependency", "array") and not found.numbers.get("fails")
    ahead = forecast(context, record.id) if decided or follows else None
    known = length_of(expectation(context, record, row), row.spec, record.time_limit_s)
    return replace(
        answer,
        name=said.name(record.id),
        details=(*_told(found, ahead, said), *_details(context, record, row, found.code)),
        never=found.code in NEVER,
        position=position(context.scheduler, record.id),
        waiting=len(context.scheduler.ranking.queue) if queued else 0,
        estimate=None if ahead is None else ahead.start,
        freed_by=() if ahead is None else tuple(map(said.label, ahead.freed_by)),
        length=None if row.phase in STOPPING else known,
        end=end_of(context, record, row),
        beside=sharers(context.scheduler, row),
        alternatives=alternatives(context, row, said) if verbose and decided else (),
    )


def _told(found: Reason, ahead: Forecast | None, said: Said) -> Details:
    """What supports the reason; no moment where lengths that it depends on are not known."""
    hidden = ("in_s",) if ahead is not None and ahead.start.unknown else ()
    numbers = {name: each for name, each in found.numbers.items() if name not in hidden}
    return said.details(Reason(found.code, numbers))


def _details(context: Context, record: JobRecord, row: Job, code: str) -> Details:
    """What is true of the job whatever its reason is. code: of that."""
    runs, waits = row.phase is Phase.RUNNING, row.phase is Phase.WAITING
    done, saved = done_and_saved(context, record, row)
    before = waits and record.preempted_at is not None and code != "preempted"
    found = {
        "done": done,
        "saved": saved,
        "before": Said(context).sentence(preempted(record)) if before else "",
        "checkpoints": starts_over(row) if waits else "",
        "node": on_drained(context, row),
        "stuck": context.stuck(row.id) if runs else "",
        "sharing": _sharing(context, record, row) if code in _FOR_DEVICES else "",
    }
    return tuple((label, text) for label, text in found.items() if text)


def _sharing(context: Context, record: JobRecord, row: Job) -> str:
    """Why a job that waits for devices shares none; empty if it may, or its user said so."""
    if record.exclusive or not context.scheduler.policy.shares:
        return ""
    if record.alone_because or row.spec.exclusive:
        return f"no: {record.alone_because}" if record.alone_because else ""
    there = [row]
    if allows(context.charge.whole(), "tries"):  # Then one that runs has to be known, and not it.
        there = [each for each in context.scheduler.jobs.values() if each.size]
    if not there or any(each.spec.profile.busy is not None for each in there):
        return ""
    unknown = context.jobs.records.get(there[0].id)  # It may have ended since the rows were copied.
    if unknown is None:
        return ""
    return f"not yet: {name_by_default(unknown.command)} has not been measured"


def ended_reason(record: JobRecord) -> Reason:
    """Why it is over."""
    match record.state:
        case State.SUCCEEDED:
            return because("succeeded")
        case State.CANCELLED:
            return because("cancelled", by=record.cancelled_by)
        case State.TIMEOUT:
            return because("timeout", limit_s=record.time_limit_s or 0.0)
    failure, patience, code = record.failure, Patience(), record.exit
    exited: dict[str, Number] = {}
    if code is not None:
        exited = {"exit": code, "signal": Exit.of(code).signal}
    if failure is None:
        return because("failed", **exited, failures=record.failures)
    # A failure that may pass, and was retried less often than its user asked for.
    gave_up = failure.kind == Kind.TRANSIENT and record.failures <= record.retries
    repeats = record.failures <= patience.transient
    return because(
        "failed",
        **exited,
        because=failure.sentence.rstrip("."),
        failures=record.failures,
        given_up="" if not gave_up else "repeats" if repeats else "most",
        most=patience.repeats if repeats else patience.transient,
        kind=failure.kind,
        more=failure.more,
        memory_gib=record.memory_gib or 0.0,
        retriable=not record.retry_unknown,
    )
