"""Short ways to write jobs, clusters and schedulers in tests."""

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies import registry
from treadle.policies.base.placement import placement


def job(
    identity: str,
    *,
    size: int = 1,
    length_s: float = 100.0,
    at: float = 0.0,
    sizes: tuple[int, ...] | None = None,
    retries: int = 0,
    tenant: str = "",
) -> JobSpec:
    """A job that takes length_s alone at its size."""
    return JobSpec(
        id=identity,
        iterations=length_s,
        sizes=sizes or (size,),
        asked=size,
        profile=Profile(size=size),
        submit_at=at,
        retries=retries,
        tenant=tenant,
    )


def policy(
    text: str, *, place: str = "consolidate", belief: InterleavingModel | None = None
) -> Policy:
    """A registered policy with a placement."""
    return registry.policy(text, placement(place), belief or ScalingModel())


def scheduler(text: str = "fifo", cluster: str = "2x4", *, place: str = "consolidate") -> Scheduler:
    """A scheduler over NODESxDEVICES."""
    nodes, _, devices = cluster.partition("x")
    return Scheduler(policy(text, place=place), Cluster.grid(int(nodes), int(devices)))
