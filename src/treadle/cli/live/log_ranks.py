"""Which ranks of a job `treadle logs` shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from treadle.cli.live.session import note
from treadle.cli.show.wording import plain
from treadle.wire.jobs import JobDetail

ALL = "all"


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

    def of(self, detail: JobDetail) -> Sequence[int]:
        """The ranks to show of a job; says once that there are others."""
        if self.wanted not in (None, ALL):
            return [int(self.wanted)]
        if self.wanted == ALL or not detail.uses_train or detail.ranks <= 1:
            return range(max(1, detail.ranks))
        if not self.noted:
            self.noted = True
            note(f"only rank 0 of {detail.ranks} is shown: all run the same script (--rank all)")
        return [0]
