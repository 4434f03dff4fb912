"""Launches an attempt: its folder, its group, its order, and a supervisor for it.

Each of them may wait: for a disk, for the directory that knows the users, for the fork server. So
all of it is one piece of work in a thread, and the event loop goes on.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.launch import Launch
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.machine_pause import TROUBLE
from treadle.engines.agent.warm_pool import Wish
from treadle.engines.node.fork_client import Sent
from treadle.engines.node.leftovers import NEWEST_KEPT
from treadle.engines.node.order_document import Paths, Surroundings, limits_of, order_document
from treadle.engines.node.scope import Scope

if TYPE_CHECKING:
    from treadle.engines.agent.machine import Machine


class Launched(NamedTuple):
    """What a launch has made."""

    scope: Scope
    document: Mapping[str, Any]
    sent: Sent
    wish: Wish | None  # the warm interpreter that it could use


class AttemptLaunch:
    """Makes attempts on one machine and has their supervisors started."""

    def __init__(
        self, machine: "Machine", around: Surroundings, fitted: Callable[[Launch], Launch]
    ) -> None:
        """fitted: a launch as it is on this node; it may look at files."""
        self._machine, self._around, self._fitted = machine, around, fitted

    def attempt(self, launch: Launch, allocation: Allocation, *, action: int) -> LiveAttempt:
        """The attempt before anything of it exists."""
        groups = self._machine.groups
        folder, tag = self._machine.folders.path(*launch.id), groups.tag(launch.id)
        live = LiveAttempt(
            launch.job,
            launch.attempt,
            action=action,
            allocation=allocation,
            folder=folder,
            tag=tag,
            scope=groups.containment.named(tag, folder),
            nonce=launch.nonce,
        )
        live.launch = launch
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
            self._machine.warm.prepare_later(wish, live)

    def _launched(self, live: LiveAttempt) -> Launched:
        assert live.launch is not None
        machine, allocation = self._machine, live.allocation
        launch = self._fitted(live.launch)
        live.workdir = launch.workdir
        assert allocation is not None
        try:
            machine.folders.make(*live.id, action=live.action)
            if live.number > NEWEST_KEPT:
                machine.leftovers.thin(live.job)
            contained = machine.groups.containment
            scope = contained.make(live.tag, live.folder, limits_of(launch)).scope
            try:
                document = self._document(live, launch, allocation, live.action, scope)
                document["env"] |= machine.mps.join(launch, allocation, live.folder)
                wish = machine.warm.wish(launch, document)
                return Launched(scope, document, self._sent(document, wish), wish)
            except (*TROUBLE, EngineError):
                machine.mps.leave(live.id)
                scope.remove()
                raise
        except (*TROUBLE, EngineError):
            machine.folders.forget(*live.id)
            raise

    def target(
        self, live: LiveAttempt, launch: Launch, allocation: Allocation, *, action: int
    ) -> dict[str, Any]:
        """What the supervisor of a running attempt must know to change it; without secrets."""
        own = replace(self._fitted(launch), attempt=live.number, nonce=live.nonce)
        document = self._document(live, own, allocation, action, live.scope)
        common = {n: v for n, v in document["env"].items() if n not in launch.secrets}
        ranks = [{**rank, "env": {**common, **rank["env"]}} for rank in document["ranks"]]
        return {
            "action": action,
            "devices": document["devices"],
            "plan": document["plan"],
            "part": document["part"],
            "ranks": ranks,
        }

    def _document(
        self, live: LiveAttempt, launch: Launch, allocation: Allocation, action: int, scope: Scope
    ) -> dict[str, Any]:
        return order_document(
            launch,
            allocation,
            action=action,
            tag=live.tag,
            paths=Paths(live.folder, self._machine.checkpoints.make(launch), scope),
            uuids=self._machine.devices.uuids,
            around=self._around,
        )

    def _sent(self, document: Mapping[str, Any], wish: Wish | None) -> Sent:
        warm = None if wish is None else self._machine.warm.find(wish)
        if warm is None:
            return self._machine.fork_server.launch(document)
        with warm:
            return self._machine.fork_server.launch(document, warm.fileno())


def _close_report(work: "asyncio.Future[Launched]") -> None:
    """Listen to a supervisor no longer; the next engine finds it by its files."""
    if not work.cancelled() and work.exception() is None:
        os.close(work.result().sent.report)
