"""Nodes that run nothing, on a clock that skips all waiting: for chaos by the thousand.

The controller's side is the real one, and so is the rule of grants (agent/grants.py). A node here
keeps what a real one has on its disk (attempts, the grant, the epoch), and its agent speaks the
messages of agents, and does what one does with them.
Every launch is checked against all nodes: nothing of another attempt of that job may run anywhere.
"""

import asyncio
import random
import selectors
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, JobStarted
from treadle.core.launch import AttemptId, Launch
from treadle.core.machine import DeviceView, NodeView
from treadle.engines.agent import messages, wire
from treadle.engines.agent.agent_errors import LinkLostError, LostPlaceError, StaleEpochError
from treadle.engines.agent.grants import DRIFT, Grant
from treadle.engines.agent.outbox import Outbox
from treadle.engines.node.fence import LOOK_EVERY_S

START_S = 0.2  # from the order until ranks run
KILLED_S = 4.0  # at most, after the grant has run out: less than the margin of fencing


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop that does not wait: its clock jumps to the next thing that is due."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def skip(self, seconds: float) -> None:
        self._now += seconds


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen again"
        if timeout > 0:
            self._loop.skip(timeout)
        return super().select(0)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Rank:
    """The processes of one attempt on one node, under their supervisor."""

    id: AttemptId
    action: int
    grant: int
    grace_s: float
    stops_at: float | None = None  # it was told to stop
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class SimNode:
    """What outlives agents."""

    def __init__(self, name: str, ground: "Ground") -> None:
        self.name, self.ground = name, ground
        ground.nodes.append(self)
        self.machine = f"machine {len(ground.nodes)}"
        self.node = Node(name, 8, "cpu", 8, 64.0)
        self.epoch = 0
        self.ranks: dict[AttemptId, Rank] = {}  # that are alive
        self.ended: dict[AttemptId, AttemptEnded] = {}  # as supervisors wrote it down
        self._rate = 1.0 + ground.draw.uniform(-DRIFT, DRIFT) / 2  # of its clock
        self.grant, self._joinings = Grant(), 1
        self.failover_s = 0.0  # as the newest controller wants it
        self.agent: SimAgent | None = None

    def clock(self) -> float:
        return now() * self._rate

    def confirm(self) -> None:
        """The cluster says that it is a member (agent/node_grant.py)."""
        before, moment = self.grant.number, self.clock()
        self.grant = self.grant.renewed(moment, moment, self.failover_s, str(self._joinings))
        if self.grant.number != before and self.agent and self.agent.session is not None:
            self.agent.session.over = True

    def join_anew(self) -> None:
        """As Ray does it: what runs goes on with the grant that it has."""
        self._joinings += 1

    def keep(self) -> None:
        """A controller is in charge."""
        self.grant = self.grant.kept(self.clock(), str(self._joinings))

    @property
    def left_s(self) -> float:
        return max(0.0, self.grant.until - self.clock())

    def launch(self, launch: Launch, action: int) -> Rank:
        self.ground.check(self.name, launch.id)
        rank = Rank(launch.id, action, self.grant.number, launch.grace_s)
        self.ranks[launch.id] = rank
        self.watch(rank)
        return rank

    def watch(self, rank: Rank) -> None:
        """Supervisors look at their grant whether there is an agent or not."""
        left_s = self.left_s if rank.grant == self.grant.number else 0.0
        self._later(min(LOOK_EVERY_S, left_s + 1e-6), self._look, rank)

    def _look(self, rank: Rank) -> None:
        if rank.grant != self.grant.number or self.grant.is_over(self.clock()):
            late_s = self.ground.draw.uniform(0.0, KILLED_S)
            self._later(late_s, self._fenced, rank)
        else:
            self.watch(rank)

    def _fenced(self, rank: Rank) -> None:
        self.end(rank, How.LOST, node_lost=True)

    def stop(self, rank: Rank) -> None:
        if rank.stops_at is None:
            rank.stops_at = now() + self.ground.draw.uniform(0.0, rank.grace_s)
            self._later(rank.stops_at - now(), self.end, rank, How.STOPPED)

    def end(self, rank: Rank, how: How, *, node_lost: bool = False) -> None:
        if self.ranks.pop(rank.id, None) is None:
            return
        for timer in rank.timers:
            timer.cancel()
        code = 1 if how is How.EXITED else 137
        ended = AttemptEnded(
            rank.id.job, rank.action, rank.id.number, how, code, node_lost=node_lost
        )
        self.ended[rank.id] = ended
        if self.agent is not None and self.agent.session is not None:
            self.agent.session.ended(rank.id, ended)

    def _later(self, seconds: float, act: Callable[..., None], rank: Rank, *words: Any) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, act, rank, *words)
        rank.timers.append(timer)


