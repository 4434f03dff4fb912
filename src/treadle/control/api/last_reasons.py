"""Reasons why jobs wait, as the policy gave them last: for lists while there is no time to ask.

To ask a policy takes time, and a busy daemon may have none for a list. What was said of a job a
moment ago is then better than a general sentence, which would contradict `treadle why`. Where it
took long to ask, what was said is good for a while, so that lists take a tenth of the daemon.
"""

from typing import NamedTuple

from treadle.control.api.why_waiting import Reasons
from treadle.core.job import JobId

KEPT_S = 60.0  # an older reason is no reason any more
KEPT_MAX = 1000
SMALL_S = 0.02  # asked so quickly, a policy is asked for every list
PACE = 10.0  # others are not asked again for so many times as long as they took
OLD_S_MAX = 1.0


class _Said(NamedTuple):
    at: float
    reason: tuple[str, str]


class LastReasons:
    """The newest reason of each job, the one that was given last at the end."""

    def __init__(self) -> None:
        self._said: dict[JobId, _Said] = {}
        self._good_s = 0.0

    def note(self, found: Reasons, now: float, took_s: float = 0.0) -> None:
        """These are true now; took_s: what it took to ask for them."""
        self._good_s = min(PACE * took_s, OLD_S_MAX) if took_s > SMALL_S else 0.0
        for job, reason in found.items():
            self._said.pop(job, None)
            self._said[job] = _Said(now, reason)
        while len(self._said) > KEPT_MAX or self._oldest_at() < now - KEPT_S:
            del self._said[next(iter(self._said))]

    def at(self, now: float) -> Reasons:
        """Those that are recent."""
        since = now - KEPT_S
        return {job: said.reason for job, said in self._said.items() if said.at >= since}

    def is_good(self, job: JobId, now: float) -> bool:
        """Whether it was asked so lately that it need not be asked again."""
        said = self._said.get(job)
        return said is not None and now - said.at < self._good_s

    def _oldest_at(self) -> float:
        return next((said.at for said in self._said.values()), float("inf"))
