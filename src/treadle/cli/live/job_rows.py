"""Jobs as rows of a table, for `treadle ps` and `treadle top`."""

from collections import Counter
from collections.abc import Iterable, Sequence

from treadle.cli.show.table import Column, room, table
from treadle.cli.show.wording import command_text, plain, width_of
from treadle.core.wording import (
    expected_span,
    named_jobs,
    several,
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
_FIRST = (
    *(State.RUNNING, State.RESIZING, State.STARTING, State.STOPPING),
    *(State.PENDING, State.PAUSED, State.HELD),
    *(State.FAILED, State.TIMEOUT, State.CANCELLED, State.SUCCEEDED),
)
# Codes of reasons that do not read as words.
_SHORT = {"host": "memory or cores", "never-fits": "never fits", "daemon-draining": "draining"}
_WORDS = {State.PENDING: "wait", State.RUNNING: "run", State.SUCCEEDED: "done"}


def state_colour(state: str) -> str | None:
    return _COLOURS.get(State(state)) if state in State.__members__ else None


COLUMNS = (
    Column("ID"),
    Column("NAME", least=7),
    Column("USER", least=6),
    Column("STATE", colour=state_colour),
    Column("DEVICES", least=7),
    Column("DONE", right=True),
    Column("ETA", right=True),
    Column("WAIT", right=True),
    Column("RAN", right=True),
    Column("REASON", least=16),
)
_REASON = 9
_SENTENCE = 30  # a sentence cut to fewer columns says too little


def job_table(
    views: Sequence[JobView],
    now: float,
    *,
    width: int,
    expand: bool = False,
    user: bool = True,
    colour: bool = False,
) -> str:
    """One row per job, and one per array unless expanded."""
    groups = _groups(views, expand=expand)
    rows = []
    for group in groups:
        row = job_row(group[0], now) if len(group) == 1 else _array_row(group, now)
        rows.append(row if user else [*row[:2], "", *row[3:]])
    space = room(COLUMNS, rows, _REASON, width=width)
    for group, row in zip(groups, rows, strict=True):
        # Half a sentence says less than the cause in one word.
        if width_of(row[_REASON]) > space < _SENTENCE and len(group) == 1:
            row[_REASON] = short_reason(group[0])
    return table(COLUMNS, rows, width=width, colour=colour)


def job_row(view: JobView, now: float) -> list[str]:
    return [
        plain(view.id),
        name_of(view),
        plain(view.user),
        view.state.value,
        devices_text(view),
        progress_text(view),
        end_text(view),
        wait_text(view, now),
        short_span(view.running_s) if has_run(view) else "",
        reason_text(view),
    ]


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
    known = [(state, counts[state]) for state in _FIRST if counts[state]]
    return ", ".join(f"{n:,} {_WORDS.get(state, state.value.lower())}" for state, n in known)


def _groups(views: Sequence[JobView], *, expand: bool) -> list[list[JobView]]:
    """Members of an array together, at the position of the first."""
    found: dict[str, list[JobView]] = {}
    for view in views:
        key = f"a{view.array}" if view.array and not expand else f"j{view.id}"
        found.setdefault(key, []).append(view)
    return list(found.values())


def _array_row(group: list[JobView], now: float) -> list[str]:
    first = min(group, key=lambda view: _FIRST.index(view.state))
    indices = sorted(view.index for view in group if view.index is not None)
    shown = f"[{sizes(indices).replace('..', '-')}]" if indices else ""
    shown = shown if len(shown) <= 12 else f"[{several(len(indices), 'job')}]"
    held = sum(len(view.devices) for view in group)
    return [
        f"{plain(group[0].array)}{shown}",
        name_of(first),
        plain(first.user),
        first.state.value,
        ("" if first.state.ended else f"{held}/") + f"{len(group)}x{sizes(first.sizes)}",
        "",
        "",
        short_span(max([waited_s(view, now) for view in group if not has_run(view)], default=None)),
        short_span(max([view.running_s for view in group if has_run(view)], default=None)),
        array_counts(group),
    ]
