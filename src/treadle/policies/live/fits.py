"""Whether a job could run on a cluster if no other job did."""

from treadle.core.cluster import Cluster
from treadle.core.device_types import devices_on, named
from treadle.core.job import JobSpec
from treadle.core.ports import Policy
from treadle.core.wording import gib_text, several
from treadle.policies.base.suited import places_of, usable_by, words_of
from treadle.policies.live.pools import shown
from treadle.policies.live.room import asks_host
from treadle.policies.live.wanting import never_suits


def never_fits(policy: Policy, spec: JobSpec, cluster: Cluster) -> str | None:
    """Why a job could not even run on the empty cluster, or None if it could."""
    return _no_devices(policy, spec, cluster) or _no_host(spec, cluster)


def _no_devices(policy: Policy, spec: JobSpec, cluster: Cluster) -> str | None:
    where = places_of(spec, cluster)
    if where == (cluster.names,):
        return policy.never_fits(spec, shown(cluster, [spec], policy))
    parts = [shown(cluster.part(nodes), [spec], policy) for nodes in where]
    found = [policy.never_fits(spec, part) for part in parts]
    if None in found:
        return None
    if len(named(words_of(spec, cluster), cluster)) == len(cluster.by_type):
        never = policy.never_fits(spec, shown(cluster, [spec], policy))
        if never is not None:
            return never  # Whatever the types.
    if not where or spec.asked > max(devices_on(nodes, cluster) for nodes in where):
        return never_suits(spec, cluster, where)
    return f"of the devices of one type: {found[0]}"


def _no_host(spec: JobSpec, cluster: Cluster) -> str | None:
    if not asks_host(spec) or not cluster.nodes:
        return None
    nodes = [node for node in cluster.nodes if node.name in usable_by(spec, cluster)]
    if not nodes or any(
        spec.host_memory_gib <= (node.memory_gib or spec.host_memory_gib)
        and spec.host_cores <= (node.cores or spec.host_cores)
        for node in nodes
    ):
        return None
    asks = " and ".join(
        text
        for text, asked in (
            (f"{gib_text(spec.host_memory_gib)} of host memory", spec.host_memory_gib),
            (f"{spec.host_cores:g} core{'s' * (spec.host_cores != 1)}", spec.host_cores),
        )
        if asked
    )
    most_gib, most_cores = max(n.memory_gib for n in nodes), max(n.cores for n in nodes)
    largest = f"{gib_text(most_gib)} and {several(most_cores, 'core')}"
    return f"it asks for {asks} of one node, and the largest has {largest}"
