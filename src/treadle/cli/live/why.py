"""`treadle why`: the reason a job waits or runs, when that changes, and what would help."""

import click

from treadle.cli.live.job_selection import job_argument, job_or_array
from treadle.cli.live.session import echo_json, json_option, session
from treadle.cli.show.table import wrapped
from treadle.cli.show.wording import plain
from treadle.core.wording import YEAR_S, listed, ordinal, several
from treadle.wire.jobs import Estimate, StartEstimate, State, Why

LINES_MAX = 6
WIDTH_MAX = 100
LABEL = 10  # columns
NAMED_MAX = 3
_UNITS = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
# How a state reads before a reason, and whether the reason is the rest of the sentence.
_HEADS = {
    State.PENDING: "is waiting: ",
    State.HELD: "is on hold: ",
    State.STARTING: "is starting: ",
    State.RUNNING: "is running: ",
    State.RESIZING: "is being resized: ",
    State.PAUSED: "was ",
    State.STOPPING: "is being stopped: ",
    State.SUCCEEDED: "succeeded: ",
    State.FAILED: "failed: ",
    State.CANCELLED: "was ",
    State.TIMEOUT: "",
}
# Codes whose clause says what the job is.
_WHOLE = {
    "running": "is ",
    "could-grow": "is ",
    "not-grown": "is ",
    "trial": "is ",
    "starting": "is ",
    "shares": "",
    "shrunk": "was ",
    "preempted": "was ",
    "pausing": "is ",
    "held": "is ",
    "dependency": "",
    "never-fits": "",
    "broken": "",
}
_STARTS = {"preempted": "resumes", "paused": "goes on"}  # by code; of others: starts


@click.command()
@job_argument
@click.option("-v", "--verbose", is_flag=True, help="Also what would start it now, and its length.")
@json_option
def why(job: str, verbose: bool, as_json: bool) -> None:
    """Show why JOB waits, or why it holds its devices; of an array, how it stands as a whole."""
    here = session()
    answer = here.client.why(job_or_array(here, job), verbose=verbose)
    if as_json:
        echo_json(answer)
        return
    click.echo(why_text(answer, width=here.width, verbose=verbose))


def why_text(answer: Why, *, width: int, verbose: bool = False) -> str:
    """The answer first, then at most five facts."""
    width = min(width, WIDTH_MAX)
    facts = [fact for fact in (*_facts(answer), *(_more(answer) if verbose else ())) if fact[1]]
    head = wrapped(_head(answer), width)
    lines = list(head)
    for label, text in facts if verbose else facts[: max(1, LINES_MAX - len(head))]:
        first, *more = wrapped(plain(text), width - LABEL - 2)
        lines.append(f"  {label.ljust(LABEL)}{first}")
        lines += [" " * (LABEL + 2) + line for line in more]
    return "\n".join(lines)


def _head(answer: Why) -> str:
    """vision was preempted 40 s ago for job probe-b. 77% done."""
    name = plain(answer.name) or f"job {plain(answer.id)}"
    sentence = plain(answer.sentence)
    if answer.members:
        left = "" if answer.state.ended else " left"  # Those that have ended are not counted.
        return f"array {plain(answer.id)} ({several(answer.members, 'job')}{left}): {sentence}"
    verb = _WHOLE.get(answer.code, _HEADS[answer.state])
    done = "".join(f" {plain(text)} done." for label, text in answer.details if label == "done")
    return f"{name} {verb}{sentence}".rstrip(": ") + f".{done}"


def starts_label(answer: Why) -> str:
    """What a job does at the moment at which it is expected to start."""
    if answer.members:
        return "next"
    return _STARTS.get(answer.code, "starts")


def _facts(answer: Why) -> list[tuple[str, str]]:
    start = "" if answer.never else estimate_text(answer.estimate, answer.freed_by)
    shown = [each for each in answer.details if each[0] != "done"]  # The head has that.
    return [
        *shown[:3],
        (starts_label(answer), start),
        ("ends", "" if answer.end is None else range_text(answer.end, "in ")),
        ("queue", place_text(answer)),
        ("try", answer.change),
    ]


