"""How a job ended, and what its user can do about it."""

import signal
from dataclasses import replace

from treadle.control.api.reasons import because
from treadle.control.api.sentences import advice, clause
from treadle.control.jobs import JobRecord, given_name
from treadle.core.reasons import Reason
from treadle.core.wording import times
from treadle.failures.failure_history import Patience
from treadle.failures.verdict import Kind
from treadle.wire.jobs import FailureView, State, Why

_SIGNAL_BASE = 128
_MORE = " with more "  # as an Advice of the rules writes it


def ended_reason(record: JobRecord) -> Reason:
    """Why it is over."""
    match record.state:
        case State.SUCCEEDED:
            return because("succeeded")
        case State.CANCELLED:
            return because("cancelled", by=record.cancelled_by)
        case State.TIMEOUT:
            return because("timeout", limit_s=record.time_limit_s or 0.0)
    failure = record.failure
    said = "" if failure is None else failure.sentence.rstrip(".")
    return because(
        "failed",
        exit=_status(record.exit),
        because=said,
        failures=record.failures,
        given_up="" if failure is None else _given_up(record, failure),
    )


def how_it_ended(record: JobRecord) -> Why:
    """The answer about a job that has ended."""
    found, failure = ended_reason(record), record.failure
    failed = failure is not None and record.state is State.FAILED
    output = failure.evidence if failed and failure is not None else ""
    change = _again(record, failure) if failed and failure is not None else ""
    return Why(
        id=record.id,
        name=given_name(record),
        state=record.state,
        code=found.code,
        numbers=dict(found.numbers),
        sentence=clause(found),
        details=(("output", output),) if output else (),
        change=change or advice(found, record.id),
    )


def advised(record: JobRecord) -> FailureView | None:
    """Its failure; of a job that has failed for good with what its user can do, and no retry."""
    failure = record.failure
    if failure is None or record.state not in (State.FAILED, State.TIMEOUT):
        return failure
    if record.state is State.TIMEOUT:
        return replace(failure, advice=advice(ended_reason(record), record.id))
    return replace(failure, advice=_again(record, failure))


def _again(record: JobRecord, failure: FailureView) -> str:
    """What its user can do about a failure; never a retry that was decided against here."""
    if failure.kind == Kind.UNKNOWN:
        more = "" if record.retry_unknown else "; --retries tries it again"
        return f"treadle logs {record.id} shows what it printed{more}"
    if failure.kind == Kind.DETERMINISTIC:
        return "fix the cause, then submit it again"
    if failure.kind == Kind.RESOURCE:
        more = failure.advice.partition(_MORE)[2]
        if more == "host memory" and record.memory_gib:
            return f"submit it again with --memory {2 * record.memory_gib:g}G"
        return f"submit it again with more {more}" if more else ""
    if _given_up(record, failure):
        return f"find the cause first: it failed {times(record.failures)}"
    return "submit it again"


def _given_up(record: JobRecord, failure: FailureView) -> str:
    """Why a failure that may pass was retried less often than its user asked for."""
    patience = Patience()
    if record.failures > record.retries or failure.kind != Kind.TRANSIENT:
        return ""
    if record.failures <= patience.transient:
        return f"; the same failure {times(patience.repeats)} in a row is not retried"
    return f"; at most {patience.transient} such failures are retried"


def _status(code: int | None) -> str:
    """An exit code, and the signal that it stands for."""
    if code is None:
        return ""
    try:
        name = f" ({signal.Signals(code - _SIGNAL_BASE).name})" if code > _SIGNAL_BASE else ""
    except ValueError:
        name = ""
    return f"{code}{name}"
