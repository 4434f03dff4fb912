"""Why a job is not given devices that are there: what it may use, in words."""

from collections.abc import Sequence

from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import GPU, Nodes, devices_on, named, too_small
from treadle.core.job import JobSpec
from treadle.core.wording import are, devices, gib_text, listed, several
from treadle.policies.base.suited import usable_by, words_of

_TYPES_MAX = 8


def never_suits(spec: JobSpec, cluster: Cluster, places: Sequence[Nodes]) -> str:
    """Why there are too few devices that the job may use.

    places: those with as many as it needs at least, where it asks for more.
    """
    if len(places) > 1:
        most = max(devices_on(nodes, cluster) for nodes in places)
        asks = asked_for(spec, spec.asked, cluster)
        return f"it asks for {asks}, and no type has more than {most:,}"
    if too_little := _too_little_memory(spec, cluster):
        return too_little
    there = devices_on(usable_by(spec, cluster), cluster)
    asks = f"it asks for {asked_for(spec, spec.asked if places else spec.sizes[0], cluster)}"
    if there:
        return f"{asks}, and there {are(there)} {there:,}"
    return f"{asks}, and there are none; the types here are {types_text(cluster)}"


def _too_little_memory(spec: JobSpec, cluster: Cluster) -> str:
    """That no device of its types has the memory it asks for; empty if one has or may have."""
    if usable_by(spec, cluster):
        return ""
    types = [cluster.by_type[each] for each in named(words_of(spec, cluster), cluster)]
    own = Nodes().union(*types)
    sizes = [node.device_memory_gib for node in cluster.nodes if node.name in own]
    if not sizes:
        return ""
    return (
        f"it asks for {gib_text(spec.device_memory_gib)} of GPU memory, and the largest GPU"
        f"{_of_types(spec)} has {gib_text(max(sizes))}"
    )


def _of_types(spec: JobSpec) -> str:
    return f" of type {' or '.join(spec.device_types)}" if spec.device_types else ""


def asked_for(spec: JobSpec, count: int, cluster: Cluster) -> str:
    """2 GPUs; 4 devices of type h200 with 80 GiB of memory each, where some have less."""
    found = wanted(count, words_of(spec, cluster))
    if not too_small(spec.device_memory_gib, cluster):
        return found
    return f"{found} with {gib_text(spec.device_memory_gib)} of memory" + " each" * (count > 1)


def types_text(cluster: Cluster) -> str:
    """The types of device of a cluster."""
    return listed(list(cluster.by_type), _TYPES_MAX)


def wanted(count: int, words: Sequence[str]) -> str:
    """2 GPUs; 1 CPU slot; 4 devices of type h200 or a100."""
    if [word.lower() for word in words] == [GPU]:
        return several(count, "GPU")
    if [word.lower() for word in words] == [CPU]:
        return several(count, "CPU slot")
    return f"{devices(count)} of type {' or '.join(words)}" if words else devices(count)
