"""How a job ended, in words, and what its user can do about it."""

import signal
from dataclasses import replace

from treadle.control.jobs import JobRecord
from treadle.core.wording import times
from treadle.failures.failure_history import Patience
from treadle.failures.verdict import Kind
from treadle.wire.jobs import FailureView, State, Why

_SIGNAL_BASE = 128
_LONGER = "submit it again with a longer --time-limit"


def how_it_ended(record: JobRecord) -> Why:
    """How it ended, and what its user can do about it."""
    how = {
        State.SUCCEEDED: "it ended with exit code 0",
        State.FAILED: f"it failed with {_status(record.exit)}",
        State.CANCELLED: "it was cancelled" + (f" by {by}" if (by := record.cancelled_by) else ""),
        State.TIMEOUT: f"it ran into its time limit of {record.time_limit_s or 0:g} s",
    }[record.state]
    evidence: tuple[str, ...] = ()
    change = ""
    if record.state is State.TIMEOUT:
        change = _LONGER
    if record.failure is not None and record.state is State.FAILED:
        how += f": {record.failure.sentence.rstrip('.')}"
        if record.failure.evidence:
            evidence = (record.failure.evidence,)
        change = _again(record, record.failure)
        if record.failures > 1:
            how += f" (it was tried {times(record.failures)}{_given_up(record)})"
    return Why(
        id=record.id,
        state=record.state,
        cause=str(record.state).lower(),
        because=how,
        evidence=evidence,
        change=change,
    )


def advised(record: JobRecord) -> FailureView | None:
    """Its failure; of a job that has failed for good with what its user can do, and no retry."""
    failure = record.failure
    if failure is None or record.state not in (State.FAILED, State.TIMEOUT):
        return failure
    advice = _LONGER if record.state is State.TIMEOUT else _again(record, failure)
    return replace(failure, advice=advice)


def _again(record: JobRecord, failure: FailureView) -> str:
    """What its user can do about a failure; never a retry that was decided against here."""
    if not failure.advice.startswith("retry"):
        return "mend the cause before it is submitted again; it would fail in the same way"
    if _given_up(record):
        failed = f"it failed {times(record.failures)} and may fail again"
        return f"find the cause before it is submitted again; {failed}"
    if failure.kind == Kind.UNKNOWN:
        more = "" if record.retry_unknown else "; submitted with --retries it is tried again"
        return f"treadle logs {record.id} shows what it printed{more}"
    _, more, what = failure.advice.partition(" with more ")
    return f"submit it again{more}{what}"


def _given_up(record: JobRecord) -> str:
    """Why a failure that may pass was retried less often than its user asked for."""
    assert record.failure is not None, "it failed"
    patience = Patience()
    if record.failures > record.retries or record.failure.kind != Kind.TRANSIENT:
        return ""
    if record.failures <= patience.transient:
        why_not = f"the same failure {times(patience.repeats)} in a row is not retried again"
    else:
        why_not = f"at most {patience.transient} such failures are retried"
    return f", although --retries {record.retries} allows more: {why_not}"


def _status(code: int | None) -> str:
    """An exit code, and the signal that it stands for."""
    if code is None:
        return "no exit code"
    try:
        name = f" ({signal.Signals(code - _SIGNAL_BASE).name})" if code > _SIGNAL_BASE else ""
    except ValueError:
        name = ""
    return f"exit code {code}{name}"
