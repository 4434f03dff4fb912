"""When to plan everything anew.

With a thousand jobs, one that comes or ends changes little, and what runs, carried on, is most
often worth more than a new plan, which would move many jobs. So a decision costs what has changed:
all is planned anew when one in a hundred of the jobs may have, or after ten minutes while jobs
wait. With fewer than 200 jobs that is every time.
"""

from math import inf
from typing import NamedTuple

_ONE_IN = 100  # jobs
_HOLDS_S = 600.0
MANY = 2 * _ONE_IN


class Anew(NamedTuple):
    """The last time that all was planned anew."""

    at: float = -inf
    jobs: int = 0  # in the system then
    since: int = 0  # decisions since then

    @property
    def ends_at(self) -> float:
        return self.at + _HOLDS_S

    def holds(self, now: float, jobs: int, weighed: int) -> bool:
        """Whether too little has changed since; jobs: in the system now; weighed: of these, those
        that are not too far back in the queue."""
        few = weighed // _ONE_IN
        return now < self.ends_at and self.since + 1 < few and abs(jobs - self.jobs) < few

    def later(self) -> "Anew":
        return self._replace(since=self.since + 1)
