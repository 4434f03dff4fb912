"""When a part of an attempt is over whose node was lost.

The rule of the fleet: **nothing of a job is launched before every part of its attempt before is
proven to be over.** A part whose end its agent tells is over. One whose node was lost ended without
a word, or runs on, on the machine that had the name of the node then. There are three proofs:

    that machine is no member     its grant has run out since the cluster said so, by the clock of
                                  the controller (agent/grants.py), and it was no member meanwhile:
                                  supervisors have killed what they had
    a person says so              `treadle nodes forget`, of a node that is no member
    it is a member again          its agent says, in a session of this controller, that nothing of
                                  the job is left there; it stops what there is, since no row of
                                  that session names it

An agent on another machine, which has the name of the node now, proves nothing: the first proof
holds. If it is not known on which machine a part was, both are needed while the node is a member.

Time proves nothing about a member: its grant may be renewed, and what is stopped there has its
grace. So the clock of a machine stops when it joins and begins anew when it leaves. A cluster
confirms nothing between `Left` and `Joined` (port.py), so that the clock runs on if the node is
back and its agent is not. When a controller takes over it is not known what was told before: there
no clock runs for a node of which only the agent is missing (`Fleet.coming`). What counts then is
whether the node is a member when the proof is made, and not whether it was one when the loss was
found.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from treadle.core.errors import EngineError
from treadle.core.job import JobId
from treadle.engines.agent import grants, messages
from treadle.engines.fleet.machines import Machines
from treadle.engines.fleet.node_client import AGAIN_LAST_S, NodeClient
from treadle.engines.fleet.port import Fencing, Joined

if TYPE_CHECKING:
    from treadle.engines.fleet.engine import FleetEngine

WAIT_S = 5.0  # of one call, for something to be gone
UNKNOWN = ""  # the machine of parts that an earlier controller launched, perhaps

logger = logging.getLogger("treadle")


class Place(NamedTuple):
    node: str
    machine: str


class LostParts:
    """The proofs that are awaited."""

    def __init__(self, engine: "FleetEngine", fencing: Fencing, machines: Machines) -> None:
        self._engine, self._fencing, self._machines = engine, fencing, machines
        self._clocks: dict[Place, asyncio.TimerHandle] = {}  # of machines that are no members
        # Parts of which the machine is not known: the one that has the name now has nothing.
        self._not_here: set[tuple[str, JobId]] = set()

    def away(self, node: str, machine: str = UNKNOWN) -> None:
        """It left: it is no member from now on. machine: that had its name."""
        self._start_clock(Place(node, machine))
        if UNKNOWN in self._lost_on(node).values():
            self._start_clock(Place(node, UNKNOWN))
        self._watch(node)

    def found(self, nodes: Collection[str]) -> None:
        """A controller has taken over: parts were lost there, as the plan says."""
        for node in nodes:
            self._watch(node)

    def joined(self, member: Joined) -> None:
        """It is a member: from now on its agent is asked, if the parts were on its machine."""
        node = member.node.name
        self._machines.joined(member, beside=bool(self._lost_on(node)))
        self._stop_clock(Place(node, member.machine))
        self._not_here = {each for each in self._not_here if each[0] != node}
        self._watch(node)

    def closing_in_s(self) -> dict[str, float]:
        """How long it takes until nothing of these nodes runs any more."""
        if not self._clocks:
            return {}
        now, found = asyncio.get_running_loop().time(), dict[str, float]()
        for place, clock in self._clocks.items():
            client = self._engine.clients.get(place.node)
            if client is None or not self._asked_about(client):
                left_s = max(0.0, clock.when() - now)
                found[place.node] = max(left_s, found.get(place.node, 0.0))
        return found

    def forget(self, node: str) -> None:
        """A person says that nothing runs there any more."""
        for place in [place for place in self._clocks if place.node == node]:
            self._run_out(place)
        self._fence(node, list(self._lost_on(node)))

    def close(self) -> None:
        for place in list(self._clocks):
            self._stop_clock(place)

    def are_on(self, node: str) -> bool:
        return bool(self._lost_on(node))

    def _lost_on(self, node: str) -> Mapping[JobId, str]:
        """The jobs of which a part is lost there and not proven to be over, with its machine."""
        gangs = [course.gang for course in self._engine.courses.values() if course.gang is not None]
        return {gang.job: gang.seats[node].machine for gang in gangs if gang.is_lost_on(node)}

    def _watch(self, node: str) -> None:
        """Await the proof that each part needs."""
        client = self._engine.clients.get(node)
        here = None if client is None else client.machine
        for machine in set(self._lost_on(node).values()):
            if here is not None and grants.rebooted(machine, here):
                self._run_out(Place(node, machine))
            elif machine != here and Place(node, machine) not in self._clocks:
                self._start_clock(Place(node, machine))
        if client is not None:
            self._engine.keep(self._ask(client))

    # -- by time --------------------------------------------------------------------------------

    def _start_clock(self, place: Place) -> None:
        self._stop_clock(place)
        loop, fencing = asyncio.get_running_loop(), self._fencing
        failover_s = self._machines.failover_s(place.node, fencing.failover_s)
        after_s = fencing.gone_after_s(failover_s)  # It may be for ever, which a loop can wait.
        self._clocks[place] = loop.call_later(after_s, self._run_out, place)

    def _stop_clock(self, place: Place) -> None:
        if (clock := self._clocks.pop(place, None)) is not None:
            clock.cancel()

    def _run_out(self, place: Place) -> None:
        """It is over there: its grant has run out, or that is proven in another way."""
        self._stop_clock(place)
        node, machine = place
        self._engine.give_up(node, machine)
        jobs = [job for job, where in self._lost_on(node).items() if where == machine]
        if machine == UNKNOWN and node in self._engine.clients:
            jobs = [job for job in jobs if (node, job) in self._not_here]
        self._fence(node, jobs)

    # -- by the agent ---------------------------------------------------------------------------

    def _asked_about(self, client: NodeClient) -> tuple[JobId, ...]:
        """The jobs of which something may be left on its machine."""
        node, here = client.name, (client.machine, UNKNOWN)
        lost = self._lost_on(node).items()
        return tuple(j for j, where in lost if where in here and (node, j) not in self._not_here)

    async def _ask(self, client: NodeClient) -> None:
        """Until nothing is left there of what was lost, or the agent is another one."""
        while jobs := self._asked_about(client):

            def asked(session: str, jobs: tuple[JobId, ...] = jobs) -> messages.GoneAsked:
                return messages.GoneAsked(session=session, jobs=jobs, wait_s=WAIT_S)

            gone: tuple[JobId, ...] = ()
            try:
                gone = (await client.within_session("gone", asked, messages.Gone)).jobs
            except EngineError:
                await asyncio.sleep(AGAIN_LAST_S)
            except Exception:  # A job would wait for ever.
                logger.exception("what is left on node %s", client.name)
                await asyncio.sleep(AGAIN_LAST_S)
            if self._engine.clients.get(client.name) is not client:
                return  # It left meanwhile, or its agent is another one: that is asked.
            self._hear_gone(client, gone)

    def _hear_gone(self, client: NodeClient, gone: Collection[JobId]) -> None:
        node, lost = client.name, self._lost_on(client.name)
        running = Place(node, UNKNOWN) in self._clocks
        waits = {job for job in gone if lost.get(job) == UNKNOWN and running}
        self._not_here |= {(node, job) for job in waits}
        self._fence(node, [job for job in gone if job in lost and job not in waits])

    def _fence(self, node: str, jobs: Collection[JobId]) -> None:
        """It is proven: nothing of these jobs runs there."""
        for job in jobs:
            self._not_here.discard((node, job))
            if (course := self._engine.courses.get(job)) is not None:
                self._engine.do(course, course.fence(node))
        if jobs and (member := self._engine.members.get(node)) is not None:
            self._machines.joined(member, beside=bool(self._lost_on(node)))
