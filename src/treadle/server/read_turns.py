"""Reads take turns: so many at once for each user and in all, so that none keeps others waiting.

Every request is a few milliseconds of one event loop. Without turns a user with a few hundred
parallel reads would put each submission at the end of a long line. A read that has no turn waits in
its user's own line, and the lines are served one after the other. Reads that must be computed have
turns of their own, and simulations, which take seconds of another process, have theirs: a list of
jobs waits behind neither, and why a job waits is not asked in vain while others simulate.

Orders never wait here, and reads wait for them: while somebody's order is under way no further read
begins. Many who order without a pause keep a read waiting for a moment, and no longer.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.types import Scope

from treadle.core.wording import several
from treadle.server.access import Load, row_of
from treadle.server.limits import TooFastError
from treadle.wire.problems import BusyError

WAIT_S_MAX = 30.0
BEHIND_ORDERS_S_MAX = 0.25


@dataclass(slots=True)
class Turn:
    """One read's turn, given back when its answer begins: a slow reader holds none."""

    turns: "Turns | None"
    user: str

    def give_back(self) -> None:
        turns, self.turns = self.turns, None
        if turns is not None:
            turns.leave(self.user)


@dataclass(slots=True, kw_only=True)
class Turns:
    """How many reads of one kind are carried out at once."""

    most: int
    per_user: int
    waiting_per_user: int = 100
    waiting_most: int = 400
    _taken: Counter[str] = field(default_factory=Counter)
    _lines: "OrderedDict[str, deque[asyncio.Future[None]]]" = field(default_factory=OrderedDict)

    async def enter(self, user: str) -> None:
        """Take a turn, or wait for one; refused if the line is too long already."""
        if user not in self._lines and self._is_free(user):
            self._taken[user] += 1
            return
        line = self._lines.get(user, ())
        if len(line) >= self.waiting_per_user:
            raise TooFastError(
                f"{several(len(line), 'read')} of {user} wait already",
                hint="wait a second, or follow the event stream instead of polling",
            )
        if sum(map(len, self._lines.values())) >= self.waiting_most:
            raise BusyError("the server has too many reads to answer", hint="try again")
        waiting = asyncio.get_running_loop().create_future()
        self._lines.setdefault(user, deque()).append(waiting)
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await waiting
        except BaseException as error:
            if waiting.done() and not waiting.cancelled():
                self.leave(user)  # It was its turn at the same moment.
            else:
                self._drop(user, waiting)
            if isinstance(error, TimeoutError):
                sentence = f"the read had no turn within {WAIT_S_MAX:g} s: the server is busy"
                raise BusyError(sentence, hint="try again") from None
            raise

    def leave(self, user: str) -> None:
        """Give the turn back; the next line that may has the next one."""
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user]
        for name in list(self._lines):
            if not self._is_free(name):
                continue
            line = self._lines.pop(name)
            self._taken[name] += 1
            line.popleft().set_result(None)
            if line:
                self._lines[name] = line  # behind all other lines
            return

    def _is_free(self, user: str) -> bool:
        return self._taken.total() < self.most and self._taken[user] < self.per_user

    def _drop(self, user: str, waiting: "asyncio.Future[None]") -> None:
        line = self._lines.get(user)
        if line is not None and waiting in line:
            line.remove(waiting)
            if not line:
                del self._lines[user]


class Orders:
    """Orders under way, and the reads that wait until there is none."""

    def __init__(self) -> None:
        self._number = 0
        self._over: asyncio.Future[None] | None = None

    def begin(self) -> None:
        self._number += 1

    def end(self) -> None:
        self._number -= 1
        if not self._number and self._over is not None:
            self._over.set_result(None)
            self._over = None

    async def over(self) -> None:
        """Wait until no order is under way, but not for long."""
        if not self._number:
            return
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._over}, timeout=BEHIND_ORDERS_S_MAX)


class ReadTurns:
    """The turns of one server."""

    def __init__(self) -> None:
        self._turns = {
            Load.READ: Turns(most=6, per_user=2),
            Load.COMPUTED: Turns(most=2, per_user=1),
            # One process at a time (control/api/what_if.py); the lines are shorter by so much.
            Load.SIMULATED: Turns(most=1, per_user=1, waiting_per_user=4, waiting_most=16),
        }
        self._orders = Orders()

    @asynccontextmanager
    async def of(self, scope: Scope, user: str) -> AsyncIterator[Turn]:
        """A turn for a request; orders and what is always answered need none."""
        load = _load(scope)
        turns = self._turns.get(load)
        if turns is not None:
            await turns.enter(user)
            turn = Turn(turns, user)
            try:
                await self._orders.over()
                yield turn
            finally:
                turn.give_back()
        elif load is Load.NONE:
            yield Turn(None, user)
        else:
            self._orders.begin()
            try:
                yield Turn(None, user)
            finally:
                self._orders.end()


def _load(scope: Scope) -> Load:
    """As the route's row says; of a page, and of what has no route, as its method says."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    found = row_of(method, scope["path"])
    if found is not None:
        return found.row.load
    return Load.READ if method == "GET" else Load.ORDER
