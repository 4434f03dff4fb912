"""Reasons why jobs wait, as the policy gave them last: for lists while there is no time to ask.

To ask a policy takes time, and a busy daemon may have none for a list. What was said of a job a
moment ago is then better than a general sentence, which would contradict `treadle why`.
"""

from typing import NamedTuple

from treadle.control.api.why_waiting import Reasons
from treadle.core.job import JobId

KEPT_S = 60.0  # an older reason is no reason any more
KEPT_MAX = 1000


class _Said(NamedTuple):
    at: float
    reason: tuple[str, str]


class LastReasons:
    """The newest reason of each job, the one that was given last at the end."""

    def __init__(self) -> None:
        self._said: dict[JobId, _Said] = {}

    def note(self, found: Reasons, now: float) -> None:
        """These are true now."""
        for job, reason in found.items():
            self._said.pop(job, None)
            self._said[job] = _Said(now, reason)
        while len(self._said) > KEPT_MAX or self._oldest_at() < now - KEPT_S:
            del self._said[next(iter(self._said))]

    def at(self, now: float, *, within_s: float = KEPT_S) -> Reasons:
        """Those that are recent."""
        since = now - within_s
        return {job: said.reason for job, said in self._said.items() if said.at >= since}

    def _oldest_at(self) -> float:
        return next((said.at for said in self._said.values()), float("inf"))
