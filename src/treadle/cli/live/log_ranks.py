"""Which ranks of a job `treadle logs` shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from treadle.cli.live.session import Session, note
from treadle.cli.show.wording import plain
from treadle.wire.jobs import JobDetail
from treadle.wire.problems import LostOutputError, NotFoundError

ALL = "all"
SHORTEST = 4  # bytes of the shortest piece


@dataclass(slots=True)
class RankChoice:
    """A rank, all of them, or the usual ones: all, but one of those that run the same script.

    The ranks of a job that trains by treadle.train print the same lines, so one is shown.
    """

    wanted: str | None = None
    noted: bool = False  # that not all are shown

    def __post_init__(self) -> None:
        text = self.wanted
        if text not in (None, ALL) and not (text.isascii() and text.isdigit() and len(text) < 6):
            raise click.UsageError(f"--rank is {plain(text)}; expected a number from 0, or all")

    def of(self, session: Session, detail: JobDetail, attempt: int) -> Sequence[int]:
        """The ranks to show of an attempt (0: the newest); says once that there are others."""
        if self.wanted not in (None, ALL):
            return [int(self.wanted)]
        own = [run.ranks for run in detail.attempts if run.number == attempt]
        count = sum(own) or detail.ranks
        if self.wanted == ALL and detail.uses_train:  # It may have had more than it has now.
            there = _with_output(session, detail.job.id, attempt)
            return range(max(1, count, there))
        if self.wanted == ALL or not detail.uses_train or count <= 1:
            return range(max(1, count))
        if not self.noted:
            self.noted = True
            note(f"only rank 0 of {count} is shown: all run the same script (--rank all)")
        return [0]


def _with_output(session: Session, job: str, attempt: int) -> int:
    """How many ranks of an attempt have output."""
    try:
        return session.client.log(job, attempt=attempt, rank=0, limit=SHORTEST).ranks
    except (NotFoundError, LostOutputError):
        return 0  # It has not run yet, or its node is lost.
