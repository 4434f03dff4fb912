"""How a job's end becomes an exit code.

A command that waits for a job (`wait`, `submit --wait`, `submit --attach`) exits with:

    0        the job succeeded
    1..99    it failed with this exit code
    100      it failed otherwise (exit code 100 or more, a signal, or before it ran), or it is
             waiting and can never run
    101      it has not ended: the timeout is over, or the user detached
    103      it was cancelled
    104      it reached its time limit

With several jobs, the first in the given order that did not succeed decides.
"""

from collections.abc import Container, Iterable

from treadle.cli.show.wording import plain
from treadle.wire.jobs import JobView, State, Why

FAILED, NOT_ENDED, NOT_FOUND, CANCELLED, TIME_LIMIT = 100, 101, 102, 103, 104


def exit_code(view: JobView) -> int:
    match view.state:
        case State.SUCCEEDED:
            return 0
        case State.CANCELLED:
            return CANCELLED
        case State.TIMEOUT:
            return TIME_LIMIT
        case State.FAILED:
            return view.code if view.code is not None and 1 <= view.code < FAILED else FAILED
        case _:
            return NOT_ENDED


def first_bad(views: Iterable[JobView], never: Container[str] = ()) -> int:
    """The exit code for several jobs; `never` has the ids of those that can never run."""
    codes = (FAILED if view.id in never else exit_code(view) for view in views)
    return next((code for code in codes if code), 0)


def never_text(answer: Why) -> str:
    """Why the job can never run."""
    return f"can never run: {plain(str(answer.numbers.get('because', '')))}"


def end_sentence(view: JobView) -> str:
    """How the job ended, in one line."""
    name = f" ({plain(view.name)})" if view.name else ""
    because = plain(view.because)
    code = f" with exit code {view.code}" if view.code else ""
    words = {
        State.SUCCEEDED: "succeeded",
        State.FAILED: f"failed{code}" + (f": {because}" if because else ""),
        State.CANCELLED: f"was {because or 'cancelled'}",
        State.TIMEOUT: because or "reached its time limit",
    }
    end = words.get(view.state, f"has not ended ({view.state.value}): {because}".rstrip(": "))
    return f"job {plain(view.id)}{name} {end}"
