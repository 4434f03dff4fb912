"""A progress bar that appears only if a run takes longer than two seconds."""

import time
from collections.abc import Sequence

import click

from treadle.core.actions import Action
from treadle.core.events import Event, JobFailed, JobFinished
from treadle.core.scheduler import Scheduler

_AFTER_S = 2.0
_EVERY_S = 0.1


class Progress:
    """Counts ended jobs and draws the bar on standard error."""

    def __init__(self, total: int, label: str) -> None:
        self._total = max(total, 1)
        self._label = label
        self._ended = 0
        self._begun_s = self._drawn_s = time.monotonic()
        self._visible = False

    def __call__(
        self,
        now: float,  # noqa: ARG002
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG002
        scheduler: Scheduler,  # noqa: ARG002
    ) -> None:
        for event in events:
            if isinstance(event, JobFinished | JobFailed):
                self.advance(1)

    def advance(self, count: int) -> None:
        self._ended = min(self._ended + count, self._total)
        at_s = time.monotonic()
        if at_s - self._begun_s > _AFTER_S and at_s - self._drawn_s > _EVERY_S:
            self._drawn_s = at_s
            self._draw(at_s)

    def done(self) -> None:
        """Erase the bar."""
        if self._visible:
            click.echo("\r" + " " * 78 + "\r", nl=False, err=True)
            self._visible = False

    def _draw(self, at_s: float) -> None:
        self._visible = True
        share = self._ended / self._total
        left_s = (at_s - self._begun_s) * (1 - share) / share if share else 0.0
        bar = ("#" * round(30 * share)).ljust(30, ".")
        text = f"\r{self._label[:20]:20} [{bar}] {100 * share:5.1f} %  {left_s:4.0f} s left"
        click.echo(text, nl=False, err=True)
