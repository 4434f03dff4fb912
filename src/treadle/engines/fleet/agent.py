"""The agent of one node: a local engine that a controller elsewhere gives orders to."""

from collections.abc import Collection
from pathlib import Path

from treadle.core.cluster import Node
from treadle.engines.fleet.port import LEASE_S
from treadle.engines.node.devices import DeviceSource, node_of
from treadle.engines.registry import EngineOptions


class Agent:
    """Lives on the event loop of its process; one for each node and root.

    The process that has it calls `confirm` every CONFIRM_EVERY_S while the cluster says that the
    node is a member, passes calls of the controller to `call`, and may be killed at any moment:
    what runs keeps running until the last confirmation has run out, and the agent that is made next
    over the same root takes it over.
    """

    def __init__(
        self,
        root: Path,
        node_name: str,
        *,
        devices: DeviceSource,
        address: str = "127.0.0.1",
        excluded: Collection[int] = (),
        options: EngineOptions | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        """root: a folder of its own on this node. address: of this node, for the other nodes."""
        self.root, self.address = root, address
        self.node: Node = node_of(devices, node_name)
        self._devices, self._excluded = devices, excluded
        self._options, self._lease_s = options or EngineOptions(), lease_s

    def confirm(self) -> None:
        """The cluster says that this node is a member: what runs may run for another lease_s."""
        raise NotImplementedError

    async def call(self, verb: str, document: bytes) -> bytes:
        """Carry out a call of the controller. It never raises: errors are answers too."""
        raise NotImplementedError

    async def close(self) -> None:
        """Leave; what runs keeps running."""
        raise NotImplementedError
