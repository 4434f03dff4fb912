"""The engine `ray`: a fleet engine over the nodes of a Ray cluster."""

import importlib.util
import os
import socket
from collections.abc import Callable
from dataclasses import replace as replace_fields
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.core.ports import Engine
from treadle.engines.agent.grants import finite, limit
from treadle.engines.clusters.ray.address import (
    check_answers,
    check_token,
    given_address,
    here,
    surroundings,
)
from treadle.engines.clusters.ray.driver_process import DriverProcess
from treadle.engines.clusters.ray.fleet import Connect, RayFleet
from treadle.engines.clusters.ray.frames import Ready, Settings
from treadle.engines.clusters.ray.head import head
from treadle.engines.clusters.same_cluster import LastCluster, Wanted
from treadle.engines.context import EngineContext
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.fleet.machines import Machines
from treadle.engines.fleet.port import Fencing
from treadle.files import replace

START_ONE = (
    "; start one with ray start --head there, or leave --address out to start one on this machine"
)


def ray_engine(context: EngineContext) -> Engine:
    """The engine on the cluster at --address or RAY_ADDRESS, else on a head of its own."""
    if importlib.util.find_spec("ray") is None:
        raise InvalidInputError(
            "the engine ray needs Ray, which is not installed; pip install 'treadle[ray]'"
        )
    address = given_address(context.options.address, os.environ)
    last = LastCluster(context.root / "ray" / "cluster.json", address)
    if address:
        check_answers(address, advice=START_ONE)
        check_token(os.environ)
        environment = surroundings(address)
    else:
        options = context.options
        own = head(context.root / "ray", node_name=options.node_name, slots=options.devices)
        address, environment = own.address, own.environment
    driver = DriverProcess(address, environment)
    fleet = ray_fleet(context, driver.start, kill=driver.kill, refusal=driver.refusal, last=last)
    return FleetEngine(context, fleet, address=address)


def ray_fleet(
    context: EngineContext,
    connect: Connect,
    *,
    kill: Callable[[], object] = str,
    refusal: Callable[[], str] = str,
    fencing: Fencing | None = None,
    look_every_s: float = 1.0,
    last: LastCluster | None = None,
) -> RayFleet:
    """The fleet of this controller. Its epoch is above all that it had, in any cluster.

    kill: ends the driver that was connected last, though it hangs. refusal: why that one has ended,
    if its user can mend that.
    last: the cluster of before; None: it does not matter.
    """
    fencing = fencing or Fencing(failover_s=limit(context.options.failover_s))
    Machines(context.root / "machines.json").expect(fencing.failover_s)
    kept = context.root / "ray" / "epoch"
    options = replace_fields(context.options, failover_s=finite(fencing.failover_s))
    wanted = last.wanted(context.holding, options.lost_cluster) if last else Wanted()
    settings = Settings(
        root=str(context.root),
        holder=f"{here()}, state folder {context.root}",
        # Machines may have one host name, and folders one path, as where they were cloned.
        instance=f"{socket.gethostname()}:{context.root}:{context.identity}",
        identity=context.identity,
        epoch_min=_number(kept),
        cluster=wanted.mark,
        otherwise=wanted.otherwise,
        options=options,
        look_every_s=look_every_s,
    )

    def keep(ready: Ready) -> None:
        if last is not None:
            last.keep(ready.cluster)
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(kept, str(ready.epoch).encode(), mode=0o600, sync=True)

    return RayFleet(connect, settings, kill=kill, refusal=refusal, fencing=fencing, keep=keep)


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
