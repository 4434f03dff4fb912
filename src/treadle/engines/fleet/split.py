"""The parts of an attempt on several nodes: devices, ranks and rendezvous of each."""

from collections.abc import Mapping
from dataclasses import replace

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.launch import Launch, Part
from treadle.core.plan import DATA_PARALLEL
from treadle.engines.fleet.gang import Gang, Seat


def parts_of(allocation: Allocation) -> dict[str, Allocation]:
    """The devices of each node, by node in the order of ranks; on one node, the whole."""
    nodes = allocation.nodes()
    if len(nodes) == 1:
        return {nodes[0]: allocation}
    found = {}
    for node in nodes:
        own = tuple(device for device in allocation.devices if device.node == node)
        found[node] = replace(allocation, devices=own, plan=DATA_PARALLEL)
    return found


def gang_of(
    action: int, launch: Launch, allocation: Allocation, addresses: Mapping[str, str], port: int
) -> Gang:
    """The attempt before anything of it runs. Raises EngineError if its ranks cannot be divided."""
    parts = parts_of(allocation)
    if len(parts) == 1:
        seats = {node: Seat(own, launch, action) for node, own in parts.items()}
        return Gang(launch.id, action, seats)
    ranks = {node: _ranks(launch, allocation, own) for node, own in parts.items()}
    world_size, first = sum(ranks.values()), 0
    seats = {}
    for number, (node, own) in enumerate(parts.items()):
        part = Part(
            node_rank=number,
            addresses=tuple(addresses[name] for name in parts),
            first_rank=first,
            ranks=ranks[node],
            world_size=world_size,
            port=port,
            plan=allocation.plan.text,
        )
        first += ranks[node]
        seats[node] = Seat(own, replace(launch, ranks=ranks[node], part=part), action)
    return Gang(launch.id, action, seats)


def _ranks(launch: Launch, whole: Allocation, own: Allocation) -> int:
    """How many processes a node has: one for all its devices, or its share of the ranks."""
    if launch.ranks == 1:
        return 1
    ranks, rest = divmod(launch.ranks * own.size, whole.size)
    if rest:
        raise EngineError(
            f"the {launch.ranks} ranks of job {launch.job} cannot be divided among "
            f"{whole.size} devices of {len(whole.nodes())} nodes",
            retryable=False,
        )
    return ranks
