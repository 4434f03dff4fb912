"""Whether a job could run on a cluster if no other job did."""

from collections.abc import Sequence

from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import GPU, Nodes, devices_on, named, too_small
from treadle.core.job import JobSpec
from treadle.core.ports import Policy
from treadle.core.wording import are, devices, gib_text, listed, several
from treadle.policies.base.suited import places_of, usable_by, words_of
from treadle.policies.live.pools import shown
from treadle.policies.live.room import asks_host

_NAMES_MAX = 8


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
        return _never_suits(spec, cluster, where)
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


def _never_suits(spec: JobSpec, cluster: Cluster, places: Sequence[Nodes]) -> str:
    """Why there are too few devices that the job may use.

    places: those with as many as it needs at least, where it asks for more.
    """
    if len(places) > 1:
        most = max(devices_on(nodes, cluster) for nodes in places)
        asks = _asked_for(spec, spec.asked, cluster)
        return f"it asks for {asks}, and no type has more than {most:,}"
    if too_little := _too_little_memory(spec, cluster):
        return too_little
    there = devices_on(usable_by(spec, cluster), cluster)
    asks = f"it asks for {_asked_for(spec, spec.asked if places else spec.sizes[0], cluster)}"
    if there:
        return f"{asks}, and there {are(there)} {there:,}"
    known = cluster.names.issuperset(spec.nodes)
    own, others = ("types", cluster.by_type) if known else ("nodes", cluster.names)
    return f"{asks}, and there are none; the {own} here are {listed(sorted(others), _NAMES_MAX)}"


def _too_little_memory(spec: JobSpec, cluster: Cluster) -> str:
    """That no device of its types has the memory it asks for; empty if one has or may have."""
    own = [cluster.by_type[each] for each in named(words_of(spec, cluster), cluster)]
    there = Nodes().union(*own)
    if not there or not there <= too_small(spec.device_memory_gib, cluster):
        return ""
    sizes = [node.device_memory_gib for node in cluster.nodes if node.name in there]
    types = f" of type {' or '.join(spec.device_types)}" if spec.device_types else ""
    asks = f"it asks for {gib_text(spec.device_memory_gib)} of GPU memory"
    return f"{asks}, and the largest GPU{types} has {gib_text(max(sizes))}"


def _asked_for(spec: JobSpec, count: int, cluster: Cluster) -> str:
    """2 GPUs; 4 devices of type h200 with 80 GiB of memory each, where some have less."""
    found = _wanted(count, words_of(spec, cluster))
    if spec.nodes and not cluster.names.issubset(spec.nodes):
        found += f" on {' or '.join(spec.nodes[:_NAMES_MAX])}"
    if not too_small(spec.device_memory_gib, cluster):
        return found
    return f"{found} with {gib_text(spec.device_memory_gib)} of memory" + " each" * (count > 1)


def _wanted(count: int, words: Sequence[str]) -> str:
    """2 GPUs; 1 CPU slot; 4 devices of type h200 or a100."""
    if [word.lower() for word in words] == [GPU]:
        return several(count, "GPU")
    if [word.lower() for word in words] == [CPU]:
        return several(count, "CPU slot")
    return f"{devices(count)} of type {' or '.join(words)}" if words else devices(count)
