"""The scheduler's state as JSON: what a simulation would continue from.

A job's row is a value, so its JSON is made once and used until the row changes: with 10,000 jobs
that takes 0.2 s the first time and 30 ms after that. A snapshot says of which moment it is, and a
large one is given again for a while, so that readers who ask all the time take a tenth of it.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from treadle.control.api.context import Context
from treadle.control.api.thinking import Thinking
from treadle.core.job import JobId
from treadle.core.state import Kept

SMALL_S = 0.02  # made so quickly, a snapshot is always new
PACE = 10.0  # others are given again for this many times as long as they took
OLD_S_MAX = 2.0


class Snapshots:
    """Makes snapshots, one at a time."""

    def __init__(self) -> None:
        self._known: dict[JobId, tuple[Kept, msgspec.Raw]] = {}
        self._last: Mapping[str, object] = {}
        self._good_until = 0.0

    async def made(self, thinking: Thinking) -> Mapping[str, object]:
        """The last one if it was made a moment ago, a new one otherwise."""
        begun = asyncio.get_running_loop().time()
        if begun < self._good_until:
            return self._last
        made = await thinking.about("snapshot", self.make)
        took_s = asyncio.get_running_loop().time() - begun
        if took_s > SMALL_S:
            self._last, self._good_until = made, begun + min(PACE * took_s, OLD_S_MAX)
        return made

    def make(self, context: Context) -> Mapping[str, object]:
        """The state of a scheduler that nothing changes meanwhile."""
        scheduler = context.scheduler
        known = {}
        for identity in scheduler.jobs:
            kept = scheduler.kept(identity)
            before = self._known.get(identity)
            same = before is not None and before[0].job is kept.job and before[0] == kept
            known[identity] = before if before is not None and same else (kept, _written(kept))
        self._known = known
        return {
            "at": context.clock.now(),
            "policy": context.charge.wrapped,
            "placement": context.charge.placement,
            "cluster": msgspec.to_builtins(scheduler.cluster.nodes),
            "drained": msgspec.to_builtins([*scheduler.drained.values()]),
            "closed": {str(device): why for device, why in scheduler.closed.items()},
            "jobs": [raw for _, raw in known.values()],
        }


def _written(kept: Kept) -> msgspec.Raw:
    job = dict(zip(kept.job._fields, kept.job, strict=True))
    made = msgspec.to_builtins({"job": job, "held": kept.blocked})
    made["job"]["spec"]["command"] = []  # What it runs is its owner's business.
    return msgspec.Raw(msgspec.json.encode(made))
