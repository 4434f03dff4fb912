"""The facts on their way to the controller; the engine may still put right what nobody has read.

While the controller writes an order down, the job may end by itself. Its end is then in the inbox
when the order arrives. Launching it again would run a job that has ended; so the end answers the
order, as it would have if the order had come first.
"""

import asyncio
from collections import deque
from dataclasses import replace

from treadle.core.events import Event, JobFailed, JobFinished, JobStopped
from treadle.core.job import JobId

_ENDS = JobFinished | JobFailed | JobStopped


class Inbox(asyncio.Queue[Event | None]):
    """A queue of facts; None only wakes whoever reads."""

    _queue: "deque[Event | None]"

    def answers(self, job: JobId, action: int) -> bool:
        """Have an unread end of that job's attempt answer this order; False if there is none."""
        for place, event in enumerate(self._queue):
            if isinstance(event, _ENDS) and event.job == job and event.action < action:
                self._queue[place] = replace(event, action=action)
                return True
        return False
