"""What an object shows of its job. Treadle's store has the truth; nothing is read back from here
but which job of which store it is.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from treadle.core.wording import expected_span, share
from treadle.wire.jobs import JobView, State

Object = dict[str, Any]

REFUSED = "REFUSED"  # it is no job: its spec is wrong, or it may not be submitted
REASON_MAX = 1000
WITH_DEVICES = frozenset({State.STARTING, State.RUNNING, State.RESIZING})
SUSPENDED = frozenset({State.HELD, State.PAUSED})


def status_of(view: JobView, before: Object) -> Object:
    """The status of an object whose job this is. before: the one it has."""
    progress, end = view.progress, view.end
    total = None if progress is None else progress.total
    part = progress.step / total if progress is not None and total else None
    running = view.state in WITH_DEVICES
    eta = end.high_s if running and end is not None and end.known else None
    because = view.because[:REASON_MAX]
    wanted: Object = {
        "state": str(view.state),
        "devices": len(view.devices),
        "nodes": ",".join(dict.fromkeys(each.partition(":")[0] for each in view.devices)),
        "progress": share(part),
        "eta": "" if eta is None else expected_span(eta),
        "reason": because,
        "attempts": view.attempts,
        "exitCode": view.code,
        "startTime": moment(view.started_at),
        "completionTime": moment(view.ended_at),
    }
    why = view.cause or str(view.state)
    well = view.state is State.SUCCEEDED
    holds = {
        "Accepted": (True, "Submitted", f"it is job {view.id}"),
        "Running": (running, why, because),
        "Suspended": (view.state in SUSPENDED, why, because),
        "Complete": (well, why, because),
        "Failed": (view.state.ended and not well, str(view.state), because),
    }
    wanted["conditions"] = conditions(holds, before.get("conditions", ()))
    return wanted


def conditions(
    holds: Mapping[str, tuple[bool, str, str]], before: Sequence[Object]
) -> list[Object]:
    """As Kubernetes has them: when one last changed is kept. Others than these stay."""
    known = {each["type"]: each for each in before}
    for kind, (true, reason, message) in holds.items():
        status, was = str(true), known.get(kind, {})
        since = was.get("lastTransitionTime") if was.get("status") == status else None
        known[kind] = {
            "type": kind,
            "status": status,
            "reason": _word(reason),
            "message": message or _word(reason),
            "lastTransitionTime": since or moment(datetime.now(UTC).timestamp()),
        }
    return list(known.values())


def difference(before: Object, wanted: Object) -> Object:
    """What has to be written; None takes away what is there."""
    clean = {name: None if value in ("", []) else value for name, value in wanted.items()}
    return {name: value for name, value in clean.items() if before.get(name) != value}


def moment(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _word(reason: str) -> str:
    """One word in CamelCase, as conditions have it."""
    return "".join(part.capitalize() for part in reason.replace("_", "-").split("-")) or "Unknown"
