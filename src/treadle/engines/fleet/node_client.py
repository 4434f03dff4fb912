"""The controller's side of one node: takes charge, sends orders, takes facts.

Orders go out in numbered batches (batches.py): one that got no answer is sent again, and carried
out once.
If the agent has lost the thread (it is another one, or its grant had run out), the client takes
charge anew. What the node must know then comes from the desk: orders that were not sent yet are in
there too.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from treadle.core.cluster import Device
from treadle.core.errors import EngineError
from treadle.core.machine import DeviceOrder, NodeOrder
from treadle.core.wording import span
from treadle.engines.agent import grants, messages
from treadle.engines.agent.agent_errors import (
    ClusterAwayError,
    LinkLostError,
    LostPlaceError,
    StaleEpochError,
    UnconfirmedError,
)
from treadle.engines.fleet.batches import batches, first_batch
from treadle.engines.fleet.port import Joined

if TYPE_CHECKING:
    from treadle.engines.fleet.engine import FleetEngine

FACTS_WAIT_S = 2.0  # a call that brings no facts brings the newest measurements
AGAIN_FIRST_S, AGAIN_LAST_S = 0.05, 2.0
WITHIN_S = 60.0  # for an answer in a session
PERSON_WAITS_S = 15.0  # for an answer; a client of the API gives up after 30 s
SLOW_AFTER_S = 2.5 * FACTS_WAIT_S  # without an answer, though one is asked for all the time
SILENT_AFTER_S = 2 * SLOW_AFTER_S

Answer = TypeVar("Answer")
logger = logging.getLogger("treadle")


class Health(NamedTuple):
    """Whether an agent answers, for people (core.machine.NodeView)."""

    word: str  # "joining", "answers", "slow", "silent", "unconfirmed"; empty: as it is here
    since_at: float | None = None  # its last answer, or confirmation; seconds since 1970
    because: str = ""  # why it is not confirmed


class NodeClient:
    """One node, from when it joined until it left."""

    def __init__(self, joined: Joined, engine: "FleetEngine") -> None:
        self.name = joined.node.name
        # Whether its jobs keep their checkpoints in the controller's folder; None: not known yet.
        self.shared: bool | None = None
        self._link, self.machine = joined.link, joined.machine
        self._joined, self._heard = time.monotonic(), 0.0  # 0: it has not answered yet
        self._heard_at = 0.0  # seconds since 1970
        self.away = ""  # why the cluster has no contact; what runs there may go on
        self.doubt = ""  # why the cluster does not confirm the node, by its agent; empty: it does
        self._confirmed_at = 0.0  # if there is a doubt: before; seconds since 1970
        self._unasked = 0.0  # when the cluster could not be asked last
        self._engine = engine
        self._orders: list[messages.Wanted] = []
        self._more = asyncio.Event()
        self._session = ""
        self._number = 0  # of the newest batch
        self._upto = self._reports_upto = 0  # facts and reports up to these were taken
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._in_charge = asyncio.Event()
        self._left = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self._left or self._task is not None:
            return
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"node {self.name}")

    def leave(self) -> None:
        """From now on it says nothing more, also of answers that are there already."""
        self._left = True
        self._in_charge.set()  # Let go of those who wait for that.

    async def close(self) -> None:
        self.leave()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._let_go()

    def follow(self, joined: Joined) -> None:
        """Another agent speaks for the node, before this began: what is asked goes there."""
        self._link, self.machine = joined.link, joined.machine

    def send(self, wanted: messages.Wanted) -> None:
        """Say what is wanted; it is on its way when this returns."""
        self._orders.append(wanted)
        self._more.set()

    async def ready(self) -> None:
        """Until it is in charge, and has taken what the agent had to say."""
        await self._in_charge.wait()

    async def ask(self, verb: str, document: object, kind: type[Answer]) -> Answer:
        """One call. Raises what the agent raised, or LinkLostError."""
        asked = time.monotonic()
        try:
            answer = await self._link.ask(verb, document, kind)
        except ClusterAwayError:
            self._unasked = time.monotonic()
            raise
        if self._left:
            raise LinkLostError(f"node {self.name} is not there any more")
        self._note_answer(asked)
        return answer

    def _note_answer(self, asked: float) -> None:
        """An answer that took long may have been on its way while the node was cut off."""
        now = time.monotonic()
        self._heard = now if now - asked <= SLOW_AFTER_S else max(self._heard, asked)
        self._heard_at = time.time() - (now - self._heard)

    async def soon(self, verb: str, document: object, kind: type[Answer]) -> Answer:
        """One call for which a person waits; EngineError if no answer comes."""
        if self.is_silent:
            raise EngineError(self.silence(), retryable=True)
        try:
            async with asyncio.timeout(PERSON_WAITS_S):
                return await self.ask(verb, document, kind)
        except TimeoutError:
            raise EngineError(self._late(PERSON_WAITS_S), retryable=True) from None

    @property
    def is_slow(self) -> bool:
        return bool(self.away) or self._quiet_s() > SLOW_AFTER_S

    @property
    def is_silent(self) -> bool:
        return bool(self.away) or self._quiet_s() > SILENT_AFTER_S

    def silence(self) -> str:
        """How long it has not answered, in words for people."""
        return f"the agent of node {self.name} has not answered for {span(self._quiet_s())}"

    def unconfirmed(self) -> str:
        """How long there has been a doubt, in words for people."""
        return f"{self.doubt} ({span(time.time() - self._confirmed_at)} so far)"

    def _note_doubt(self, why: str, for_s: float = 0.0) -> None:
        """Empty: there is none. for_s: since it was confirmed, if that is known."""
        if for_s or not self.doubt:
            self._confirmed_at = time.time() - for_s
        self.doubt = why

    def _quiet_s(self) -> float:
        """How long it has not answered, as far as it could be asked."""
        return time.monotonic() - max(self._heard or self._joined, self._unasked)

    def health(self) -> Health:
        return self.health_at(time.monotonic())

    def health_at(self, now: float) -> Health:
        quiet_s = now - (self._heard or self._joined)
        since_at = self._heard_at or None
        if self.away or quiet_s > SILENT_AFTER_S:
            return Health("silent", since_at, self.away)
        if not self._heard:
            return Health("joining")
        if self.doubt:
            return Health("unconfirmed", self._confirmed_at, self.doubt)
        if quiet_s > SLOW_AFTER_S:
            return Health("slow", since_at)
        return Health("answers" if self.machine else "")

    async def patiently(self, verb: str, document: object, kind: type[Answer]) -> Answer:
        """The same, again and again while that makes sense."""
        pause_s = AGAIN_FIRST_S
        while True:
            try:
                return await self.ask(verb, document, kind)
            except (LostPlaceError, StaleEpochError):
                raise
            except EngineError as error:
                if not error.retryable or self._left:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(AGAIN_LAST_S, pause_s * 2)

    async def within_session(
        self,
        verb: str,
        make: Callable[[str], object],
        kind: type[Answer],
        within_s: float = WITHIN_S,
    ) -> Answer:
        """A call in the present session, or in the next one; EngineError if it takes too long."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    await self._in_charge.wait()
                    if self._left:
                        break
                    with suppress(LostPlaceError):
                        found = await self.patiently(verb, make(self._session), kind)
                        if isinstance(found, messages.Answered):
                            await self._taken(found)
                        return found
                    await asyncio.sleep(AGAIN_FIRST_S)
        except TimeoutError:
            raise EngineError(self._late(within_s), retryable=True) from None
        raise EngineError(f"node {self.name} is not there now", retryable=True)

    async def order_device(self, device: Device, order: DeviceOrder) -> None:
        def asked(session: str) -> messages.DeviceAsked:
            return messages.DeviceAsked(session=session, device=device, order=order)

        await self._order("order-device", asked)

    async def order_node(self, order: NodeOrder) -> None:
        def asked(session: str) -> messages.NodeAsked:
            return messages.NodeAsked(session=session, order=order)

        await self._order("order-node", asked)

    async def _order(self, verb: str, asked: Callable[[str], object]) -> None:
        if self.is_silent:
            why = f"{self.silence()}: it takes no orders until it does"
            raise EngineError(why, retryable=True)
        await self.within_session(verb, asked, messages.Answered, PERSON_WAITS_S)

    def _late(self, within_s: float) -> str:
        return f"the agent of node {self.name} has not answered within {span(within_s)}"

    # -- the session ----------------------------------------------------------------------------

    async def _run(self) -> None:
        said = ""
        while not self._left:
            try:
                await self._take_charge()
                await self._work()
            except LostPlaceError as error:
                logger.warning("node %s is taken charge of anew: %s", self.name, error)
            except StaleEpochError as error:
                if str(error) != said:
                    said = str(error)
                    logger.error(  # noqa: TRY400
                        "%s: it takes no orders of this one; if no other Treadle uses it, treadle "
                        "down and treadle up take charge of it",
                        said,
                    )
                await asyncio.sleep(AGAIN_LAST_S)
            except EngineError as error:
                logger.error("node %s: %s", self.name, error)  # noqa: TRY400
                await asyncio.sleep(AGAIN_LAST_S)
            except Exception:  # A node without its client would be a node without a word.
                logger.exception("node %s", self.name)
                await asyncio.sleep(AGAIN_LAST_S)
            finally:
                if not self._left:
                    self._in_charge.clear()
                self._let_go()

    async def _take_charge(self) -> None:
        pause_s = AGAIN_FIRST_S
        while True:
            charge = self._engine.charge(self.name)  # Whatever was ordered before is in it.
            self._orders.clear()
            try:
                answered = await self._charged(charge)
                break
            except (LostPlaceError, StaleEpochError):
                raise
            except UnconfirmedError as error:
                self._note_doubt(str(error))
            except EngineError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(AGAIN_LAST_S, pause_s * 2)
        self._session, self._number, self._upto, self._reports_upto = answered.session, 0, 0, 0
        self.shared = answered.shared
        self._engine.runs_under(self.name, grants.limit(answered.failover_s))
        await self._poll(0.0)
        while self._upto < answered.upto:
            await self._poll(FACTS_WAIT_S)
        self._in_charge.set()

    async def _charged(self, charge: messages.TakeCharge) -> messages.Charged:
        """Take charge, in as many messages as that needs."""
        *before, last = batches(charge.wanted, self._link.bytes_max)
        for wanted in before:
            announce = messages.Announce(epoch=charge.epoch, wanted=wanted)
            await self.ask("announce", announce, messages.Announced)
        charge = replace(charge, wanted=last, announced=sum(map(len, before)))
        return await self.ask("take-charge", charge, messages.Charged)

    async def _work(self) -> None:
        """Until the session ends, by an error."""
        tasks = [asyncio.ensure_future(self._send_orders()), asyncio.ensure_future(self._listen())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _send_orders(self) -> None:
        while True:
            self._more.clear()
            count = first_batch(self._orders, self._link.bytes_max)
            batch, self._orders = self._orders[:count], self._orders[count:]
            if not batch:
                await self._more.wait()
                continue
            self._number += 1
            document = messages.Orders(
                session=self._session, number=self._number, wanted=tuple(batch)
            )
            await self.patiently("orders", document, messages.Answered)

    async def _listen(self) -> None:
        while True:
            await self._poll(FACTS_WAIT_S)

    async def _poll(self, wait_s: float) -> None:
        asked = messages.FactsAsked(
            session=self._session,
            after=self._upto,
            wait_s=wait_s,
            reports_after=self._reports_upto,
        )
        found = await self.patiently("facts", asked, messages.FactsGiven)
        doubt = found.doubt
        self._note_doubt("" if doubt is None else doubt.why, 0.0 if doubt is None else doubt.for_s)
        self._engine.see(self.name, found)  # What jobs said before they ended is heard before that.
        for each in found.facts:
            self._engine.hear(self.name, each)
        self._upto, self._reports_upto = found.upto, found.reports_upto
        for upto, waiter in self._waiting:
            if upto <= self._upto and not waiter.done():
                waiter.set_result(None)
        self._waiting = [(upto, waiter) for upto, waiter in self._waiting if not waiter.done()]

    async def _taken(self, answered: messages.Answered) -> None:
        """Until the facts that belong to an answer were taken, or the session is over."""
        if answered.session == self._session and answered.upto > self._upto:
            waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting.append((answered.upto, waiter))
            await waiter

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
