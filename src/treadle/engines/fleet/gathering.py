"""Waits until all nodes of a job could begin at once, so that no half of it runs and waits."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.errors import EngineError
from treadle.engines.agent import messages
from treadle.engines.fleet.course import Launching
from treadle.engines.fleet.node_client import NodeClient
from treadle.engines.fleet.port import Joined

WAIT_S = 5.0  # of one call, for devices that another job releases


class Ready(NamedTuple):
    objection: str = ""  # why it cannot be launched there
    port: int = 0  # for the rendezvous, on the first node
    lead_port: int = 0  # for the first one's supervisor, to coordinate members; 0: they stay


def objection(
    order: Launching, members: Mapping[str, Joined], ever: Collection[str]
) -> tuple[How | None, str]:
    """Why the order cannot be carried out, and whether that is a mistake.

    ever: the names of all nodes that were ever there.
    """
    for device in order.allocation.devices:
        member = members.get(device.node)
        if member is None and device.node in ever:
            return How.STOPPED, ""
        if member is None or device.number >= member.node.device_count:
            why = f"job {order.job} was given device {device}, which does not exist"
            return How.ENGINE_ERROR, why
    return None, ""


async def gathered(
    parts: Mapping[str, Allocation | None],
    clients: Mapping[str, NodeClient],
    wanted: Callable[[], bool],
) -> Ready:
    """parts: of each node; None: it has what it needs but a port.

    wanted: whether the order still stands.
    Raises EngineError if it can never be carried out.
    """
    while wanted():
        missing = [node for node in parts if node not in clients]
        if missing:
            return Ready(f"node {missing[0]} is not there now")
        answers = await asyncio.gather(
            *(_prepared(clients[node], own) for node, own in parts.items()), return_exceptions=True
        )
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in errors:
            if not isinstance(error, EngineError) or not error.retryable:
                raise error
        if errors:
            continue  # A node does not answer: it does soon, or it is lost.
        ready = [answer for answer in answers if isinstance(answer, messages.Prepared)]
        if objection := next((each.objection for each in ready if each.objection), ""):
            return Ready(objection)
        if all(each.free for each in ready):
            return Ready(port=ready[0].port, lead_port=ready[0].lead_port)
    return Ready("the order was superseded")


async def _prepared(client: NodeClient, own: Allocation | None) -> messages.Prepared:
    def asked(session: str) -> messages.Prepare:
        return messages.Prepare(session=session, allocation=own, wait_s=WAIT_S)

    # Not much longer than that: it is asked whether the order still stands.
    return await client.within_session("prepare", asked, messages.Prepared, 2 * WAIT_S)
