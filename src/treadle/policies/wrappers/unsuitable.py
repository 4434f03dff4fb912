"""Why a job is not given devices that are there: what it may use, in words."""

from collections.abc import Sequence

from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import GPU, Nodes, devices_on, named, too_small
from treadle.core.job import Job, JobSpec
from treadle.core.snapshot import Reason, Snapshot
from treadle.core.wording import are, devices, gib_text, listed, several
from treadle.policies.base.suited import free_for, usable_by, words_of

_NAMED_MAX = 3
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


def bound(snapshot: Snapshot, row: Job) -> Reason | None:
    """That its files bind a waiting job to nodes; None if they do not."""
    if not row.only_on:
        return None
    here = [name for name in row.only_on if name in snapshot.cluster.names]
    free = len([device for device in snapshot.free if device.node in row.only_on])
    state = f"{free} {are(free)} free there" if here else "they are not in use now"
    if here and not usable_by(row.spec, snapshot.cluster, row.only_on):
        state = "none there is a device that it may have"
    needs = f"it needs {devices(row.spec.sizes[0])}, and {state}"
    return Reason("devices", f"{only_there(row)}; {needs}")


def only_there(job: Job) -> str:
    """That a job is bound to its nodes, and why."""
    where, have = listed(job.only_on, _NAMED_MAX), "has" if len(job.only_on) == 1 else "have"
    if job.only_on == job.spec.nodes:
        return f"it can run only on {where}, where its shell is"
    why = job.only_because or "they cannot be copied to other nodes"
    return f"it can run only on {where}, which {have} its files: {why}"


def short_of(row: Job, cluster: Cluster, free: int) -> str:
    """How many of the devices that a job may use are there and free; empty if it may use all."""
    words = words_of(row.spec, cluster)
    small = too_small(row.spec.device_memory_gib, cluster)
    if len(cluster.by_type) < 2 and words in ((), (GPU,)) and not small:
        return ""
    there = devices_on(usable_by(row.spec, cluster, row.only_on), cluster)
    needs = asked_for(row.spec, row.spec.sizes[0], cluster)
    return f"it needs {needs}; {there:,} {are(there)} there, {free:,} free"


def lacking(snapshot: Snapshot, row: Job, places: Sequence[Nodes]) -> str:
    """That too few of the devices that a waiting job may use are free; empty if there are enough.

    Where all devices are alike and it asks for no type, its policy says that.
    """
    cluster, least = snapshot.cluster, row.spec.sizes[0]
    if any(free_for(nodes, snapshot.free, cluster).total >= least for nodes in places):
        return ""
    usable = usable_by(row.spec, cluster, row.only_on)
    free = free_for(usable, snapshot.free, cluster)
    text = short_of(row, cluster, free.total)
    if not text or free.total < least:
        return text
    words = words_of(row.spec, cluster)
    types = [
        f"{count} of {each}"
        for each in named(words, cluster)
        if (count := free.only(cluster.by_type[each] & usable).total)
    ]
    return f"{text}, but not of one type: {', '.join(types)}"
