"""The process that is a driver of the Ray cluster, for one controller.

It takes the lease of the controller, gives each node an agent, has actors that hang started again,
says which nodes come and go, and passes calls on. It ends when its controller does, and gives the
lease back then.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

import msgspec
from ray.exceptions import RayError

from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.engines.agent.agent_host import OTHER_AGENT, Attending, Post, spoken
from treadle.engines.agent.wire import ANSWER_WITHIN_S, refusal
from treadle.engines.clusters.ray import cluster, frames, lease
from treadle.engines.clusters.ray.cluster import GcsValues, RayNode
from treadle.engines.clusters.ray.frames import (
    Answer,
    Ask,
    FromDriver,
    NoAnswer,
    NodeIs,
    NodeLeft,
    Unused,
)
from treadle.engines.clusters.same_cluster import Wanted, mark_of

ATTEND_WITHIN_S = 30.0  # then the controller begins without the nodes that have no agent yet
AGAIN_AFTER_S = 1.0
INLINED_BYTES = 64 << 10  # of one argument; Ray keeps those of more than 100 KiB
SWEEP_EVERY_S = 10.0
ASKED_AT_ONCE = 64  # agents, about jobs of others
PING_EVERY_S = 20.0  # the actors; for the answer they have as long

logger = logging.getLogger("treadle")


class Nodes(Protocol):
    """What a driver needs of its cluster (cluster.py). All of it blocks, and raises RayError."""

    def nodes(self) -> list[RayNode]: ...
    def attended(self) -> Collection[str]: ...
    def death_of(self, node_id: str) -> str: ...
    def reserve(self, node: RayNode, devices: int | None) -> Any: ...  # noqa: ANN401
    def is_reserved(self, group: Any, *, within_s: float) -> bool: ...  # noqa: ANN401
    def agent_of(self, node: RayNode) -> Any: ...  # noqa: ANN401
    def replace_agent(self, node: RayNode) -> Any: ...  # noqa: ANN401
    def restart_actor(self, node: RayNode) -> None: ...
    def others_on(self, node: RayNode, post: bytes) -> str: ...
    def forget(self, node_id: str) -> None: ...
    def forget_the_dead(self) -> None: ...


class Member:
    """A node of the cluster, from when it is seen until it is gone."""

    def __init__(self, node: RayNode) -> None:
        self.node = node
        self.actor: Any = None
        self.told = ""  # the incarnation of the agent that the controller knows
        self.unused = ""  # why it cannot be used, though it is there and nothing of ours is
        self.others = ""  # the state folder of another Treadle whose jobs run there
        self.attending: asyncio.Task[None] | None = None
        self.checking: asyncio.Task[None] | None = None


class Driver:
    """Serves one controller over one connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        nodes: Nodes,
        store: lease.KeyValues,
        *,
        ping_every_s: float = PING_EVERY_S,
    ) -> None:
        """store: where the lease is."""
        self._reader, self._writer = reader, writer
        self._ping_every_s = ping_every_s
        self._nodes, self._store = nodes, store
        self._settings: frames.Settings
        self._members: dict[str, Member] = {}  # by id
        self._named: dict[str, Member] = {}  # the same by name
        self._waiting: dict[str, RayNode] = {}  # nodes whose name another one has, by id
        self._told_unused: dict[str, str] = {}  # by name
        self._lost_lately = False
        self._sweep_at = 0.0  # when what is kept of dead nodes is looked for again
        self._held: lease.Lease | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self) -> None:
        """Until the controller closes the connection, or the lease is lost."""
        try:
            self._settings = await frames.read(self._reader, frames.SETTINGS)
            # From the beginning: a controller may be killed while it waits for its nodes.
            asking = self._keep(self._asked())
            leading = self._keep(self._lead())
            await asyncio.wait({leading, asking}, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                leading.result()
        except InvalidInputError as error:
            await self._send(frames.Refused(str(error)))
        except frames.ClosedError:
            pass
        finally:
            await self._end()

    async def _lead(self) -> None:
        """Ends when another controller has taken the lease."""
        mark = await self._marked()
        self._held = await self._leased()
        self._keep(self._watch_actors())
        await self._begin()
        await self._tell_unused()
        coming = [each.node.name for each in self._members.values() if not each.told]
        await self._send(frames.Ready(self._held.epoch, tuple(coming), mark))
        self._keep(self._beat())
        self._keep(self._watch())
        await self._renew(self._held)
        self._held = None

    async def _marked(self) -> str:
        """The mark of the cluster; one that was started again while we were there will do."""
        asked = self._settings
        wanted = Wanted() if asked.resumes else Wanted(asked.cluster, asked.otherwise)
        return await asyncio.to_thread(mark_of, self._store, wanted)

    async def _leased(self) -> lease.Lease:
        settings = self._settings
        holder = lease.Holder(text=settings.holder, instance=settings.instance)
        taken = await asyncio.to_thread(
            lambda: lease.take(
                self._store,
                holder,
                above=settings.epoch_min,
                resumes=settings.resumes,
                pause=threading.Event().wait,
                before=self._look_for_others,
            )
        )
        await asyncio.to_thread(lease.renew, self._store, taken, 0)
        return taken

    async def _beat(self) -> None:
        while True:
            await self._send(frames.Beat())
            await asyncio.sleep(frames.BEAT_EVERY_S)

    async def _renew(self, held: lease.Lease) -> None:
        """Ends when another controller has taken the lease."""
        beat = 0
        while True:
            await asyncio.sleep(lease.BEAT_EVERY_S)
            beat += 1
            try:
                other = await asyncio.to_thread(lease.renew, self._store, held, beat)
            except RayError as error:
                logger.warning("the lease could not be renewed: %s", cluster.first_line(error))
                continue
            if other is not None:
                await self._send(frames.Refused(f"{other.text} has taken over this Ray cluster"))
                return

    # -- nodes ----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Agents on all nodes; those that take long come later, and those that die do not."""
        await self._look()
        now = asyncio.get_running_loop().time
        give_up_at = now() + ATTEND_WITHIN_S
        while now() < give_up_at:
            _refuse_beside({each.node.name: each.others for each in self._members.values()})
            tasks = [each.attending for each in self._members.values() if not each.unused]
            attending = [task for task in tasks if task is not None and not task.done()]
            if not attending:
                return
            await asyncio.wait(attending, timeout=self._settings.look_every_s)
            await self._look_again()

    def _look_for_others(self) -> None:
        """In a thread, before the lease is taken: it may block."""

        def asked(node: RayNode) -> str:
            return self._nodes.others_on(node, msgspec.json.encode(self._post_of(node)))

        nodes = self._nodes.nodes()
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:  # Agents that say nothing take long.
            others = pool.map(asked, nodes)
            _refuse_beside(dict(zip((node.name for node in nodes), others, strict=True)))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._settings.look_every_s)
            await self._look_again()
            await self._tell_unused()

    async def _tell_unused(self) -> None:
        """Which nodes others have, or have the name of another, if that has changed."""
        now = {each.node.name: each.unused for each in self._members.values() if each.unused}
        for node in self._waiting.values():
            now[f"{node.name} at {node.address}"] = (
                f"another node of the Ray cluster is called {node.name}; give it another name with "
                "ray start --labels treadle.io/name=NAME"
            )
        before, self._told_unused = self._told_unused, now
        for name in before.keys() | now.keys():
            if now.get(name) != before.get(name):
                await self._send(Unused(name, now.get(name, "")))

    async def _look_again(self) -> None:
        try:
            await self._look()
        except RayError as error:
            logger.warning("Ray does not list its nodes: %s", cluster.first_line(error))
        except Exception:  # No node would ever join or leave again.
            logger.exception("the nodes of the Ray cluster")

    async def _look(self) -> None:
        found = {node.id: node for node in await asyncio.to_thread(self._nodes.nodes)}
        # A node may have been reserved in the very moment when it died, perhaps by a driver whose
        # controller was killed.
        now = asyncio.get_running_loop().time()
        if self._lost_lately or now >= self._sweep_at:
            await asyncio.to_thread(self._nodes.forget_the_dead)
            self._sweep_at = now + SWEEP_EVERY_S
        gone = [each for each in self._members if each not in found]
        self._lost_lately = bool(gone)
        for each in gone:
            await self._lose(self._members.pop(each))
        self._waiting = {id_: node for id_, node in self._waiting.items() if id_ in found}
        names = {member.node.name: member.node.id for member in self._members.values()}
        for node in await self._in_turn(list(found.values())):
            if names.setdefault(node.name, node.id) != node.id:
                self._wait_for_name(node)
            elif node.id not in self._members:
                if node.problem:
                    logger.warning("node %s is used, though %s", node.name, node.problem)
                member = Member(node)
                self._members[node.id] = self._named[node.name] = member
                self._waiting.pop(node.id, None)
                self._attend(member)

    async def _in_turn(self, found: list[RayNode]) -> list[RayNode]:
        """Of nodes with one name, the one that has an agent comes first: jobs run there."""
        if max(Counter(node.name for node in found).values(), default=0) > 1:
            attended = await asyncio.to_thread(self._nodes.attended)
            found.sort(key=lambda node: node.id not in attended)
        return found

    def _wait_for_name(self, node: RayNode) -> None:
        """Its Ray was started again before the cluster noticed that the one before is gone.

        Or two nodes have one name, which only their owner can mend.
        """
        if node.id not in self._waiting:
            self._waiting[node.id] = node
            logger.warning(
                "another node of the Ray cluster is called %s: the one with the id %s is not used "
                "before that one is gone; ray start --node-name gives it a name of its own",
                node.name,
                node.id[:12],
            )

    async def _lose(self, member: Member) -> None:
        """It is no member any more, and that is told, whatever Ray says of it."""
        del self._named[member.node.name]
        for task in (member.attending, member.checking):
            if task is not None:
                task.cancel()
        try:
            why = await asyncio.to_thread(self._nodes.death_of, member.node.id)
        except RayError as error:
            why = f"the node is gone, and Ray does not say why ({cluster.first_line(error)})"
        await self._send(NodeLeft(member.node.name, why))
        await asyncio.to_thread(self._nodes.forget, member.node.id)

    def _is_there(self, member: Member) -> bool:
        return self._members.get(member.node.id) is member

    def _attend(self, member: Member) -> None:
        """A call of before may say that an agent is missing when its node is gone."""
        if not self._is_there(member):
            return
        if member.attending is None or member.attending.done():
            member.attending = self._keep(self._give_agent(member))

    async def _give_agent(self, member: Member) -> None:
        """Reserve the node and have an agent there; again and again until it succeeds."""
        said = ""
        while self._is_there(member):
            try:
                problem = await self._try_agent(member)
            except RayError as error:
                problem = cluster.first_line(error)
            except TimeoutError:
                problem = "its agent does not answer"
            except Exception as error:
                logger.exception("the agent of node %s", member.node.name)
                problem = cluster.first_line(error)
            if not problem:
                return
            if problem != said:
                logger.warning("node %s is not used yet: %s", member.node.name, problem)
                said = problem
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _try_agent(self, member: Member) -> str:
        """Empty if the node has an agent that the controller knows, else why not."""
        node, devices = member.node, self._settings.options.devices
        group = await asyncio.to_thread(self._nodes.reserve, node, devices)
        if not await asyncio.to_thread(self._nodes.is_reserved, group, within_s=5.0):
            wanted = cluster.bundle(node, devices).items()
            all_of = " and ".join(several(int(count), what) for what, count in wanted)
            member.unused = f"other Ray work holds a part of its {all_of}"
            return member.unused
        member.unused = ""
        member.actor = await asyncio.to_thread(self._nodes.agent_of, node)
        answer = await self._attended(member)
        if answer.version != spoken():
            member.actor = await asyncio.to_thread(self._nodes.replace_agent, node)
            answer = await self._attended(member)
        member.others = answer.others
        if answer.node is None:
            return answer.error
        if answer.agent != member.told:
            member.told = answer.agent
            await self._send(NodeIs(answer.node, node.address, answer.agent, answer.machine))
        return ""

    async def _watch_actors(self) -> None:
        while True:
            await asyncio.sleep(self._ping_every_s)
            for member in self._members.values():
                idle = member.checking is None or member.checking.done()
                if member.actor is not None and idle:
                    member.checking = self._keep(self._check(member))

    async def _check(self, member: Member) -> None:
        """An actor that hangs is started again: nothing is lost with it, and agents go on.

        One that cannot be reached is started again too, when it can.
        """
        try:
            async with asyncio.timeout(self._ping_every_s):
                await member.actor.ping.remote()
        except TimeoutError:
            try:
                await asyncio.to_thread(self._nodes.restart_actor, member.node)
            except Exception as error:  # Ray may raise anything.
                logger.warning("node %s: %s", member.node.name, cluster.first_line(error))
        except Exception:  # It has died, and the next call finds the next one.
            self._attend(member)

    async def _attended(self, member: Member) -> Attending:
        document = msgspec.json.encode(self._post_of(member.node))
        async with asyncio.timeout(ANSWER_WITHIN_S):
            answer: bytes = await member.actor.attend.remote(document)
        return msgspec.json.decode(answer, type=Attending)

    def _post_of(self, node: RayNode) -> Post:
        """Slots are those that Ray has there; GPUs are chosen where there are GPUs."""
        settings = self._settings
        slots = cluster.bundle(node, settings.options.devices).get("CPU")
        options = replace(
            settings.options,
            devices=None if slots is None else int(slots),
            gpus=settings.options.gpus if slots is None else (),
            avoid=settings.options.avoid if slots is None else (),
        )
        return Post(
            name=node.name,
            address=node.address,
            root=settings.root,
            identity=settings.identity,
            member=node.id,
            rack=node.rack,
            gpu_count=node.gpus,
            device_type=node.device_type,
            options=options,
        )

    # -- calls ----------------------------------------------------------------------------------

    async def _asked(self) -> None:
        """Ends when the controller has."""
        with contextlib.suppress(frames.ClosedError):
            while True:
                self._keep(self._pass_on(await frames.read(self._reader, frames.ASK)))

    async def _pass_on(self, ask: Ask) -> None:
        answer = await self._answer(ask)
        try:
            await self._send(answer)
        except frames.TooLongError as error:
            logger.error("what node %s answers to %s: %s", ask.node, ask.verb, error)  # noqa: TRY400
            await self._send(Answer(ask.number, refusal(error)))

    async def _answer(self, ask: Ask) -> Answer | NoAnswer:
        member = self._named.get(ask.node)
        if member is None or member.actor is None:
            return NoAnswer(ask.number, f"node {ask.node} is no member of the Ray cluster")
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                pieces = inlined(ask.document)
                answer: bytes = await member.actor.call.remote(ask.agent, ask.verb, *pieces)
        except TimeoutError:
            return NoAnswer(ask.number, f"node {ask.node} has not answered to {ask.verb}")
        except Exception as error:  # Ray may raise anything, and the controller waits.
            self._attend(member)
            return NoAnswer(ask.number, cluster.first_line(error))
        if answer.startswith(OTHER_AGENT):
            self._attend(member)
            return NoAnswer(ask.number, f"the agent of node {ask.node} was started again")
        return Answer(ask.number, answer[1:])

    # -- leaves ---------------------------------------------------------------------------------

    async def _send(self, message: FromDriver) -> None:
        with contextlib.suppress(OSError):
            self._writer.write(frames.packed(message))
            await self._writer.drain()

    def _keep(self, work: Any) -> "asyncio.Task[Any]":  # noqa: ANN401
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._held is not None:
            with contextlib.suppress(RayError):
                await asyncio.to_thread(self._nodes.forget_the_dead)
                await asyncio.to_thread(lease.give_back, self._store, self._held)
        with contextlib.suppress(OSError):
            self._writer.close()


