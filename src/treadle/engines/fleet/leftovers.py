"""What a job has left on several nodes, asked of each of them."""

import asyncio
from collections.abc import Iterable

from treadle.core.job import JobId
from treadle.core.machine import Leftovers
from treadle.engines.agent import messages
from treadle.engines.fleet.node_client import NodeClient


async def leftovers(clients: Iterable[NodeClient], verb: str, job: JobId) -> Leftovers:
    """All that they have between them; a node that does not answer counts as having nothing."""

    async def one(client: NodeClient) -> Leftovers:
        def asked(session: str) -> messages.JobAsked:
            return messages.JobAsked(session=session, job=job)

        return await client.within_session(verb, asked, Leftovers)

    found = await asyncio.gather(*map(one, clients), return_exceptions=True)
    good = [each for each in found if isinstance(each, Leftovers)]
    return Leftovers(*(sum(amounts) for amounts in zip(*good, strict=True)))
