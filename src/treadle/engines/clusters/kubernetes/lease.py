"""The lease of the controller: who is in charge, and by which epoch.

`spec.leaseTransitions` is the epoch: who takes the lease raises it, with the version that was read,
so that one of two succeeds. No clocks are compared: a newcomer watches the lease, and takes it if
it does not change for LEASE_S.
"""

import asyncio
from datetime import UTC, datetime
from typing import NamedTuple

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.clusters.kubernetes.api import Api, ApiError, Object
from treadle.engines.clusters.kubernetes.names import (
    CONTROLLER_LEASE,
    INSTANCE,
    LABELS,
    leases,
)

LEASE_S = 15.0
CONFLICT = 409


class Holder(NamedTuple):
    """Who takes it."""

    text: str  # for people
    instance: str  # the same for all controllers of one state folder, of which one can run


class LostLeaseError(EngineError):
    """Another controller has it."""


class ControllerLease:
    """In one namespace, for one controller."""

    def __init__(self, api: Api, holder: Holder, lease_s: float = LEASE_S) -> None:
        self._api, self._holder, self._lease_s = api, holder, lease_s
        self._folder = leases(api.namespace)
        self._path = f"{self._folder}/{CONTROLLER_LEASE}"
        self._held: Object | None = None

    @property
    def epoch(self) -> int:
        return 0 if self._held is None else _epoch(self._held)

    @property
    def mark(self) -> str:
        """Of this namespace in this cluster: another one, or one made anew, has another."""
        return "" if self._held is None else str(self._held["metadata"]["uid"])

    async def found(self) -> str:
        """The mark before it is taken; empty: it was never held."""
        found = await self._api.found(self._path)
        return "" if found is None else str(found["metadata"]["uid"])

    async def take(self, above: int = 0) -> None:
        """Raises InvalidInputError while another controller lives."""
        while self._held is None:
            found = await self._api.found(self._path)
            if found is not None and _instance(found) != self._holder.instance:
                await self._wait_out(found)
            try:
                self._held = await self._taken(found, above)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise

    async def renew(self) -> None:
        """Raises LostLeaseError if another one has taken it."""
        if self._held is None:
            raise LostLeaseError("the lease is not held", retryable=False)
        try:
            self._held = await self._api.replace(self._path, renewed(self._held))
        except ApiError as error:
            if error.status not in (404, CONFLICT):
                raise
            self._held = await self._still_ours(self._held)

    async def give_back(self) -> None:
        if self._held is not None:
            self._held["spec"]["holderIdentity"] = ""
            held, self._held = self._held, None
            await self._api.replace(self._path, renewed(held))

    async def _still_ours(self, held: Object) -> Object:
        """Somebody wrote an annotation, or our own answer was lost; or it is another's."""
        found = await self._api.found(self._path)
        ours = found is not None and (_instance(found), _epoch(found)) == (
            self._holder.instance,
            _epoch(held),
        )
        if found is not None and ours:
            return found
        by = "" if found is None else found["spec"].get("holderIdentity")
        self._held = None
        why = f"is held by {by} now" if by else "was taken away"
        raise LostLeaseError(f"the lease {CONTROLLER_LEASE} {why}", retryable=False)

    async def _taken(self, found: Object | None, above: int) -> Object:
        spec = {
            "holderIdentity": self._holder.text,
            "leaseDurationSeconds": max(1, round(self._lease_s)),
            "acquireTime": moment(),
            "leaseTransitions": max(above, 0 if found is None else _epoch(found)) + 1,
        }
        metadata: Object = {"name": CONTROLLER_LEASE} if found is None else found["metadata"]
        metadata["labels"] = {**metadata.get("labels", {}), **LABELS}
        instance = {INSTANCE: self._holder.instance}
        metadata["annotations"] = {**metadata.get("annotations", {}), **instance}
        body = renewed(lease(metadata, spec))
        if found is None:
            return await self._api.create(self._folder, body)
        return await self._api.replace(self._path, body)

    async def _wait_out(self, found: Object) -> None:
        """Return when that lease has run out; raise when its holder is seen alive."""
        if not found["spec"].get("holderIdentity"):
            return
        params = {
            "fieldSelector": f"metadata.name={CONTROLLER_LEASE}",
            "resourceVersion": found["metadata"]["resourceVersion"],
        }
        try:
            async with asyncio.timeout(self._lease_s):
                async for kind, now in self._api.watch(self._folder, params, 2 * self._lease_s):
                    if kind == "DELETED" or not now["spec"].get("holderIdentity"):
                        return
                    if kind == "MODIFIED":
                        break
        except TimeoutError:
            return
        raise InvalidInputError(
            f"another Treadle manages the namespace {self._api.namespace} of this cluster: "
            f"{found['spec']['holderIdentity']}; stop it there with treadle down, or use that one"
        )


def lease(metadata: Object, spec: Object) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }


def renewed(found: Object) -> Object:
    return {**found, "spec": {**found["spec"], "renewTime": moment()}}


def moment() -> str:
    """Now, as Kubernetes writes it (MicroTime)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _epoch(found: Object) -> int:
    return int(found["spec"].get("leaseTransitions") or 0)


def _instance(found: Object) -> str:
    return str(found["metadata"].get("annotations", {}).get(INSTANCE, ""))
