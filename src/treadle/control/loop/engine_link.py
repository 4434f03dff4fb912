"""The controller's side of the engine port: facts in, launches out.

An engine may be anybody's, so its facts are checked here: a number that is not finite or a text
that is not UTF-8 would be written to the store and could not be read back.
"""

import logging
from collections.abc import Callable
from dataclasses import fields, replace
from math import isfinite
from typing import get_args

from treadle.control.jobs import Launcher
from treadle.control.loop.inbox import Inbox
from treadle.core.allocation import Allocation
from treadle.core.events import Event
from treadle.core.job import JobId
from treadle.core.job_report import JobReport
from treadle.core.launch import Launch

logger = logging.getLogger("treadle")

_FACTS = get_args(Event)
_MAY_BE_UNKNOWN = ("started_at", "ended_at", "ran_s", "busy")


class EngineLink:
    """What an engine gets to know of its controller (core.ports.Controls)."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.launcher: Launcher | None = None  # set before the first order is given
        # Takes the reports of jobs that come through the engine; set before it begins.
        self.hear: Callable[[JobReport], None] | None = None

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:
        assert self.launcher is not None, "orders come after the launcher"
        return self.launcher.launch(job, action, allocation)

    def tell(self, *facts: Event) -> None:
        for fact in facts:
            if not isinstance(fact, _FACTS):
                logger.error("the engine reported %r, which is not a fact; ignored", fact)
                continue
            self._inbox.tell(_sound(fact))

    def report(self, *reports: JobReport) -> None:
        assert self.hear is not None, "jobs run after the engine has begun"
        for report in reports:
            self.hear(report)


def _sound(fact: Event) -> Event:
    """The fact without numbers and texts that cannot be stored."""
    wrong: dict[str, object] = {}
    for field in fields(fact):
        value = getattr(fact, field.name)
        if isinstance(value, float) and not isfinite(value):
            # What the engine does not know, the controller works out for itself.
            wrong[field.name] = None if field.name in _MAY_BE_UNKNOWN else 0.0
        elif isinstance(value, str) and not _is_text(value):
            wrong[field.name] = value.encode("utf-8", "replace").decode()
    if not wrong:
        return fact
    logger.error("the engine reported %s with wrong values for %s", fact, ", ".join(wrong))
    return replace(fact, **wrong)  # type: ignore[arg-type]  # by name


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
