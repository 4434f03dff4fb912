"""The nodes of a cluster, an agent pod on each, and who is a member: for one controller.

Nodes, pods and leases are watched; for each node a task compares what is with what should be, when
one of them changes. A node is a member as long as its lease has the name of its pod. Its agent
renews that, and only the controller takes the name out, with the version that it read: after that
the agent renews nothing more, which is what a node that left must promise (fleet/port.py).

Time is counted in renewals of the controller's own lease, as the same watch says them. So neither
a silent API server nor a controller that was stopped makes a node look dead.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from treadle.core.cluster import Node
from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.agent.agent_errors import LinkLostError
from treadle.engines.agent.agent_host import OTHER_AGENT, Attending, Post, spoken
from treadle.engines.agent.wire import ANSWER_WITHIN_S
from treadle.engines.clusters.kubernetes import agent_pods
from treadle.engines.clusters.kubernetes.api import Api, ApiError, Object
from treadle.engines.clusters.kubernetes.calls import AgentCalls
from treadle.engines.clusters.kubernetes.keys import keys
from treadle.engines.clusters.kubernetes.lease import (
    CONFLICT,
    ControllerLease,
    LostLeaseError,
    lease,
    renewed,
)
from treadle.engines.clusters.kubernetes.names import (
    AGENT,
    CONTROLLER_LEASE,
    LABELS,
    RACK,
    SELECTOR,
    TYPED,
    lease_of,
    leases,
    node_of_lease,
    node_of_pod,
    pod_of,
    pods,
)
from treadle.engines.clusters.kubernetes.watching import Watch, Watched
from treadle.engines.context import EngineOptions

ATTEND_WITHIN_S = 45.0  # then the controller begins without the nodes that have no agent yet
PING_WITHIN_S = 5.0
AGAIN_FIRST_S, AGAIN_LAST_S = 0.5, 10.0
NOT_YET = "its agent pod has not started yet"

logger = logging.getLogger("treadle")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How nodes are used."""

    root: str  # the folder of each node's files is below it, on that node
    identity: str = ""  # of the state folder; empty: it has none
    options: EngineOptions = field(default_factory=EngineOptions)
    beat_s: float = 2.0  # between renewals of the controller's lease
    lost_beats: int = 10  # in which an agent has not renewed its lease: it has no contact


@dataclass(frozen=True)
class Attended:
    """A node has an agent that the controller may ask."""

    node: Node
    address: str
    machine: str
    agent: str  # its incarnation


@dataclass(frozen=True)
class Away:
    """It has left; its agent renews nothing more."""

    name: str
    why: str


@dataclass(frozen=True)
class TakenOver:
    """The lease was lost, and is ours again with this epoch."""

    epoch: int


Told = Attended | Away | TakenOver


@dataclass
class Member:
    """A node, from when it is seen until it is gone."""

    name: str
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    holder: str = ""  # what its lease says; empty: nothing that we gave it
    agent: str = ""  # the incarnation that the controller knows
    told: bool = False  # as a member, or as one that is coming
    again: bool = False  # its agent is another one than the controller knows
    held: str = ""  # why nothing new begins there, as its agent knows
    missed: int = 0  # beats since its lease was renewed
    unused: str = ""  # why it is not used, for people
    others: str = ""  # the state folder of another Treadle whose jobs run there
    said: str = ""
    again_s: float = AGAIN_FIRST_S
    task: "asyncio.Task[None] | None" = None


