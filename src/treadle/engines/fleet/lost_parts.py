"""When a part of an attempt is over whose node was lost.

The rule of the fleet: **nothing of a job is launched before every part of its attempt before is
proven to be over.** A part whose end its agent tells is over. One whose node was lost ended without
a word, or runs on, and there are two proofs:

    the node is no member         `Fencing.gone_after_s` have passed since the cluster said so, and
                                  it was no member meanwhile: its lease has run out, and supervisors
                                  have killed what they had
    the node is a member again    its agent says, in a session of this controller, that nothing of
                                  the job is left there; it stops what there is, since no row of
                                  that session names it. An agent on another machine, which has the
                                  name of the lost node now, proves nothing: the first proof holds

Time proves nothing about a member: its lease may be renewed, and what is stopped there has its
grace. So the clock of a node stops when it joins and begins anew when it leaves, and it does not
run for a node of which only the agent is missing (`Fleet.coming`). The same holds while a
controller takes over: what counts is whether the node is a member when the proof is made, and not
whether it was one when the loss was found.
"""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Protocol

from treadle.core.errors import EngineError
from treadle.core.job import JobId
from treadle.engines.fleet import messages
from treadle.engines.fleet.node_client import AGAIN_LAST_S, NodeClient
from treadle.engines.fleet.port import Fencing

WAIT_S = 5.0  # of one call, for something to be gone


class LostPartsDesk(Protocol):
    """What the proofs need of their engine."""

    clients: dict[str, NodeClient]

    # The jobs of which a part is lost there, and not proven to be over.
    def lost_on(self, node: str) -> Sequence[JobId]: ...
    # It is proven: nothing of these jobs runs there.
    def fence(self, node: str, jobs: Collection[JobId]) -> None: ...
    def keep(self, work: Coroutine[Any, Any, None]) -> None: ...


class LostParts:
    """The proofs that are awaited, by node."""

    def __init__(self, desk: LostPartsDesk, fencing: Fencing) -> None:
        self._desk, self._after_s = desk, fencing.gone_after_s
        self._clocks: dict[str, asyncio.TimerHandle] = {}  # of nodes that are no members
        self._machines: dict[str, str] = {}  # that had the names of nodes when these were lost
        self._due: dict[str, float] = {}  # when clocks that were stopped would have run out

    def away(self, node: str, machine: str = "") -> None:
        """It left: it is no member from now on. machine: where its agent was, if that is known."""
        self._stop_clock(node)
        self._machines[node] = machine
        self._start_clock(node, asyncio.get_running_loop().time() + self._after_s)

    def found_away(self, nodes: Collection[str]) -> None:
        """They are no members when a controller has taken over; some may have left meanwhile."""
        for node in nodes:
            if node not in self._clocks:
                self.away(node)

    def joined(self, client: NodeClient) -> None:
        """It is a member: from now on its agent is asked."""
        self._stop_clock(client.name)
        self._desk.keep(self._ask(client))

    def closing_in_s(self) -> dict[str, float]:
        """How long it takes until nothing of these nodes runs any more."""
        if not self._clocks:
            return {}
        now = asyncio.get_running_loop().time()
        return {node: max(0.0, clock.when() - now) for node, clock in self._clocks.items()}

    def close(self) -> None:
        for node in list(self._clocks):
            self._stop_clock(node)

    def _start_clock(self, node: str, due: float) -> None:
        self._clocks[node] = asyncio.get_running_loop().call_at(due, self._fenced, node)

    def _stop_clock(self, node: str) -> None:
        if (clock := self._clocks.pop(node, None)) is not None:
            self._due[node] = clock.when()
            clock.cancel()

    def _fenced(self, node: str) -> None:
        del self._clocks[node]
        self._desk.fence(node, self._desk.lost_on(node))

    async def _ask(self, client: NodeClient) -> None:
        """Until nothing is left there of what was lost, or the agent is another one."""
        while jobs := tuple(self._desk.lost_on(client.name)):

            def asked(session: str, jobs: tuple[JobId, ...] = jobs) -> messages.GoneAsked:
                return messages.GoneAsked(session=session, jobs=jobs, wait_s=WAIT_S)

            try:
                found = await client.within_session("gone", asked, messages.Gone)
            except EngineError:
                found = messages.Gone(jobs=())
                await asyncio.sleep(AGAIN_LAST_S)
            if self._desk.clients.get(client.name) is not client:
                return  # It left meanwhile, or its agent is another one: that is asked.
            if found.jobs and self._is_another(client.name, found.machine):
                self._start_clock(client.name, self._due[client.name])
                return
            self._desk.fence(client.name, found.jobs)

    def _is_another(self, node: str, machine: str) -> bool:
        """Whether a node of that name was lost on another machine, and its lease may last."""
        lost = self._machines.get(node, "")
        return node in self._due and bool(lost and machine) and lost != machine
