"""Changes of an attempt that runs: its supervisor is given a target, and says what it reached.

The target is a file in the attempt's folder. It holds no secrets: the supervisor has those already.
What was reached comes over the supervisor's pipe, and after a restart of the engine from a file.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.core.allocation import Allocation
from treadle.core.launch import Launch
from treadle.engines.agent.attempt_launch import AttemptLaunch
from treadle.engines.agent.device_holders import DeviceHolders
from treadle.engines.agent.live_attempt import LiveAttempt, slots_of
from treadle.engines.node.members_files import TARGET, read_members
from treadle.engines.node.pause_files import read_reached
from treadle.files import replace

LOOK_S = 0.2  # between looks at the file, for attempts whose pipe an earlier engine had
LOOK_SELDOM_S = 5.0
CHANGE_WITHIN_S = 300.0  # longer than a supervisor waits for newcomers and for a switch


@dataclass(frozen=True, slots=True)
class LiveChanges:
    """Has running attempts changed."""

    launches: AttemptLaunch
    holders: DeviceHolders

    async def order(
        self, live: LiveAttempt, action: int, allocation: Allocation, launch: Launch
    ) -> None:
        """Hold the devices and give the supervisor its target."""
        before = live.more
        live.more = frozenset({*live.slots, *slots_of(allocation)})
        self.holders.hold(live)
        try:
            await asyncio.to_thread(self._write_target, live, action, allocation, launch)
        except BaseException:
            # Its supervisor was not told: it has only what it had.
            left = live.more - before - set(slots_of(live.allocation) if live.allocation else ())
            live.more = before
            self.holders.drop(live, left)
            raise
        live.ask_to_look()

    async def answer(self, live: LiveAttempt) -> None:
        """Until it says more of its members; the caller has cleared `told`."""
        if live.listens:
            await live.told.wait()
        else:
            await asyncio.sleep(LOOK_S)
            await self.look(live)

    async def look(self, live: LiveAttempt) -> None:
        """Read what its supervisor wrote for an engine after this one."""
        found = await asyncio.to_thread(read_members, live.folder)
        if found is not None and found != live.members:
            live.hear_members(found)
        paused = await asyncio.to_thread(read_reached, str(live.folder))
        if paused is not None and paused != live.pause.said:
            live.hear_pause(paused)

    async def watch(self, live: LiveAttempt) -> None:
        """For attempts that an earlier engine launched: what they announce later.

        Other jobs may wait for devices that it leaves, so it looks often until they are released.
        """
        while not live.gone.done():
            await self.look(live)
            live.told.clear()
            told: asyncio.Future[Any] = asyncio.ensure_future(live.told.wait())
            pause_s = LOOK_S if _leaves(live) else LOOK_SELDOM_S
            either: set[asyncio.Future[Any]] = {live.gone, told}
            await asyncio.wait(either, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()

    def _write_target(
        self, live: LiveAttempt, action: int, allocation: Allocation, launch: Launch
    ) -> None:
        document = self.launches.target(live, launch, allocation, action=action)
        _write(live.folder / TARGET, document)

    def reached(self, live: LiveAttempt, action: int, allocation: Allocation) -> None:
        """The order was answered: what is not needed any more is released."""
        live.more = frozenset(live.slots)
        live.action, live.allocation = action, allocation
        self.free_dropped(live)

    def free_dropped(self, live: LiveAttempt) -> None:
        """Release devices that the attempt left, once none of its processes is on them."""
        refused = live.members.get("refused") or {}
        if not live.members:
            return
        answered = (live.members.get("action"), refused.get("action"))
        if live.allocation is None or live.action not in answered:
            return
        own, still = set(slots_of(live.allocation)), set(live.members["holds"])
        left = {slot for slot in live.more if slot not in own and slot[0] not in still}
        if left:
            live.more -= left
            self.holders.drop(live, left)


def _leaves(live: LiveAttempt) -> bool:
    """Whether it still holds devices beside those of its newest allocation."""
    return live.allocation is not None and not live.more <= set(slots_of(live.allocation))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    replace(path, json.dumps(document).encode(), mode=0o600)
