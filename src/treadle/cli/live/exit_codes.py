"""How a job's end becomes an exit code.

A command that waits for a job (`wait`, `submit --wait`, `submit --attach`) ends as the job did:

    0        it succeeded
    1..99    it failed, with that exit code of its own
    100      it failed with another: 100 and above, by a signal, or before it ran; or it waits
             and can never run as it is
    101      it has not ended: the time to wait is over, or somebody detached
    103      it was cancelled
    104      it reached its time limit

Of several jobs, the first in the order given that did not succeed decides.
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
    """Of those jobs; `never` are the ids of those that can never run."""
    codes = (FAILED if view.id in never else exit_code(view) for view in views)
    return next((code for code in codes if code), 0)


def never_text(answer: Why) -> str:
    """Of a job that no waiting helps: what its reason says, once."""
    because = plain(answer.because)
    for begin in ("it can never run here: ", "it can never start: ", "it can never run: "):
        because = because.removeprefix(begin)
    return f"can never run: {because}"


def end_sentence(view: JobView) -> str:
    """How it ended, in one line."""
    name = f" ({plain(view.name)})" if view.name else ""
    because = f": {plain(view.because)}" if view.because else ""
    code = f" with exit code {view.code}" if view.state is State.FAILED and view.code else ""
    words = {
        State.SUCCEEDED: "succeeded",
        State.FAILED: f"failed{code}",
        State.CANCELLED: "was cancelled",
        State.TIMEOUT: "reached its time limit",
    }
    told = words.get(view.state, f"has not ended ({view.state.value})")
    return (
        f"job {plain(view.id)}{name} {told}{because if view.state is not State.SUCCEEDED else ''}"
    )
