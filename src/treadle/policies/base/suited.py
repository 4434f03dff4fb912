"""Where a job may be started: the one question that policies and wrappers ask of core/device_types.

A job whose user named no type gets accelerators where there are some, else CPU slots; one that has
no use for an accelerator gets CPU slots where there are some.
"""

from collections.abc import Sequence

from treadle.core import device_types
from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import GPU, Nodes, has_accelerators, named, too_small
from treadle.core.job import Job, JobSpec
from treadle.models.workers import is_cpu_only


def words_of(spec: JobSpec, cluster: Cluster) -> tuple[str, ...]:
    """The types that a job is given devices of, as it says or by default; empty: of all."""
    if spec.device_types:
        return spec.device_types
    if CPU not in cluster.by_type or not has_accelerators(cluster):
        return ()
    return (CPU,) if is_cpu_only(spec) else (GPU,)


def places(job: Job, cluster: Cluster) -> tuple[Nodes, ...]:
    """Sets of nodes; each attempt of the job is within one of them. None: it runs nowhere."""
    spec = job.spec
    words = spec.device_types or words_of(spec, cluster)
    asked = (words, spec.sizes[0], job.only_on, spec.device_memory_gib)
    return cluster.suited.get(asked) or device_types.places(asked, cluster)


def places_of(spec: JobSpec, cluster: Cluster) -> tuple[Nodes, ...]:
    """The same of a job that no files bind to some nodes."""
    asked = (words_of(spec, cluster), spec.sizes[0], spec.nodes, spec.device_memory_gib)
    return device_types.places(asked, cluster)


def usable_by(spec: JobSpec, cluster: Cluster, only_on: Sequence[str] = ()) -> Nodes:
    """All nodes that a job may be given, however many devices they have.

    only_on: those that have its files, if it is bound to them.
    """
    only_on = only_on or spec.nodes
    types = named(words_of(spec, cluster), cluster)
    small = too_small(spec.device_memory_gib, cluster)
    if len(types) == len(cluster.by_type) and not only_on and not small:
        return cluster.names
    found = Nodes().union(*(cluster.by_type[each] for each in types)) - small
    return found.intersection(only_on) if only_on else found