def inlined(document: bytes) -> list[bytes]:
    """In pieces that Ray sends with the call.

    Longer ones are in its object store, which it may spill to a disk, and launches have secrets.
    """
    return [document[at : at + INLINED_BYTES] for at in range(0, len(document), INLINED_BYTES)]


def _refuse_beside(others: Mapping[str, str]) -> None:
    """Agents would be ours, and jobs of another Treadle would end with their grants.

    others: its state folder, by node; empty where none of its jobs runs.
    """
    names = sorted(name for name, folder in others.items() if folder)
    if names:
        raise InvalidInputError(
            f"jobs of another Treadle run on this Ray cluster, on {', '.join(names)}: start that "
            f"one, with --state {others[names[0]]}, or end them with "
            "python -m treadle.engines.clusters.ray leave ADDRESS"
        )


async def _serve(address: str, link: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=link)
    try:
        await asyncio.to_thread(cluster.connect, address)
    except InvalidInputError as error:
        with contextlib.suppress(OSError):
            writer.write(frames.packed(frames.Refused(str(error))))
            await writer.drain()
    else:
        await Driver(reader, writer, cluster, GcsValues()).serve()
    sys.stdout.flush()
    os._exit(0)  # Ray's own end, and calls in threads, may wait for a cluster that does not answer.


def main() -> None:
    """python -m treadle.engines.clusters.ray.driver ADDRESS DESCRIPTOR"""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s ray: %(message)s")
    address, descriptor = sys.argv[1:]
    asyncio.run(_serve(address, socket.socket(fileno=int(descriptor))))


if __name__ == "__main__":
    main()
