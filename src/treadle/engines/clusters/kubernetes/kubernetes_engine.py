"""The engine `kubernetes`: a fleet engine over the nodes of a Kubernetes cluster."""

import socket
from collections.abc import Callable
from dataclasses import replace as replace_fields
from pathlib import Path

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.core.ports import Engine
from treadle.core.wording import several
from treadle.engines.agent.grants import finite, limit
from treadle.engines.clusters.kubernetes.access import Access, access
from treadle.engines.clusters.kubernetes.api import Api
from treadle.engines.clusters.kubernetes.fleet import KubernetesFleet
from treadle.engines.clusters.kubernetes.lease import LEASE_S, ControllerLease, Holder
from treadle.engines.clusters.kubernetes.nodes import Nodes, Settings, Told
from treadle.engines.context import EngineContext
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.fleet.machines import Machines
from treadle.engines.fleet.port import Fencing
from treadle.files import replace


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster that was used last."""

    where: str  # for people, and for --lost-cluster
    mark: str
    epoch: int


def kubernetes_engine(context: EngineContext) -> Engine:
    """The engine on the cluster of the kubeconfig's context --address, or its current one."""
    reached = access(context.options.address)
    where = f"{reached.server} namespace {reached.namespace}"
    fleet = kubernetes_fleet(context, lambda: access(context.options.address), where)
    return FleetEngine(context, fleet, address=where)


def kubernetes_fleet(
    context: EngineContext,
    reach: Callable[[], Access],
    where: str,
    *,
    fencing: Fencing | None = None,
    settings: Settings | None = None,
    lease_s: float = LEASE_S,
) -> KubernetesFleet:
    """The fleet of this controller. Its epoch is above all that it had, in any cluster."""
    fencing = fencing or Fencing(failover_s=limit(context.options.failover_s))
    Machines(context.root / "machines.json").expect(fencing.failover_s)
    path = context.root / "kubernetes" / "cluster.json"
    before = _kept(path)
    options = replace_fields(context.options, failover_s=finite(fencing.failover_s))
    wanted = replace_fields(
        settings or Settings(root=str(context.root)),
        root=str(context.root),
        identity=context.identity,
        options=options,
    )
    name = socket.gethostname()
    holder = Holder(
        text=f"{name}, state folder {context.root}",
        # Machines may have one host name, and folders one path, as where they were cloned.
        instance=f"{name}:{context.root}:{context.identity}",
    )

    async def make(tell: Callable[[Told], object]) -> tuple[Api, ControllerLease, Nodes]:
        api = Api(reach())
        held = ControllerLease(api, holder, lease_s)
        if before is not None and context.holding and before.where != context.options.lost_cluster:
            found = await held.found()
            if found != before.mark:
                await api.close()
                raise InvalidInputError(_refusal(before.where, where, context.holding))
        return api, held, Nodes(api, held, wanted, tell)

    above = 0 if before is None else before.epoch
    fleet = KubernetesFleet(make, who=where, above=above, fencing=fencing)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = Kept(where=where, mark=fleet.mark, epoch=fleet.epoch)
    replace(path, msgspec.json.encode(kept), mode=0o600, sync=True)
    return fleet


def _kept(path: Path) -> Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from None


def _refusal(before: str, now: str, jobs: int) -> str:
    run = f"{several(jobs, 'job')} of this state folder {'runs' if jobs == 1 else 'run'}"
    return (
        f"{run} on the Kubernetes cluster at {before}, and {now} is another one; start with that "
        "context and let them end, or cancel them; if that cluster is gone for good, say so with "
        f"--lost-cluster '{before}': then they run again"
    )
