"""`treadle top`: a live view of devices and jobs."""

import contextlib
import select
import shutil
import sys
import termios
import tty
from collections.abc import Callable, Iterator

import click

from treadle.cli.live.job_columns import job_table
from treadle.cli.live.nodes import node_text
from treadle.cli.live.session import Session, echo_json, json_option, session
from treadle.cli.live.status import drained_text, jobs_line
from treadle.cli.numbers import Number
from treadle.cli.show.wording import plain
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.core.wording import several, short_span

# Six control sequences that terminal emulators share; rich takes 55 ms to import.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # second screen, no cursor, long lines are not wrapped
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_EVERY_S = 1.0
_JOBS = 200


@click.command()
@click.option(
    "--every",
    type=Number(0.2, 60.0),
    default=_EVERY_S,
    show_default=True,
    help="Seconds between updates.",
)
@json_option
def top(every: float, as_json: bool) -> None:
    """Watch devices and jobs; q or Ctrl-C quits. Prints once with --json, or without a terminal."""
    here = session()
    if as_json:
        client = here.client
        jobs = client.job_page(limit=_JOBS).jobs
        echo_json({"status": client.status(), "nodes": client.nodes(), "jobs": jobs})
        return
    if not here.interactive:
        click.echo(screen(here))
        return
    _live(here, every)


def screen(here: Session, *, colour: bool = False) -> str:
    """The view as text: a summary line, the devices, the jobs."""
    status = here.client.status()
    draining = ", draining" if status.draining else ""
    head = (
        f"treadle {plain(status.version)}, up {short_span(here.now() - status.since_at)}, "
        f"policy {plain(status.policy)}: "
        f"{status.free:,} of {several(status.devices, 'device')} free{drained_text(status)}, "
        f"{jobs_line(status)}{draining}"
    )
    now, found = here.now(), here.client.nodes()
    nodes = [node_text(node, now, width=here.width, colour=colour) for node in found]
    jobs = here.client.job_page(limit=_JOBS).jobs
    queue = job_table(jobs, here.now(), width=here.width, colour=colour) if jobs else "no jobs"
    return "\n\n".join([head, *nodes, queue])


def _live(here: Session, every_s: float) -> None:
    def drawn() -> str:
        try:
            text = screen(here, colour=here.colour)
        except (UnreachableError, NoAnswerError) as error:
            text = f"{error}\n\njobs keep running; this view continues when the daemon is back"
        rows = shutil.get_terminal_size().lines - 1
        lines = text.split("\n")
        if len(lines) > rows:
            lines = [*lines[: rows - 1], "... more; treadle ps lists all"]
        return "\n".join(lines)

    with _keys(), contextlib.suppress(KeyboardInterrupt), _full_screen() as draw:
        while True:
            draw(drawn())
            if _pressed(every_s) in ("q", "Q", "\x03", "\x04"):
                return


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Read keys one by one and without echo; the terminal is restored afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(within_s: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], within_s)
    return sys.stdin.read(1) if ready else ""


@contextlib.contextmanager
def _full_screen() -> Iterator[Callable[[str], None]]:
    """Give a function that draws a text; the terminal is restored at the end."""
    _write(_ENTER)
    try:
        yield _draw
    finally:
        _write(_LEAVE)


def _draw(text: str) -> None:
    """Overwrite what is there line by line: clearing first would flicker."""
    lines = text.replace("\n", f"{_REST_OF_LINE}\n")
    _write(f"{_HOME}{lines}{_REST_OF_LINE}{_REST_OF_SCREEN}")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
