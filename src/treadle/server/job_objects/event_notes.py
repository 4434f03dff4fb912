"""What kubectl describe shows below an object: what happened to its job."""

import asyncio
import logging
from typing import Any

from treadle.control.loop import wall
from treadle.core.errors import EngineError
from treadle.engines.clusters.kubernetes.api import Api
from treadle.engines.clusters.kubernetes.names import JOB, JOBS_VERSION
from treadle.server.job_objects.job_status import moment
from treadle.wire.machine import EventView

SHOWN = frozenset(
    {"JobCancelled", "JobHeld", "JobReleased", "DependencyBroken", "JobPaused", "RankReplaced"}
    | {"JobStarted", "AttemptEnded", "Change", "Stop"}
)
MESSAGE_MAX = 1000
WAITING_MAX = 1000  # more are not written: they are in Treadle's own journal
Object = dict[str, Any]
logger = logging.getLogger("treadle")


class EventNotes:
    """Written one after another, beside everything else; one that cannot be written is left out."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting: asyncio.Queue[tuple[Object, str, str, str, float]] = asyncio.Queue(
            WAITING_MAX
        )
        self._said: set[tuple[str, str]] = set()
        self._trouble = ""

    def add(self, found: Object | None, event: EventView) -> None:
        if found is not None and event.kind in SHOWN:
            bad = event.kind == "AttemptEnded" and bool(event.body.get("failure"))
            kind = "Warning" if bad else "Normal"
            self._put(found, kind, event.kind, event.text, event.at)

    def once(self, found: Object, reason: str, text: str) -> None:
        """What holds until somebody does something."""
        said = found["metadata"]["uid"], text
        if said not in self._said:
            self._said.add(said)
            self._put(found, "Warning", reason, text, wall())

    def _put(self, found: Object, kind: str, reason: str, text: str, at: float) -> None:
        if not self._waiting.full():
            self._waiting.put_nowait((found["metadata"], kind, reason, text, at))

    async def run(self) -> None:
        while True:
            metadata, kind, reason, text, at = await self._waiting.get()
            namespace, when = metadata["namespace"], moment(at)
            about = {name: metadata[name] for name in ("name", "namespace", "uid")}
            body = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"generateName": f"{metadata['name']}.", "namespace": namespace},
                "involvedObject": {"apiVersion": JOBS_VERSION, "kind": JOB, **about},
                "type": kind,
                "reason": reason,
                "message": text[:MESSAGE_MAX],
                "firstTimestamp": when,
                "lastTimestamp": when,
                "count": 1,
                "source": {"component": "treadle"},
            }
            try:
                await self._api.create(f"/api/v1/namespaces/{namespace}/events", body)
            except EngineError as error:
                if str(error) != self._trouble:
                    logger.warning("events cannot be written: %s", error)
                self._trouble = str(error)
