"""Why a job is not given devices that are there: what it may use, in words."""

from collections.abc import Sequence

from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import GPU, Nodes, devices_on, named
from treadle.core.job import Job, JobSpec
from treadle.core.snapshot import Reason, Snapshot
from treadle.core.wording import are, devices, listed, several
from treadle.policies.base.suited import free_for, usable_by, words_of

_NAMED_MAX = 3
_TYPES_MAX = 8


def never_suits(spec: JobSpec, cluster: Cluster, places: Sequence[Nodes]) -> str:
    """Why there are too few devices that the job may use.

    places: those with as many as it needs at least, where it asks for more.
    """
    words = words_of(spec, cluster)
    if len(places) > 1:
        most = max(devices_on(nodes, cluster) for nodes in places)
        return f"it asks for {wanted(spec.asked, words)}, and no type has more than {most:,}"
    types = named(words, cluster)
    there = sum(devices_on(cluster.by_type[each], cluster) for each in types)
    asks = f"it asks for {wanted(spec.asked if places else spec.sizes[0], words)}"
    if there:
        return f"{asks}, and there {are(there)} {there:,}"
    return f"{asks}, and there are none; the types here are {types_text(cluster)}"


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
        state = "none there is of a type that it may have"
    needs = f"it needs {devices(row.spec.sizes[0])}, and {state}"
    return Reason("devices", f"{only_there(row)}; {needs}")


def only_there(job: Job) -> str:
    """That a job is bound to its nodes, and why."""
    where, have = listed(job.only_on, _NAMED_MAX), "has" if len(job.only_on) == 1 else "have"
    why = job.only_because or "they cannot be copied to other nodes"
    return f"it can run only on {where}, which {have} its files: {why}"


def short_of(row: Job, cluster: Cluster, free: int) -> str:
    """How many of the devices that a job may use are there and free; empty if it may use all."""
    words = words_of(row.spec, cluster)
    if len(cluster.by_type) < 2 and words in ((), (GPU,)):
        return ""
    there = devices_on(usable_by(row.spec, cluster, row.only_on), cluster)
    needs = wanted(row.spec.sizes[0], words)
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
