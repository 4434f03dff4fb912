"""The newest end of each job: an order that comes after it is answered by it again."""

from collections.abc import Callable
from dataclasses import replace

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded
from treadle.core.job import JobId

ENDS_MAX = 4096  # jobs whose newest end is remembered


class NewestEnds:
    """The newest end of each job that ended lately."""

    def __init__(self) -> None:
        self._ends: dict[JobId, AttemptEnded] = {}

    def add(self, ended: AttemptEnded) -> None:
        self._ends.pop(ended.job, None)
        if ended.attempt and ended.how not in (How.STOPPED, How.REPLACED, How.MACHINE_ERROR):
            self._ends[ended.job] = ended
        if len(self._ends) > ENDS_MAX:
            del self._ends[next(iter(self._ends))]

    def repeat(self, order: Start, tell: Callable[[AttemptEnded], None]) -> bool:
        """Answer an order by the end that came before it; False if there was none."""
        ended = self._ends.get(order.job)
        if ended is None:
            return False
        tell(replace(ended, action=order.id))
        return True
