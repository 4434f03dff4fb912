"""Idempotency keys that the store may have: a submission with a new key need not ask it.

Only this controller writes keys, so one that was neither in the store at first nor given since is
new. Keys are remembered as numbers; with too many of them the store is asked every time.
"""

import asyncio

from treadle.control.loop import StoreReads
from treadle.store.rows import KeyRow
from treadle.store.store import Store

KEYS_MAX = 100_000  # 8 MB


class KnownKeys:
    def __init__(self, reads: StoreReads, *, most: int = KEYS_MAX) -> None:
        self._reads = reads
        self._most = most
        self._given: set[int] | None = None  # None: not read yet
        self._reading = asyncio.Lock()

    async def find(self, owner: str, key: str) -> KeyRow | None:
        """What is stored under the key, which counts as given from now on."""
        async with self._reading:
            if self._given is None:
                self._given = await self._reads.ask(self._all)
        number = hash((owner, key))
        new = len(self._given) <= self._most and number not in self._given
        if len(self._given) <= self._most:
            self._given.add(number)
        return None if new else await self._reads.ask(lambda store: store.key(owner, key))

    def _all(self, store: Store) -> set[int]:
        return {hash(pair) for pair in store.key_names(limit=self._most + 1)}