class Ground:
    """All nodes, and what must be true of them together."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.nodes: list[SimNode] = []  # also those whose names others have now
        self.wrong: list[str] = []
        self.launches = 0

    def check(self, node: str, attempt: AttemptId) -> None:
        self.launches += 1
        for each in self.nodes:
            self.wrong += [
                f"{now():.1f}: {attempt} begins on {node} while {rank.id} runs on {each.name}, "
                f"{each.machine}"
                for rank in each.ranks.values()
                if rank.id.job == attempt.job and rank.id != attempt
            ]


class SimSession:
    """One controller in charge of one node (agent/session.py, agent/machine.py)."""

    def __init__(self, node: SimNode, number: int) -> None:
        self.node, self.id = node, f"{node.name}-{number}"
        self.over = False
        self.outbox, self.done = Outbox(), 0
        self.wanted: dict[AttemptId, messages.Wanted] = {}  # of attempts that have not ended
        self._over: set[AttemptId] = set()

    def adopt(self, asked: messages.TakeCharge) -> None:
        ranks, ended = self.node.ranks, self.node.ended
        self._over = set(asked.over)
        named = {each.attempt for each in asked.wanted}
        for mark in sorted(self._over - named - set(ranks)):
            self.outbox.put(AttemptEnded(mark.job, -1, mark.number, How.REPLACED))
        for mark in sorted(set(ranks) - named):
            self.node.stop(ranks[mark])
        for each in asked.wanted:
            self.wanted[each.attempt] = each
            if each.attempt in ranks:
                self._go_on(each, ranks[each.attempt])
            elif each.attempt in ended:
                self.ended(each.attempt, ended[each.attempt])
            else:
                self._begin(each)

    def order(self, wanted: messages.Wanted) -> None:
        known, launch = wanted.attempt in self.wanted, wanted.launch
        if known:
            self.wanted[wanted.attempt] = wanted
            self._go_on(wanted, self.node.ranks[wanted.attempt])
        elif wanted.allocation is not None and launch and launch.id == wanted.attempt:
            self.wanted[wanted.attempt] = wanted
            self._begin(wanted)

    def _go_on(self, wanted: messages.Wanted, rank: Rank) -> None:
        if wanted.allocation is None:
            self.node.stop(rank)
        elif not wanted.told:
            self._say_started(rank)

    def _begin(self, wanted: messages.Wanted) -> None:
        if wanted.allocation is None or wanted.launch is None:
            del self.wanted[wanted.attempt]
            how = How.STOPPED if wanted.allocation is None else How.LOST
            self.outbox.put(AttemptEnded(wanted.attempt.job, wanted.action, 0, how))
            return
        rank = self.node.launch(wanted.launch, wanted.action)
        asyncio.get_running_loop().call_later(START_S, self._say_started, rank)

    def ended(self, attempt: AttemptId, ended: AttemptEnded) -> None:
        if (wanted := self.wanted.pop(attempt, None)) is not None:
            self.outbox.put(replace(ended, action=wanted.action))
        elif attempt in self._over:
            self.outbox.put(replace(ended, how=How.REPLACED))

    def _say_started(self, rank: Rank) -> None:
        wanted = self.wanted.get(rank.id)
        if wanted is not None and wanted.allocation is not None and rank.id in self.node.ranks:
            self.outbox.put(
                JobStarted(rank.id.job, wanted.action, 0.0, 1.0, attempt=rank.id.number)
            )


class SimAgent:
    """The agent of a node, in a process of its own."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.session: SimSession | None = None
        self._sessions = 0
        node.agent = self

    async def call(self, verb: str, document: bytes) -> bytes:
        asked = wire.decode(document, messages.VERBS[verb][0])
        try:
            found = getattr(self, f"_{verb.replace('-', '_')}")(asked)
            return wire.answer(await found if asyncio.iscoroutine(found) else found)
        except EngineError as error:
            return wire.refusal(error)
        except Exception as error:
            self.node.ground.wrong.append(f"{now():.1f}: the model failed at {verb}: {error!r}")
            raise

    def _enter(self, epoch: int) -> None:
        if epoch < self.node.epoch:
            raise StaleEpochError("another controller has taken charge")
        self.node.epoch = max(self.node.epoch, epoch)

    def _survey(self, asked: messages.Survey) -> messages.Surveyed:
        if asked.epoch != self.node.epoch:
            self._enter(asked.epoch)
            self.session = None
        node = self.node
        marks = sorted({*node.ranks, *(mark for mark in asked.attempts if mark in node.ended)})
        return messages.Surveyed(found=tuple(self._found(mark) for mark in marks))

    def _found(self, mark: AttemptId) -> messages.FoundAttempt:
        rank = self.node.ranks.get(mark)
        action = self.node.ended[mark].action if rank is None else rank.action
        return messages.FoundAttempt(
            id=mark, alive=rank is not None, action=action, never_was=False, ended=rank is None
        )

    def _take_charge(self, asked: messages.TakeCharge) -> messages.Charged:
        self._enter(asked.epoch)
        if self.node.grant.is_over(self.node.clock()):
            raise EngineError("the cluster has not confirmed this node", retryable=True)
        self._sessions += 1
        self.session = SimSession(self.node, id(self) * 1000 + self._sessions)
        self.session.adopt(asked)
        return messages.Charged(
            session=self.session.id,
            upto=self.session.outbox.upto,
            shared=True,
            failover_s=max(self.node.failover_s, self.node.left_s),
        )

    def _of(self, session: str) -> SimSession:
        if self.session is None or self.session.id != session or self.session.over:
            raise LostPlaceError("this session has ended")
        return self.session

    def _orders(self, asked: messages.Orders) -> messages.Answered:
        session = self._of(asked.session)
        if asked.number == session.done + 1:
            session.done = asked.number
            for each in asked.wanted:
                session.order(each)
        return messages.Answered(session=session.id, upto=session.outbox.upto)

    def _prepare(self, asked: messages.Prepare) -> messages.Prepared:
        self._of(asked.session)
        return messages.Prepared(free=True, port=1)

    def _gone(self, asked: messages.GoneAsked) -> messages.Gone:
        self._of(asked.session)
        left = {mark.job for mark in self.node.ranks}
        return messages.Gone(jobs=tuple(job for job in asked.jobs if job not in left))

    def _archive(self, asked: messages.Archive) -> messages.ArchiveTaken:
        self._of(asked.session)
        return messages.ArchiveTaken(sees=True)

    async def _facts(self, asked: messages.FactsAsked) -> messages.FactsGiven:
        outbox = self._of(asked.session).outbox
        await outbox.wait(asked.after, asked.wait_s)
        self._of(asked.session)
        self.node.keep()
        return messages.FactsGiven(
            facts=tuple(outbox.after(asked.after)),
            upto=outbox.upto,
            view=NodeView.of(self.node.node, _device),
            measurements=(),
            now=now(),
        )


def _device(device: Device) -> DeviceView:
    return DeviceView(name=str(device), number=device.number)


class SimLink(wire.WireLink):
    """The way to one agent, which is slow, loses answers, and is cut."""

    def __init__(self, agent: SimAgent, draw: random.Random, is_up: Callable[[], bool]) -> None:
        self._agent, self._draw, self._is_up = agent, draw, is_up
        self.slow_until = 0.0

    async def call(self, verb: str, document: bytes) -> bytes:
        await asyncio.sleep(self._draw.uniform(0.001, 0.1) + max(0.0, self.slow_until - now()))
        if self._is_up() and self._draw.random() < 0.98:
            # What has arrived is done, whether the caller waits for it or not.
            answer = await asyncio.shield(asyncio.ensure_future(self._agent.call(verb, document)))
            await asyncio.sleep(self._draw.uniform(0.001, 0.05))
            if self._is_up() and self._draw.random() < 0.98:
                return answer
        raise LinkLostError("no answer came")
