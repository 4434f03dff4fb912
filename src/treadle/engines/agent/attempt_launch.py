"""Launches an attempt: its folder, its group, its order, and a supervisor for it.

Each of them may wait: for a disk, for the directory that knows the users, for the fork server. So
all of it is one piece of work in a thread, and the event loop goes on.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.launch import Launch
from treadle.engines.agent.attempt_groups import AttemptGroups
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.machine_pause import TROUBLE
from treadle.engines.agent.warm_pool import WarmPool, Wish
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.checkpoint_folders import CheckpointFolders
from treadle.engines.node.fork_client import ForkServer, Sent
from treadle.engines.node.leftovers import NEWEST_KEPT, LeftoverFolders
from treadle.engines.node.mps import Mps
from treadle.engines.node.order_document import Paths, Surroundings, limits_of, order_document
from treadle.engines.node.scope import Scope
from treadle.engines.node.turn_link import TurnLink


class Launched(NamedTuple):
    """What a launch has made."""

    scope: Scope
    document: Mapping[str, Any]
    sent: Sent
    wish: Wish | None  # the warm interpreter that it could use


@dataclass(frozen=True, slots=True)
class AttemptLaunch:
    """Makes attempts and has their supervisors started."""

    folders: AttemptFolders
    groups: AttemptGroups
    checkpoints: CheckpointFolders
    leftovers: LeftoverFolders
    fork_server: ForkServer
    uuids: Sequence[str]  # of the devices of the machine
    around: Surroundings
    mps: Mps
    warm: WarmPool
    turns: TurnLink
    fitted: Callable[[Launch], Launch]  # as it is launched on this node; it may look at files

    def attempt(self, launch: Launch, allocation: Allocation, *, action: int) -> LiveAttempt:
        """The attempt before anything of it exists."""
        folder, tag = self.folders.path(*launch.id), self.groups.tag(launch.id)
        live = LiveAttempt(
            launch.job,
            launch.attempt,
            action=action,
            allocation=allocation,
            folder=folder,
            tag=tag,
            scope=self.groups.containment.named(tag, folder),
            nonce=launch.nonce,
        )
        live.launch, live.workdir = launch, launch.workdir
        live.grace_s, live.time_limit_s = launch.grace_s, launch.time_limit_s
        return live

    async def run(self, live: LiveAttempt) -> None:
        """Have a supervisor started; it reports when the ranks run."""
        work = asyncio.get_running_loop().run_in_executor(None, self._launched, live)
        try:
            live.scope, live.document, sent, wish = await asyncio.shield(work)
        except asyncio.CancelledError:  # A thread cannot be cancelled, and may launch it yet.
            work.add_done_callback(_close_report)
            raise
        live.listen(sent)
        if wish is not None:
            self.warm.prepare_later(wish, live)

    def _launched(self, live: LiveAttempt) -> Launched:
        assert live.launch is not None
        launch, allocation = self.fitted(live.launch), live.allocation
        assert allocation is not None
        try:
            self.folders.make(*live.id, action=live.action)
            if live.number > NEWEST_KEPT:
                self.leftovers.thin(live.job)
            scope = self.groups.containment.make(live.tag, live.folder, limits_of(launch)).scope
            try:
                document = order_document(
                    launch,
                    allocation,
                    action=live.action,
                    tag=live.tag,
                    paths=Paths(live.folder, self.checkpoints.make(launch), scope),
                    uuids=self.uuids,
                    around=self.around,
                )
                document["env"] |= self.mps.join(launch, allocation, live.folder)
                if launch.may_share:
                    numbers = [device.number for device in allocation.devices]
                    document["env"] |= self.turns.environment(launch.job, launch.attempt, numbers)
                wish = self.warm.wish(launch, document)
                return Launched(scope, document, self._sent(document, wish), wish)
            except (*TROUBLE, EngineError):
                self.mps.leave(live.id)
                scope.remove()
                raise
        except (*TROUBLE, EngineError):
            self.folders.forget(*live.id)
            raise

    def target(
        self, live: LiveAttempt, launch: Launch, allocation: Allocation, *, action: int
    ) -> dict[str, Any]:
        """What the supervisor of a running attempt must know to change it; without secrets."""
        own = replace(self.fitted(launch), attempt=live.number, nonce=live.nonce)
        document = order_document(
            own,
            allocation,
            action=action,
            tag=live.tag,
            paths=Paths(live.folder, self.checkpoints.make(own), live.scope),
            uuids=self.uuids,
            around=self.around,
        )
        common = {n: v for n, v in document["env"].items() if n not in launch.secrets}
        ranks = [{**rank, "env": {**common, **rank["env"]}} for rank in document["ranks"]]
        return {
            "action": action,
            "devices": document["devices"],
            "plan": document["plan"],
            "ranks": ranks,
        }

    def _sent(self, document: Mapping[str, Any], wish: Wish | None) -> Sent:
        warm = None if wish is None else self.warm.find(wish)
        if warm is None:
            return self.fork_server.launch(document)
        with warm:
            return self.fork_server.launch(document, warm.fileno())


def _close_report(work: "asyncio.Future[Launched]") -> None:
    """Listen to a supervisor no longer; the next engine finds it by its files."""
    if not work.cancelled() and work.exception() is None:
        os.close(work.result().sent.report)
