"""`treadle why`: the reason a job waits, the evidence for it, and what would change it."""

import click

from treadle.cli.live.job_rows import cause_text
from treadle.cli.live.job_selection import job_argument, job_or_array
from treadle.cli.live.session import echo_json, json_option, session
from treadle.cli.show.table import pairs
from treadle.cli.show.wording import plain
from treadle.core.wording import between, from_to, ordinal, several
from treadle.wire.jobs import Estimate, StartEstimate, State, Why

_HEADS = {
    State.PENDING: "waits",
    State.HELD: "is held",
    State.STARTING: "is starting",
    State.RUNNING: "runs",
    State.RESIZING: "is being resized",
    State.STOPPING: "is being stopped",
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.TIMEOUT: "reached its time limit",
}


@click.command()
@job_argument
@json_option
def why(job: str, as_json: bool) -> None:
    """Show why JOB waits, or why it holds its devices; of an array, how it stands as a whole."""
    here = session()
    answer = here.client.why(job_or_array(here, job))
    if as_json:
        echo_json(answer)
        return
    click.echo(why_text(answer, width=here.width))


def why_text(answer: Why, *, width: int) -> str:
    """The main reason first, then its evidence and what would help."""
    head = "can never run as it is" if answer.never else _HEADS[answer.state]
    word = cause_text(answer.cause, answer.state)
    cause = f" ({word})" if word else ""
    lines = [
        ("because", plain(answer.because)),
        ("evidence", "\n".join(plain(line) for line in answer.evidence)),
        ("change", plain(answer.change)),
        ("position", place_text(answer)),
        (
            "next" if answer.members else "start",
            "never" if answer.never else estimate_text(answer.estimate),
        ),
        ("turn", plain(answer.reservation)),
        ("end", "" if answer.end is None else range_text(answer.end, "in ")),
        ("company", f"it joins no running job: {plain(answer.company)}" if answer.company else ""),
        ("length", length_text(answer.length) if answer.end is None else ""),
    ]
    what = f"job {plain(answer.id)}"
    if answer.members:
        left = "" if answer.state.ended else " left"  # Those that have ended are not counted.
        what = f"array {plain(answer.id)} ({several(answer.members, 'job')}{left})"
        cause = ""
    return f"{what} {head}{cause}\n{pairs(lines, width=width)}".rstrip()


def place_text(answer: Why) -> str:
    """Where it stands in the queue, and in the order of starts if that is known and another."""
    if answer.position is None:
        return ""
    if answer.waiting == 1:
        return "the only job in the queue"
    of = f" of {answer.waiting:,}" if answer.waiting else ""
    start = answer.estimate
    in_line = f"{ordinal(answer.position)}{of} in the queue"
    if start is None or start.order is None:
        return in_line
    first, last = start.orders or (start.order, start.order)
    if first == last == answer.position:
        return in_line
    joined = f" {'or' if last == first + 1 else 'to'} {ordinal(last)}"
    place = ordinal(first) + ("" if first == last else joined)
    return f"{in_line}, {place} to start"


def estimate_text(estimate: StartEstimate | None) -> str:
    if estimate is None:
        return ""
    if not estimate.runs or estimate.earliest_s is None:  # The sentence says why.
        return f"unknown: {plain(estimate.sentence)}" if estimate.sentence else "unknown"
    basis = plain(estimate.sentence)
    if estimate.coverage is not None and basis:
        basis = f"{estimate.coverage:.0%}: {basis}"
    shown = between(estimate.earliest_s, estimate.latest_s)
    return f"{shown} ({basis})" if basis else shown


def length_text(length: Estimate | None) -> str:
    """How long a job runs."""
    return "" if length is None else range_text(length)


def range_text(found: Estimate, before: str = "") -> str:
    """A range with its coverage and what it rests on; or that it is unknown, and why."""
    shown, basis = from_to(found.low_s, found.high_s), plain(found.because)
    if shown == "unknown":
        return f"unknown ({basis})" if basis else shown
    if found.coverage is not None:
        basis = f"{found.coverage:.0%}: {basis}" if basis else f"{found.coverage:.0%}"
    return f"{before}{shown} ({basis})" if basis else f"{before}{shown}"
