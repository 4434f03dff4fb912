"""Output of attempts, by global rank, from the nodes where their ranks wrote it.

Where an attempt ran is asked of the nodes: their supervisors wrote it down, so a controller finds
it again after a restart.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple

from treadle.core.errors import InvalidInputError, NodeAwayError
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Part
from treadle.core.machine import Output
from treadle.core.ports import Clock
from treadle.engines.agent import messages
from treadle.engines.fleet.gang import Gang
from treadle.engines.fleet.node_client import NodeClient

FOLLOW_EVERY_S = 0.2
FOLLOW_BYTES = 1 << 16
PLACES_MAX = 10_000  # attempts whose places are remembered


class Place(NamedTuple):
    """Where a rank wrote."""

    node: str
    rank: int  # on that node
    ranks: int = 0  # of the attempt on all nodes; 0: the node knows


class FleetOutput:
    """Reads output through the clients of nodes."""

    def __init__(
        self,
        clients: Mapping[str, NodeClient],
        clock: Clock,
        running: Callable[[AttemptId], Gang | None],
        owed: Callable[[JobId], bool],
    ) -> None:
        """running: the attempt, if it runs or is being launched. owed: whether a launch of the job
        is due: what no node knows may be that one."""
        self._clients = clients
        self._clock = clock
        self._running, self._owed = running, owed
        self._parts: dict[AttemptId, dict[str, Part | None]] = {}

    def remember(self, gang: Gang) -> None:
        """It is launched there: its output is asked for once it has ended, of its nodes alone."""
        self._parts[gang.attempt] = _parts_of(gang)
        if len(self._parts) > PLACES_MAX:
            del self._parts[next(iter(self._parts))]

    async def read(self, attempt: AttemptId, rank: int, *, offset: int, limit: int) -> Output:
        return (await self._read(attempt, rank, offset, limit)).output

    async def follow(self, attempt: AttemptId, rank: int, *, offset: int) -> AsyncIterator[Output]:
        while True:
            found = await self._read(attempt, rank, offset, FOLLOW_BYTES)
            if found.output.data:
                offset = found.output.offset + len(found.output.data)
                yield found.output
            elif found.over:
                return
            else:
                await self._clock.sleep_until(self._clock.now() + FOLLOW_EVERY_S)

    async def _read(
        self, attempt: AttemptId, rank: int, offset: int, limit: int
    ) -> messages.OutputGiven:
        gang = self._running(attempt)
        try:
            place = await self._place(attempt, rank, gang)
        except InvalidInputError:
            if gang is not None or not self._owed(attempt.job):
                raise
            return messages.OutputGiven(output=Output(max(0, offset), b"", 0), over=False)
        client = self._clients.get(place.node)
        if client is None:
            raise NodeAwayError(
                f"rank {rank} of job {attempt.job} ran on node {place.node}, which is not there now"
            )
        asked = messages.OutputAsked(attempt=attempt, rank=place.rank, offset=offset, limit=limit)
        try:
            found = await client.soon("output", asked, messages.OutputGiven)
        except InvalidInputError:
            seat = None if gang is None else gang.seats.get(place.node)
            if seat is None or seat.launch is None or not 0 <= place.rank < seat.launch.ranks:
                raise
            # It is on its way there.
            return messages.OutputGiven(output=Output(max(0, offset), b"", 0), over=False)
        output = found.output._replace(ranks=place.ranks or found.output.ranks)
        # One that runs in our books may only be on its way to its node.
        return messages.OutputGiven(output=output, over=found.over and gang is None)

    async def _place(self, attempt: AttemptId, rank: int, gang: Gang | None) -> Place:
        if gang is not None:
            parts = _parts_of(gang)
            if len(parts) == 1 or None not in parts.values():
                return _place_in(parts, attempt, rank)
        known = self._parts.get(attempt)
        if known is None:
            known = await self._ask_all(attempt)
            if _complete(known):
                self._parts[attempt] = known
            if len(self._parts) > PLACES_MAX:
                del self._parts[next(iter(self._parts))]
        return _place_in(known, attempt, rank)

    async def _ask_all(self, attempt: AttemptId) -> dict[str, Part | None]:
        """The nodes that have the attempt, and their parts in it."""
        clients = list(self._clients.values())
        asked = messages.WhereAsked(attempt=attempt)
        answers = await asyncio.gather(
            *(client.soon("where", asked, messages.Whereabouts) for client in clients),
            return_exceptions=True,
        )
        found: dict[str, Part | None] = {}
        silent: BaseException | None = None
        for client, answer in zip(clients, answers, strict=True):
            if isinstance(answer, messages.Whereabouts):
                if answer.there:
                    found[client.name] = answer.part
            else:
                silent = answer
        if silent is not None and not _complete(found):
            raise silent
        if not found:
            raise InvalidInputError(f"job {attempt.job} has no attempt {attempt.number}")
        return found


def _parts_of(gang: Gang) -> dict[str, Part | None]:
    return {
        node: None if seat.launch is None else seat.launch.part for node, seat in gang.seats.items()
    }


def _complete(parts: Mapping[str, Part | None]) -> bool:
    """Whether all nodes of the attempt are among these."""
    whole = [part for part in parts.values() if part is not None]
    return bool(parts) and len(parts) == (len(whole[0].addresses) if whole else 1)


def _place_in(parts: Mapping[str, Part | None], attempt: AttemptId, rank: int) -> Place:
    for node, part in parts.items():
        if part is not None and part.first_rank <= rank < part.first_rank + part.ranks:
            return Place(node, rank - part.first_rank, part.world_size)
    for node in [node for node, part in parts.items() if part is None]:
        return Place(node, rank)  # On which it is, or began before others joined it.
    world = max((part.world_size for part in parts.values() if part is not None), default=0)
    if 0 <= rank < world:
        raise NodeAwayError(f"the node of rank {rank} of job {attempt.job} is not there now")
    raise InvalidInputError(f"there is no output of rank {rank}")
