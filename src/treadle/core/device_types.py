"""Types of device, and on which nodes a job may run.

The type of a node's devices is the model of its GPUs, `cpu` if they are CPU slots, or what its
administrator calls them. A job names types by words: `any`; `gpu` for all but CPU slots; `cpu`; or
a part of a type's name, in any case. A job that its files bind to some nodes (`Job.only_on`) may
use those alone, and one that says how much memory of a device it needs none that is known to have
less. All are one question here, and nothing else answers it.

The ranks of a gang on unlike GPUs go at the speed of the slowest, so an attempt is on devices of
one type, unless no type that the job may use has as many as it needs at least. A job whose user
said `any` may have all together.
"""

from collections.abc import Sequence

from treadle.core.cluster import CPU, Asked, Cluster, Node
from treadle.core.job import Job

ANY, GPU = "any", "gpu"

Nodes = frozenset[str]


def is_of(device_type: str, word: str) -> bool:
    """Whether a word names a type."""
    word = word.lower()
    if word in (ANY, CPU):
        return word == ANY or device_type == CPU
    return device_type != CPU and (word == GPU or word in device_type.lower())


def named(words: Sequence[str], cluster: Cluster) -> tuple[str, ...]:
    """The types of a cluster that these words name, in its order; all of them if there are none."""
    if not words:
        return tuple(cluster.by_type)
    return tuple(each for each in cluster.by_type if any(is_of(each, word) for word in words))


def may_use(job: Job, node: Node) -> bool:
    """Whether a job may run on a node."""
    if job.only_on and node.name not in job.only_on:
        return False
    if not has_memory(node, job.spec.device_memory_gib):
        return False
    words = job.spec.device_types
    return not words or any(is_of(node.device_type, word) for word in words)


def has_memory(node: Node, device_memory_gib: float) -> bool:
    """Whether its devices have so much memory, as far as is known; 0: any is enough."""
    return not node.device_memory_gib or device_memory_gib <= node.device_memory_gib


def too_small(device_memory_gib: float, cluster: Cluster) -> Nodes:
    """The nodes whose devices are known to have less memory; none for 0."""
    if device_memory_gib <= cluster.device_memory_least_gib:
        return Nodes()
    return Nodes(node.name for node in cluster.nodes if not has_memory(node, device_memory_gib))


def has_accelerators(cluster: Cluster) -> bool:
    """Whether it has other devices than CPU slots."""
    return any(kind != CPU for kind in cluster.by_type)


def says_any(words: Sequence[str]) -> bool:
    """Whether a job may have devices of all types together."""
    return any(word.lower() == ANY for word in words)


def needs_both(least: int, nodes: Nodes, cluster: Cluster) -> bool:
    """Whether so many devices of these nodes are always CPU slots and others together."""
    slots = devices_on(nodes & cluster.by_type.get(CPU, Nodes()), cluster)
    return least > slots and least > devices_on(nodes, cluster) - slots


def places(asked: Asked, cluster: Cluster) -> tuple[Nodes, ...]:
    """Sets of nodes; every attempt of such a job is within one of them. None: it runs nowhere."""
    known = cluster.suited.get(asked)
    if known is None:
        known = cluster.suited[asked] = _places(asked, cluster)
    return known


def devices_on(nodes: Nodes, cluster: Cluster) -> int:
    """How many devices these nodes have."""
    return sum(cluster.counts[name] for name in nodes)


def _places(asked: Asked, cluster: Cluster) -> tuple[Nodes, ...]:
    words, least, only_on, memory_gib = asked
    small = too_small(memory_gib, cluster)
    by_type = [cluster.by_type[kind] - small for kind in named(words, cluster)]
    if only_on:
        by_type = [names.intersection(only_on) for names in by_type]
    found = [names for names in by_type if devices_on(names, cluster) >= least]
    together = Nodes().union(*by_type)
    mixed = len(by_type) > 1 and (not found or says_any(words))
    if mixed and devices_on(together, cluster) >= least:
        found.append(together)
    return tuple(cluster.names if names == cluster.names else names for names in found)
