"""One controller in charge of one node: what is done for it, and the facts it has not taken yet.

A session ends when another controller takes charge, when the same one does so anew, or when the
grant has run out. The next one finds what runs.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from treadle.core.events import AttemptEnded, JobStarted
from treadle.core.job import JobId
from treadle.engines.agent.agent_errors import LostPlaceError
from treadle.engines.agent.machine import Machine
from treadle.engines.agent.messages import Fact, Wanted
from treadle.engines.agent.outbox import Outbox
from treadle.engines.node import fence

API_URL, JOB_TOKEN = "TREADLE_API_URL", "TREADLE_JOB_TOKEN"
SHOWN_EVERY_S = 0.5


class AgentClock:
    """Seconds since the machine was started."""

    def now(self) -> float:
        return fence.now()

    async def sleep_until(self, moment: float) -> None:
        while (left_s := moment - self.now()) > 0:
            await asyncio.sleep(left_s)


@dataclass
class Session:
    """A controller in charge."""

    id: str
    trouble: Callable[[], str]  # why the grant of the node is not renewed; empty: it is
    machine: Machine = field(init=False)
    outbox: Outbox = field(default_factory=Outbox)
    tokens: dict[JobId, str] = field(default_factory=dict)  # that jobs report with
    done: int = 0  # the number of the newest batch of orders that was carried out
    _shown_at: float = 0.0
    over: str = ""  # why the controller must take charge anew

    def check(self, session: str) -> None:
        if session != self.id:
            raise LostPlaceError("this session has ended")
        if self.over or self.outbox.overflowed:
            raise LostPlaceError(self.over or "the controller has not taken facts for too long")

    def tell(self, fact: Fact) -> None:
        if isinstance(fact, AttemptEnded) and fact.node_lost:
            fact = replace(fact, error=self.trouble())
        self.outbox.put(fact)

    def is_due(self, facts: Iterable[Fact]) -> bool:
        """Whether a view of the machine goes with these facts: jobs come and go much faster."""
        now = fence.now()
        due = now >= self._shown_at + SHOWN_EVERY_S or not all(map(_is_of_job, facts))
        if due:
            self._shown_at = now
        return due

    def note(self, wanted: Iterable[Wanted]) -> None:
        """Their jobs may report, also when they have ended: until they are tidied up."""
        for each in wanted:
            if each.launch is not None and JOB_TOKEN in each.launch.secrets:
                self.tokens[each.attempt.job] = each.launch.secrets[JOB_TOKEN]


def _is_of_job(fact: Fact) -> bool:
    return isinstance(fact, AttemptEnded | JobStarted)
