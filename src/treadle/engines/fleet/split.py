"""The parts of an attempt on several nodes: devices, ranks and rendezvous of each."""

from collections.abc import Mapping
from dataclasses import replace

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.launch import Launch, Part, Team
from treadle.core.live_plans import Leader
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
    action: int,
    launch: Launch,
    allocation: Allocation,
    addresses: Mapping[str, str],
    *,
    port: int,
    leader: Leader | None = None,
) -> Gang:
    """The attempt before anything of it runs. Raises EngineError if its ranks cannot be divided.

    leader: whose supervisor is to coordinate its members; None: they stay as they are.
    """
    parts_of(allocation)
    team = None
    if leader is not None and launch.ranks == allocation.size and not launch.launcher:
        team = team_of(leader, allocation, addresses)
    seats = seats_of(action, launch, allocation, addresses, port=port, team=team)
    return Gang(launch.id, action, seats)


def team_of(leader: Leader, allocation: Allocation, addresses: Mapping[str, str]) -> Team:
    own = parts_of(allocation).values()
    return Team(
        term=leader.term,
        leader=leader.node,
        address=addresses[leader.node],
        port=leader.port,
        node="",
        devices=tuple((each.node, each.number) for part in own for each in part.devices),
    )


def seats_of(
    action: int,
    launch: Launch,
    allocation: Allocation,
    addresses: Mapping[str, str],
    *,
    port: int,
    team: Team | None,
) -> dict[str, Seat]:
    """What each node is to have of it."""
    parts = parts_of(allocation)
    if len(parts) == 1:
        return {node: Seat(own, launch, action) for node, own in parts.items()}
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
            team=None if team is None else replace(team, node=node),
        )
        first += ranks[node]
        seats[node] = Seat(own, replace(launch, ranks=ranks[node], part=part), action)
    return seats


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
