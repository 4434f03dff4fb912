"""What the cells of a list of jobs say, for `treadle ps` and `treadle top`."""

from collections import Counter
from collections.abc import Iterable

from treadle.cli.show.wording import command_text, plain
from treadle.core.wording import (
    expected_span,
    named_jobs,
    share,
    short_span,
    sizes,
)
from treadle.wire.jobs import JobView, State

_COLOURS = {
    State.RUNNING: "green",
    State.STARTING: "green",
    State.RESIZING: "cyan",
    State.STOPPING: "cyan",
    State.PAUSED: "magenta",
    State.PENDING: "yellow",
    State.HELD: "magenta",
    State.FAILED: "red",
    State.TIMEOUT: "red",
}
# An array shows the first of these states that one of its members has.
FIRST = (
    *(State.RUNNING, State.RESIZING, State.STARTING, State.STOPPING),
    *(State.PENDING, State.PAUSED, State.HELD),
    *(State.FAILED, State.TIMEOUT, State.CANCELLED, State.SUCCEEDED),
)
# Codes of reasons that do not read as words.
_SHORT = {"host": "memory or cores", "never-fits": "never fits", "daemon-draining": "draining"}
_WORDS = {State.PENDING: "wait", State.RUNNING: "run", State.SUCCEEDED: "done"}


def state_colour(state: str) -> str | None:
    return _COLOURS.get(State(state)) if state in State.__members__ else None


def name_of(view: JobView) -> str:
    return plain(view.name) or command_text(view.command)


def devices_text(view: JobView) -> str:
    """Devices held and requested; only requested once the job has ended."""
    wanted = sizes(view.sizes)
    return wanted if view.state.ended else f"{len(view.devices)}/{wanted}"


def progress_text(view: JobView) -> str:
    if view.progress is None:
        return ""
    if view.progress.total:
        return share(min(1.0, view.progress.step / view.progress.total))
    return f"{view.progress.step:,.0f}"


def end_text(view: JobView) -> str:
    """When a running job ends: 12m-15m, <20s where only the latest is known, or unknown."""
    end = view.end
    if end is None or view.state.ended:
        return ""
    if end.high_s is None:
        return "unknown"
    if end.high_s < 1:
        return "<1s"
    if end.low_s is None:
        return f"<{expected_span(end.high_s)}"
    low, high = expected_span(end.low_s, ever=">1y"), expected_span(end.high_s, ever=">1y")
    return low if low == high else f"{low}-{high}"


def has_run(view: JobView) -> bool:
    return bool(view.attempts) or view.started_at is not None


def wait_text(view: JobView, now: float) -> str:
    """How long it waits for its first start, or to resume."""
    if view.preempted_at is not None and view.state is State.PENDING:
        return short_span(now - view.preempted_at)
    return "" if has_run(view) else short_span(waited_s(view, now))


def waited_s(view: JobView, now: float) -> float:
    """How long the job waited before its first start, or waits still."""
    return max(0.0, (view.started_at or view.ended_at or now) - view.submitted_at)


def reason_text(view: JobView) -> str:
    """The reason for the job's state, with the exit code of a failed job."""
    because = plain(view.because) or cause_text(view.cause, view.state)
    if view.state is State.FAILED and view.code is not None:
        return f"exit {view.code}: {because}" if because else f"exit {view.code}"
    return because


def short_reason(view: JobView) -> str:
    if view.state is State.FAILED and view.code is not None:
        return f"exit {view.code}"
    if view.beside:
        return f"with {plain(named_jobs(view.beside, 1))}"
    if view.cause == "preempted" and view.preempted_for:
        return f"preempted for job {plain(view.preempted_for)}"
    return _SHORT.get(view.cause, plain(view.cause)) or plain(view.because)


def cause_text(cause: str, state: State) -> str:
    """The cause, unless it only repeats the state."""
    return "" if cause.upper() == state.value else plain(cause)


def array_counts(group: Iterable[JobView]) -> str:
    """3 run, 90 wait, 7 done."""
    counts = Counter(view.state for view in group)
    known = [(state, counts[state]) for state in FIRST if counts[state]]
    return ", ".join(f"{n:,} {_WORDS.get(state, state.value.lower())}" for state, n in known)