def _more(answer: Why) -> list[tuple[str, str]]:
    length = "" if answer.end is not None else length_text(answer.length)
    start = answer.estimate
    order = "" if start is None or start.order is None else f"{ordinal(start.order)} to start"
    return [*answer.alternatives, ("length", length), ("order", order), ("code", answer.code)]


def place_text(answer: Why) -> str:
    """Where it stands in the queue."""
    if answer.position is None or answer.waiting <= 1:
        return ""
    return f"{ordinal(answer.position)} of {answer.waiting:,}"


def estimate_text(estimate: StartEstimate | None, freed_by: tuple[str, ...] = ()) -> str:
    """When a job starts: in 20-30 s, when job 5 ends (from 3 earlier starts)."""
    if estimate is None:
        return ""
    if not estimate.runs or estimate.earliest_s is None:
        return _with_basis("unknown", estimate.sentence)
    shown = moment_text(estimate.earliest_s, estimate.latest_s)
    if freed_by:
        ends = "ends" if len(freed_by) == 1 else "end"
        jobs = "job" if len(freed_by) == 1 else "jobs"
        shown += f", when {jobs} {listed(freed_by, NAMED_MAX)} {ends}"
    return _with_basis(shown, estimate.sentence)


def length_text(length: Estimate | None) -> str:
    """How long a job runs."""
    return "" if length is None else range_text(length)


def range_text(found: Estimate, before: str = "") -> str:
    """A range and what it is based on; or that it is unknown, and why."""
    if found.high_s is None:
        return _with_basis("unknown", found.because)
    if found.low_s is None:
        return _with_basis(f"{before}at most {seconds_text(found.high_s)}", found.because)
    if before and found.low_s < 1 <= found.high_s:
        return _with_basis(f"within {seconds_text(found.high_s)}", found.because)
    return _with_basis(f"{before}{between_text(found.low_s, found.high_s)}", found.because)


def moment_text(earliest_s: float, latest_s: float | None) -> str:
    """in 20-30 s; at once; in 5 min or much later; within 12 h."""
    if latest_s is None:
        return f"in {seconds_text(earliest_s)} or much later"
    if earliest_s < 1 <= latest_s:
        return f"within {seconds_text(latest_s)}"
    return "at once" if latest_s < 1 else f"in {between_text(earliest_s, latest_s)}"


def between_text(low_s: float, high_s: float) -> str:
    """20-30 s, 1-2 min; about 40 s where both ends read the same."""
    if high_s < 1:
        return "less than 1 s"
    if high_s >= YEAR_S:
        return "more than a year" if low_s >= YEAR_S else f"{seconds_text(low_s)} or more"
    unit_s, name = _unit(high_s)
    low, high = (_count(seconds / unit_s, name) for seconds in (low_s, high_s))
    if low == high:
        return f"about {high} {name}"
    if low != "0":
        return f"{low}-{high} {name}"
    least = f"{seconds_text(low_s)} to" if low_s >= 1 else "up to"
    return f"{least} {high} {name}"


def seconds_text(seconds: float) -> str:
    """40 s, 5 min, 1.5 h."""
    if seconds >= YEAR_S:
        return "more than a year"
    unit_s, name = _unit(seconds)
    return f"{_count(seconds / unit_s, name)} {name}"


def _unit(seconds: float) -> tuple[float, str]:
    """The largest unit of which there are some."""
    return next((unit for unit in _UNITS if seconds >= 1.7 * unit[0]), _UNITS[-1])


def _count(count: float, name: str) -> str:
    """A tenth matters of a few hours or days."""
    tenths = count < 10 and name in ("h", "days")
    return f"{count:.1f}".removesuffix(".0") if tenths else f"{count:.0f}"


def _with_basis(shown: str, basis: str) -> str:
    return f"{shown} ({plain(basis)})" if basis else shown
