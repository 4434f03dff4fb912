"""Print a job's output, and follow it over attempts until the job has ended.

The daemon is polled for new output, as `tail -f` polls its file: a lost answer is requested again,
and after a restart of the daemon the output continues at the same byte. Once the job has ended, one
more request gets the rest.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from treadle.cli.live.exit_codes import FAILED, NOT_ENDED, end_sentence, exit_code, never_text
from treadle.cli.live.log_ranks import RankChoice
from treadle.cli.live.session import Session, note
from treadle.cli.show.wording import log_text, plain
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.core.errors import TreadleError
from treadle.wire.jobs import JobDetail, JobView, LogPiece, State
from treadle.wire.problems import (
    LostOutputError,
    NotFoundError,
    RequestError,
    TooManyError,
    UnavailableError,
)

PIECE = 1 << 16  # bytes of the first request
PIECE_MAX = 1 << 20  # bytes of further requests
TAIL_MAX = 16 << 20
SHORTEST_S, LONGEST_S = 0.05, 0.5
AWAY_MAX_S = 3600.0
# Answers of a daemon that is being restarted: none, half of one, or that it is not ready yet.
AWAY = (UnreachableError, NoAnswerError, UnavailableError)


@dataclass
class Printer:
    """Prints the output of ranks; with more than one, whole lines after the rank's number."""

    raw: bool
    prefix: bool | None = None  # None: if there is more than one rank
    begun: dict[int, str] = field(default_factory=dict)  # incomplete lines, by rank
    wrote: bool = False

    def write(self, rank: int, text: str) -> None:
        if not text:
            return
        self.wrote = True
        safe = text if self.raw else log_text(text)
        if not self.prefix:
            _echo(safe)
            return
        lines = (self.begun.pop(rank, "") + safe).split("\n")
        if lines[-1]:
            self.begun[rank] = lines[-1]
        for line in lines[:-1]:
            _echo(f"[{rank}] {line}\n")

    def finish(self) -> None:
        """Print the lines that were never completed."""
        for rank, line in sorted(self.begun.items()):
            _echo(f"[{rank}] {line}\n")
        self.begun.clear()
        sys.stdout.flush()


def _echo(text: str) -> None:
    """Print with the job's own colours, to a file as well."""
    click.echo(text, nl=False, color=True)


def show(
    session: Session,
    identity: str,
    printer: Printer,
    *,
    attempt: int,
    ranks: Sequence[int],
    tail: int,
) -> None:
    """Print the output of one attempt so far, without waiting for more.

    Raises LostOutputError if no rank of it can be read.
    """
    if printer.prefix is None:
        printer.prefix = len(ranks) > 1
    lost: dict[str, LostOutputError] = {}  # by their sentences
    read = False
    for rank in ranks:
        try:
            if len(ranks) == 1:
                # A single rank that does not exist is an error; of all ranks, some may not run yet.
                session.client.log(identity, attempt=attempt, rank=rank, limit=64)
            offset = (
                tail_offset(session, identity, attempt=attempt, rank=rank, lines=tail)
                if tail
                else 0
            )
            for piece in _pieces(session, identity, attempt=attempt, rank=rank, offset=offset):
                printer.write(rank, piece.text)
            read = True
        except LostOutputError as error:
            lost.setdefault(str(error), error)
    printer.finish()
    if lost and not read and len(lost) == 1:
        raise next(iter(lost.values()))
    for sentence in lost:
        note(sentence)


def tail_offset(session: Session, identity: str, *, attempt: int, rank: int, lines: int) -> int:
    """The byte at which the last lines begin."""
    back = PIECE
    while True:
        pieces: list[LogPiece] = []
        offset = -back
        while not pieces or pieces[-1].next < pieces[-1].size:
            piece = session.client.log(
                identity, attempt=attempt, rank=rank, offset=offset, limit=PIECE
            )
            if pieces and piece.next <= pieces[-1].next:
                break
            pieces.append(piece)
            offset = piece.next
            if len(pieces) * PIECE > back + PIECE:
                break  # The job writes faster than we read.
        content = "".join(piece.text for piece in pieces)
        start = pieces[0].offset
        found = content.rstrip("\n").split("\n")
        if len(found) > lines:
            kept = "\n".join(found[-lines:]) + content[len(content.rstrip("\n")) :]
            return max(start, pieces[-1].next - len(kept.encode()))
        if start == 0 or back >= TAIL_MAX:
            return start
        back *= 4


class Patience:
    """Waits for a daemon that restarts, and gives up after an hour."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._since_s: float | None = None

    def answered(self) -> None:
        if self._since_s is not None:
            note("the daemon answers again")
        self._since_s = None

    def away(self, error: TreadleError) -> None:
        now_s = self._session.stopwatch()
        if self._since_s is None:
            self._since_s = now_s
            note("the daemon does not answer; jobs keep running, waiting for it (Ctrl-C stops)")
        elif now_s - self._since_s > AWAY_MAX_S:
            raise error


class NeverRuns:
    """Finds out whether a waiting job can never run; asks again only if its reason changes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked: dict[str, tuple[str, str]] = {}

    def reason(self, view: JobView) -> str:
        """Why the job can never run; empty if it may."""
        if view.state is not State.PENDING and view.state is not State.HELD:
            return ""
        reason = (view.cause, view.because)
        if self._asked.get(view.id) == reason:
            return ""
        try:
            answer = self._session.client.why(view.id)
        except RequestError:
            return ""  # The caller looks at the job again.
        if answer.never:
            return never_text(answer)
        self._asked[view.id] = reason
        return ""


class NeverRunsError(TreadleError):
    """The job that is followed can never run."""


