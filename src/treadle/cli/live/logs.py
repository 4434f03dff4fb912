"""`treadle logs`: a job's output by rank and attempt, and live with -f."""

from collections.abc import Sequence

import click

from treadle.cli.live.exit_codes import end_sentence, exit_code
from treadle.cli.live.job_selection import job_argument, one_job
from treadle.cli.live.log_following import (
    PIECE,
    Follower,
    Printer,
    show,
)
from treadle.cli.live.log_ranks import RankChoice
from treadle.cli.live.session import Session, json_option, note, session
from treadle.cli.live.session import echo_json as as_json_text
from treadle.cli.show.clock import date_text
from treadle.cli.show.wording import plain
from treadle.core.wording import ago, several, short_span
from treadle.wire.jobs import JobDetail
from treadle.wire.notation import duration
from treadle.wire.problems import LostOutputError, NotFoundError
from treadle.wire.retention import size_text


@click.command()
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job has ended.")
@click.option(
    "--rank",
    metavar="N|all",
    help="Which rank; default: all, or 0 of jobs that use treadle.train or --elastic auto.",
)
@click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="Which attempt; default: newest."
)
@click.option("--since", metavar="10m", help="All output of attempts that ran within this time.")
@click.option("--tail", type=click.IntRange(1, 100_000), metavar="N", help="Only the last N lines.")
@click.option("--no-prefix", is_flag=True, help="Do not print [rank] before each line.")
@click.option("--raw", is_flag=True, help="Keep all control characters, on a terminal too.")
@json_option
def logs(
    job: str,
    follow: bool,
    rank: str | None,
    attempt: int | None,
    since: str | None,
    tail: int | None,
    no_prefix: bool,
    raw: bool,
    as_json: bool,
) -> int:
    """Print the output of JOB. On a terminal, control characters other than colours are removed."""
    here = session()
    since_s = None if since is None else duration(since, "--since")
    choice = RankChoice(rank)
    if attempt and since:
        raise click.UsageError("--attempt and --since cannot be combined")
    identity = one_job(here, job)
    detail = here.client.job(identity)
    if detail.logs_pruned_at is not None:
        date = date_text(detail.logs_pruned_at)
        raise NotFoundError(f"the log of job {plain(detail.job.id)} was pruned on {date}")
    if attempt and (not follow or detail.job.state.ended):
        _check_attempt(detail, attempt)
    if as_json:
        number = attempt or max((run.number for run in detail.attempts), default=0)
        _print_json(here, identity, number, choice.of(here, detail, number))
        return 0
    if not attempt and not since:
        _note_earlier(detail)
    printer = Printer(raw=raw or not here.terminal, prefix=False if no_prefix else None)
    if follow and not detail.job.state.ended:
        follower = Follower(
            here, identity, printer, choice=choice, attempt=attempt or 0, tail=tail or 0
        )
        return follower.follow()
    numbers = _attempts(here, detail, attempt, since_s)
    _show_all(here, detail, numbers, choice, printer, tail=tail or 0)
    if numbers and not printer.wrote and not follow:
        _note_empty(detail)
    if not (follow and detail.job.state.ended):
        return 0
    note(end_sentence(detail.job))
    return exit_code(detail.job)


def _show_all(
    here: Session,
    detail: JobDetail,
    numbers: Sequence[int],
    choice: RankChoice,
    printer: Printer,
    *,
    tail: int,
) -> None:
    """Print these attempts; of several, those that can be read."""
    identity = detail.job.id
    for number in numbers:
        if len(numbers) > 1:
            note(f"attempt {number} of job {plain(identity)}")
        ranks = choice.of(here, detail, number)
        try:
            show(here, identity, printer, attempt=number, ranks=ranks, tail=tail)
        except LostOutputError as error:
            if len(numbers) == 1:
                raise
            note(str(error))


def _check_attempt(detail: JobDetail, attempt: int) -> None:
    """Refuse an attempt that does not exist."""
    if attempt not in [run.number for run in detail.attempts]:
        newest = max((run.number for run in detail.attempts), default=0)
        known = f"the newest is {newest}" if newest else "it has not run yet"
        raise NotFoundError(f"job {plain(detail.job.id)} has no attempt {attempt}; {known}")


def _attempts(
    here: Session, detail: JobDetail, attempt: int | None, since_s: float | None
) -> list[int]:
    """The attempts to show: one, or those since a moment."""
    if attempt:
        return [attempt]
    if not detail.attempts:
        view = detail.job
        reason = f": {plain(view.because)}" if view.because else ""
        if view.state.ended:
            note(f"{end_sentence(view)}; it never ran, so it has no output")
        else:
            note(f"job {plain(view.id)} has not run yet{reason}")
        return []
    if since_s is None:
        return [detail.attempts[-1].number]
    begun_at = here.now() - since_s
    ran = [run for run in detail.attempts if run.ended_at is None or run.ended_at >= begun_at]
    count = several(len(ran), "attempt")
    first = f", the first started {ago(ran[0].started_at, here.now())}" if ran else ""
    note(f"lines have no timestamps: {count} ran in the last {short_span(since_s)}{first}")
    return [run.number for run in ran]


def _note_empty(detail: JobDetail) -> None:
    """That nothing was printed, and why if the job has ended."""
    view = detail.job
    wrote = "it printed nothing" if view.state.ended else "has printed nothing yet"
    note(f"{end_sentence(view)}; {wrote}" if view.state.ended else f"job {plain(view.id)} {wrote}")


def _note_earlier(detail: JobDetail) -> None:
    """Say that there is more output than that of the newest attempt, which is shown."""
    *earlier, shown = [0, *(run.number for run in detail.attempts)]
    if shown > 1 and earlier[-1]:
        note(f"only attempt {shown} is shown, the newest; --attempt {earlier[-1]}: the one before")


def _print_json(here: Session, identity: str, attempt: int, ranks: Sequence[int]) -> None:
    """Print the newest piece of each rank, as the server gives it."""
    pieces = [
        here.client.log(identity, attempt=attempt, rank=rank, offset=-PIECE, limit=PIECE)
        for rank in ranks
    ]
    as_json_text(pieces)
    for piece in pieces:
        if piece.offset > 0:
            note(
                f"rank {piece.rank}: only the last {size_text(piece.next - piece.offset)} of "
                f"{size_text(piece.size)}; without --json all of it is printed"
            )
