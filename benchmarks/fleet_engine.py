"""The engine of fleet_scale.py: that of Ray, with simulated agents where Ray would be."""

import socket
from functools import partial

from treadle.core.ports import Engine
from treadle.engines.clusters.ray.ray_engine import ray_fleet
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext


def simulated_fleet(context: EngineContext) -> Engine:
    """--address: the socket of benchmarks.fleet_agents."""
    return FleetEngine(context, ray_fleet(context, partial(_connected, context.options.address)))


def _connected(path: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    return link