class Follower:
    """Follows one job: the usual ranks unless given, from the newest attempt if `attempt` is 0."""

    def __init__(
        self,
        session: Session,
        identity: str,
        printer: Printer,
        *,
        choice: RankChoice | None = None,
        attempt: int = 0,
        tail: int = 0,
    ) -> None:
        self._session = session
        self._identity = identity
        self._printer = printer
        self._choice = RankChoice() if choice is None else choice
        self._attempt = attempt
        self._only = attempt > 0
        self._tail = tail
        self._offsets: dict[int, int] = {}
        self._shown = ""
        self._pause_s = SHORTEST_S
        self._patience = Patience(session)
        self._never_runs = NeverRuns(session)
        self._lost: set[str] = set()  # sentences about output that cannot be read

    def follow(self) -> int:
        """Print until the job has ended, then say how; Ctrl-C detaches. Returns the exit code."""
        try:
            job = self.run().job
        except KeyboardInterrupt:
            name = plain(self._identity)
            note(
                f"detached; job {name} keeps running (treadle logs -f {name} follows it, "
                f"treadle cancel {name} stops it)"
            )
            return NOT_ENDED
        except NeverRunsError as error:
            note(str(error))
            return FAILED
        if not job.state.ended:  # Only one attempt of it was followed.
            return 0
        note(end_sentence(job))
        return exit_code(job)

    def run(self) -> JobDetail:
        """Print until the job, or the chosen attempt, has ended; returns the job.

        Raises NeverRunsError if it is waiting and can never run.
        """
        while True:
            try:
                detail = self._look()
                self._patience.answered()
            except AWAY as error:
                self._patience.away(error)
                detail = None
            if detail is not None:
                self._printer.finish()
                return detail
            self._idle()

    def _look(self) -> JobDetail | None:
        """Print new output; returns the job if no more can come."""
        # First the job, then its output: the output of an ended attempt is then complete.
        detail = self._session.client.job(self._identity)
        newest = max((run.number for run in detail.attempts), default=0)
        if reason := self._never_runs.reason(detail.job):
            self._printer.finish()
            raise NeverRunsError(f"job {plain(self._identity)} {reason}")
        if newest == 0:
            self._say_waiting(detail)
            return detail if detail.job.state.ended else None
        self._attempt = self._attempt or newest
        if self._print(detail):
            self._pause_s = SHORTEST_S
            return None
        if newest > self._attempt and not self._only:
            self._printer.finish()
            self._attempt += 1
            self._offsets, self._tail = {}, 0
            note(f"attempt {self._attempt} of job {plain(self._identity)}")
            self._pause_s = SHORTEST_S
            return None
        if not self._only:
            self._say_between(detail)
        return detail if detail.job.state.ended or newest > self._attempt else None

    def _print(self, detail: JobDetail) -> bool:
        """Print new output of all ranks; whether there was any."""
        ranks = self._choice.of(self._session, detail, self._attempt)
        if self._printer.prefix is None:
            self._printer.prefix = len(ranks) > 1
        new = False
        for rank in ranks:
            try:
                new = self._print_rank(rank) or new
            except LostOutputError as error:
                if str(error) not in self._lost:
                    self._lost.add(str(error))
                    self._printer.finish()
                    note(str(error))
        return new

    def _print_rank(self, rank: int) -> bool:
        new = False
        if rank not in self._offsets:
            self._offsets[rank] = self._first_offset(rank)
        pieces = _pieces(
            self._session,
            self._identity,
            attempt=self._attempt,
            rank=rank,
            offset=self._offsets[rank],
        )
        for piece in pieces:
            # Noted piece by piece: the daemon may go away before the next one.
            self._printer.write(rank, piece.text)
            new = new or piece.next > self._offsets[rank]
            self._offsets[rank] = piece.next
        return new

    def _first_offset(self, rank: int) -> int:
        if not self._tail:
            return 0
        try:
            return tail_offset(
                self._session, self._identity, attempt=self._attempt, rank=rank, lines=self._tail
            )
        except NotFoundError:
            return 0  # The file does not exist yet.

    def _say_waiting(self, detail: JobDetail) -> None:
        reason = plain(detail.job.because) or "it waits"
        if reason != self._shown and not detail.job.state.ended:
            note(f"job {plain(self._identity)} has not started: {reason}")
            self._shown = reason

    def _say_between(self, detail: JobDetail) -> None:
        """Say once after each attempt why the job does not run, such as the delay of a retry."""
        job = detail.job
        waits = job.state in (State.PENDING, State.HELD) and job.cause not in ("", "running")
        moment = f"{self._attempt} {job.cause}"  # The sentence counts seconds and changes.
        if waits and moment != self._shown:
            self._printer.finish()
            note(f"job {plain(self._identity)} waits: {plain(job.because)}")
            self._shown = moment

    def _idle(self) -> None:
        sys.stdout.flush()
        self._session.pause(self._pause_s)
        self._pause_s = min(LONGEST_S, 1.5 * self._pause_s)


def _pieces(
    session: Session, identity: str, *, attempt: int, rank: int, offset: int
) -> Iterator[LogPiece]:
    """Everything from that byte on, as far as there is more now."""
    limit = PIECE
    while True:
        try:
            piece = session.client.log(
                identity, attempt=attempt, rank=rank, offset=offset, limit=limit
            )
        except NotFoundError:
            return
        except TooManyError:
            session.pause(1.0)
            continue
        limit = PIECE_MAX
        if piece.lost and offset < piece.offset:
            note(f"{piece.lost:,} bytes in the middle exceeded the log limit and were dropped")
        if piece.next <= offset:
            return
        yield piece
        offset = piece.next
        if offset >= piece.size:
            return
