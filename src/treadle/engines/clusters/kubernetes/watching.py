"""List once, then watch: what a set of objects is, kept up by the server's word alone.

A watch that ends is asked for again from the newest version seen (bookmarks carry it forward). If
that is too old, the set is listed anew, and what is not in the list is told as gone.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import NamedTuple

from treadle.core.errors import EngineError
from treadle.engines.clusters.kubernetes.api import Api, ApiError, ApiSilentError, Object

AGAIN_FIRST_S, AGAIN_LAST_S = 0.2, 10.0
GONE = 410
PAGE = 500

logger = logging.getLogger("treadle")


class Watched(NamedTuple):
    """Which objects."""

    path: str
    selector: str = ""
    quiet_s: float = 300.0  # a watch without a word for so long is begun again
    everywhere: bool = False  # in all namespaces

    @property
    def params(self) -> dict[str, str]:
        return {"labelSelector": self.selector} if self.selector else {}

    def key(self, found: Object) -> str:
        """NAME, or NAMESPACE/NAME."""
        metadata = found["metadata"]
        return (
            f"{metadata['namespace']}/{metadata['name']}" if self.everywhere else metadata["name"]
        )


class Watch:
    """One set of objects. `changed` is called with the key of each that came, changed or went."""

    def __init__(self, api: Api, watched: Watched, changed: Callable[[str], object]) -> None:
        self.objects: dict[str, Object] = {}  # by key
        self._api, self._watched, self._changed = api, watched, changed
        self._version = ""  # empty: it must be listed

    async def begin(self) -> None:
        """List; raises EngineError."""
        found: dict[str, Object] = {}
        params = {**self._watched.params, "limit": str(PAGE)}
        while True:
            answer = await self._api.get(self._watched.path, params)
            found |= {self._watched.key(each): each for each in answer["items"]}
            meta = answer["metadata"]
            if not (more := meta.get("continue")):
                break
            params["continue"] = more
        before, self.objects = self.objects, found
        self._version = meta["resourceVersion"]
        for name in before.keys() | found.keys():
            if _version(before.get(name)) != _version(found.get(name)):
                self._changed(name)

    async def run(self) -> None:
        """For ever; after `begin`."""
        pause_s = AGAIN_FIRST_S
        while True:
            try:
                if not self._version:
                    await self.begin()
                await self._follow()
                pause_s = AGAIN_FIRST_S
                continue
            except ApiSilentError as error:
                logger.info("%s: %s", self._watched.path, error)
            except ApiError as error:
                if error.status == GONE:
                    self._version = ""
                else:
                    logger.warning("%s cannot be watched: %s", self._watched.path, error)
            except EngineError as error:
                logger.warning("%s cannot be watched: %s", self._watched.path, error)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))  # Not all at once.
            pause_s = min(AGAIN_LAST_S, pause_s * 2)

    async def _follow(self) -> None:
        params = {**self._watched.params, "resourceVersion": self._version}
        changes = self._api.watch(self._watched.path, params, self._watched.quiet_s)
        async for kind, found in changes:
            self._version = found["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                continue
            key = self._watched.key(found)
            if kind == "DELETED":
                self.objects.pop(key, None)
            else:
                self.objects[key] = found
            self._changed(key)


def _version(found: Object | None) -> str:
    return "" if found is None else str(found["metadata"]["resourceVersion"])