class Nodes:
    """Lives on one event loop, which nothing else keeps busy."""

    def __init__(
        self,
        api: Api,
        held: ControllerLease,
        settings: Settings,
        tell: Callable[[Told], object],
    ) -> None:
        self._api, self._held, self._settings, self._tell = api, held, settings, tell
        namespace = api.namespace
        beat = settings.beat_s
        self._nodes = Watch(api, Watched("/api/v1/nodes"), self._on_node)
        self._pods = Watch(
            api, Watched(pods(namespace), SELECTOR), lambda name: self._touch(node_of_pod(name))
        )
        quiet_s = max(5.0, 5 * beat)  # Our own renewals are to be heard.
        self._leases = Watch(api, Watched(leases(namespace), SELECTOR, quiet_s), self._on_lease)
        self.members: dict[str, Member] = {}
        self._template: Object = {}
        self._calls: AgentCalls | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin(self) -> None:
        """Take up all nodes; those whose agents take long come later. Raises InvalidInputError."""
        self._template = await self._read_template()
        found = await keys(self._api, agent_pods.owner_of(self._template))
        self._calls = AgentCalls(self._api, found, self._address)
        for each in (self._leases, self._pods, self._nodes):
            await each.begin()
            self._keep(each.run())
        self._keep(self._beat())
        for name in map(node_of_pod, self._pods.objects):
            self._touch(name)
        refused = await self._attended_by(asyncio.get_running_loop().time() + ATTEND_WITHIN_S)
        if refused:
            raise InvalidInputError(refused)

    async def end(self) -> None:
        """Agents stay."""
        tasks = [*self._tasks, *(each.task for each in self.members.values() if each.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._calls is not None:
            await self._calls.close()

    def coming(self) -> list[str]:
        """Nodes that have a pod, whose agent was not heard yet."""
        found = [name for name, each in self.members.items() if not each.told]
        return [name for name in found if pod_of(name) in self._pods.objects]

    def mark_coming(self, names: list[str]) -> None:
        """The controller was told that they are: they will be attended, or away."""
        for name in names:
            self.members[name].told = True

    def unused(self) -> dict[str, str]:
        return {name: each.unused for name, each in self.members.items() if each.unused}

    # -- changes --------------------------------------------------------------------------------

    def _on_node(self, name: str) -> None:
        if name in self.members or self._is_meant(name):
            self._touch(name)

    def _on_lease(self, name: str) -> None:
        if name == CONTROLLER_LEASE:
            for member in self.members.values():
                member.missed += 1
                if member.missed == self._settings.lost_beats:
                    member.changed.set()
        elif (found := self.members.get(node_of_lease(name))) is not None:
            found.missed = 0

    def _is_meant(self, name: str) -> bool:
        node = self._nodes.objects.get(name)
        return node is not None and self._offer(node) is not None

    def _offer(self, node: Object) -> agent_pods.Offer | None:
        return agent_pods.offer(node, self._template, self._settings.options)

    def _touch(self, name: str) -> None:
        member = self.members.get(name)
        if member is None:
            member = self.members[name] = Member(name)
            member.task = asyncio.get_running_loop().create_task(self._tend(member))
        member.again_s = AGAIN_FIRST_S
        member.changed.set()

    # -- one node -------------------------------------------------------------------------------

    async def _tend(self, member: Member) -> None:
        while self.members.get(member.name) is member:
            member.changed.clear()
            try:
                done, said = await self._step(member), ""
            except EngineError as error:
                done, said = False, str(error)
            except Exception as error:  # A node would never join or leave again.
                logger.exception("node %s", member.name)
                done, said = False, repr(error)
            if said and said != member.said:
                logger.warning("node %s: %s", member.name, said)
            member.said = said
            member.again_s = AGAIN_FIRST_S if done else min(AGAIN_LAST_S, member.again_s * 2)
            try:
                async with asyncio.timeout(None if done else member.again_s):
                    await member.changed.wait()
            except TimeoutError:
                pass

    async def _step(self, member: Member) -> bool:
        """Whether nothing is left to do before something changes."""
        pod = self._pods.objects.get(pod_of(member.name))
        if pod is None:
            await self._leave(member, "its agent pod was deleted")
            return await self._make_pod(member)
        if agent_pods.is_over(pod):
            why = agent_pods.trouble(pod) or "its agent pod ends"
            await self._leave(member, why)
            member.unused = why
            if "deletionTimestamp" not in pod["metadata"]:
                await self._delete(pod, after_s=member.again_s)
            return True
        if member.missed >= self._settings.lost_beats and member.told:
            beats_s = self._settings.beat_s * member.missed
            await self._leave(member, f"its agent has not renewed its lease for {beats_s:.0f} s")
        if agent_pods.is_ending(pod):
            member.unused = "" if member.told else "its agent pod ends"
            return True
        if not agent_pods.address_of(pod):
            member.unused = agent_pods.trouble(pod) or NOT_YET
            return True
        if (not member.agent or member.again) and not await self._attend(member, pod):
            return False
        await self._hold(member)
        return True

    async def _make_pod(self, member: Member) -> bool:
        node = self._nodes.objects.get(member.name)
        found = None if node is None else self._offer(node)
        if found is None:
            self.members.pop(member.name, None)
            return True
        member.unused = found.objection
        if found.objection:
            return True
        self._template = await self._read_template()
        body = agent_pods.manifest(self._template, member.name, found, self._settings.root)
        try:
            await self._api.create(pods(self._api.namespace), body)
        except ApiError as error:
            if error.status != CONFLICT:
                member.unused = f"its agent pod is refused: {error}"
                raise
        return True

    async def _delete(self, pod: Object, *, after_s: float) -> None:
        await asyncio.sleep(after_s)
        path = f"{pods(self._api.namespace)}/{pod['metadata']['name']}"
        await self._api.delete(path, pod["metadata"]["uid"], grace_s=0)

    async def _leave(self, member: Member, why: str) -> None:
        """Nothing is renewed there any more; then that is told."""
        if member.holder or member.told:
            await self._fence(member)
        told, member.told = member.told, False
        member.holder = member.agent = ""
        if told:
            self._tell(Away(member.name, why))

    async def _fence(self, member: Member) -> None:
        path = self._lease_path(member)
        while (found := await self._api.found(path)) is not None:
            found["spec"]["holderIdentity"] = ""
            try:
                await self._api.replace(path, found)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
            else:
                return

    async def _attend(self, member: Member, pod: Object) -> bool:
        """Have the agent of this pod; whether it is there."""
        root, name = self._settings.root, pod["metadata"]["name"]
        if not agent_pods.has_folder(pod, root):
            member.unused = (
                f"its pod does not mount {root}; kubectl delete pod {name} stops its jobs"
            )
            return True
        if not member.told:
            member.unused = agent_pods.trouble(pod) or NOT_YET
        await self._ask(member.name, "alive", b"", PING_WITHIN_S)  # Else its lease is left alone.
        post = self._post(member.name, pod, await self._grant(member, pod))
        document = msgspec.json.encode(post)
        answer = msgspec.json.decode(
            await self._ask(member.name, "attend", document, ANSWER_WITHIN_S), type=Attending
        )
        if answer.version != spoken():
            member.unused = (
                f"its agent is of another version of Treadle; kubectl delete pod {name} starts "
                "one of the image as it is now, and stops its jobs"
            )
            return False
        member.others = answer.others
        if answer.node is None:
            member.unused = answer.error
            return False
        member.again, member.told, member.missed, member.unused = False, True, 0, ""
        if answer.agent != member.agent:
            member.agent, member.held = answer.agent, ""
            address = agent_pods.address_of(pod)
            self._tell(Attended(answer.node, address, answer.machine, answer.agent))
        return True

    async def _hold(self, member: Member) -> None:
        """Nothing new begins on a node that is cordoned."""
        node = self._nodes.objects.get(member.name)
        cordoned = node is not None and agent_pods.is_cordoned(node)
        wanted = agent_pods.cordoned(member.name) if cordoned else ""
        if member.agent and wanted != member.held:
            await self._ask(member.name, "hold", wanted.encode(), PING_WITHIN_S)
            member.held = wanted

    async def _grant(self, member: Member, pod: Object) -> str:
        """The name of this joining in the lease of the node.

        That of before, if the pod is the same and has not left: what runs there goes on.
        """
        uid, path = pod["metadata"]["uid"], self._lease_path(member)
        found = await self._api.found(path)
        holder = "" if found is None else str(found["spec"].get("holderIdentity") or "")
        if not holder.startswith(f"{uid}/"):
            number = 1 if found is None else 1 + int(found["spec"].get("leaseTransitions") or 0)
            holder = f"{uid}/{number}"
            spec = {
                "holderIdentity": holder,
                "leaseTransitions": number,
                "leaseDurationSeconds": max(
                    1, round(self._settings.beat_s * self._settings.lost_beats)
                ),
            }
            owner = agent_pods.owner_of(self._template)
            made: Object = {"name": lease_of(member.name), "ownerReferences": [owner]}
            metadata = {**(made if found is None else found["metadata"]), "labels": LABELS}
            body = renewed(lease(metadata, spec))
            if found is None:
                await self._api.create(leases(self._api.namespace), body)
            else:
                await self._api.replace(path, body)
        member.holder, member.missed = holder, 0
        return holder

    def _post(self, name: str, pod: Object, holder: str) -> Post:
        """Slots are those of the label; GPUs are chosen where there are GPUs."""
        labels = self._nodes.objects.get(name, {}).get("metadata", {}).get("labels", {})
        options, slots = self._settings.options, agent_pods.slots_of(pod)
        if slots is not None:
            options = replace(options, gpus=(), avoid=())
        return Post(
            name=name,
            address=agent_pods.address_of(pod),
            root=self._settings.root,
            identity=self._settings.identity,
            member=holder,
            rack=labels.get(RACK, ""),
            device_type=labels.get(TYPED, ""),
            options=replace(options, devices=slots),
        )

    def _lease_path(self, member: Member) -> str:
        return f"{leases(self._api.namespace)}/{lease_of(member.name)}"

    # -- calls ----------------------------------------------------------------------------------

    async def call(self, name: str, agent: str, verb: str, document: bytes) -> bytes:
        """`Agent.call` there. Raises LinkLostError."""
        answer = await self._ask(name, f"call/{agent}/{verb}", document, ANSWER_WITHIN_S)
        if answer.startswith(OTHER_AGENT):
            member = self.members.get(name)
            if member is not None and member.agent == agent:
                member.again = True
                member.changed.set()
            raise LinkLostError(f"the agent of node {name} was started again")
        return answer[1:]

    async def _ask(self, name: str, path: str, document: bytes, within_s: float) -> bytes:
        assert self._calls is not None
        return await self._calls.ask(name, path, document, within_s)

    # -- leaves ---------------------------------------------------------------------------------

    async def _attended_by(self, until: float) -> str:
        """Wait for the agents of all nodes that have pods; why this controller is refused."""
        while asyncio.get_running_loop().time() < until:
            waited = [
                each
                for each in self.members.values()
                if not each.agent and each.unused in ("", NOT_YET)
            ]
            for each in self.members.values():
                if each.others:
                    return (
                        f"jobs of another Treadle run on node {each.name}: start that one, with "
                        f"--state {each.others}, or end its jobs"
                    )
            if not waited:
                break
            await asyncio.sleep(0.05)
        return ""

    def _address(self, name: str) -> str:
        """Of the agent pod of a node; empty if none runs."""
        pod = self._pods.objects.get(pod_of(name))
        return "" if pod is None else agent_pods.address_of(pod)

    async def _read_template(self) -> Object:
        namespace = self._api.namespace
        path = f"/api/v1/namespaces/{namespace}/podtemplates/{AGENT}"
        found = await self._api.found(path)
        if found is None:
            raise InvalidInputError(
                f"the namespace {namespace} has no PodTemplate {AGENT}, which says how agents run; "
                "kubectl apply -k deploy/ makes it"
            )
        return found

    async def _beat(self) -> None:
        said = ""
        while True:
            await asyncio.sleep(self._settings.beat_s)
            try:
                await self._held.renew()
                said = ""
            except LostLeaseError as error:
                if str(error) != said:
                    logger.error("%s", error)  # noqa: TRY400
                    said = str(error)
                await self._take_again()
            except EngineError as error:
                if str(error) != said:
                    logger.warning("the lease could not be renewed: %s", error)
                    said = str(error)

    async def _take_again(self) -> None:
        try:
            await self._held.take()
        except InvalidInputError:
            return
        self._tell(TakenOver(self._held.epoch))

    def _keep(self, work: Any) -> None:  # noqa: ANN401
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
