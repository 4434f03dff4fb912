"""Which jobs may hold one device together: what no policy may decide otherwise.

An exclusive job has its devices to itself. The device memory that jobs are known to need, measured
or as their users say, must fit the device. A job that does not say counts nothing here: a live
policy gives it no company (models/company), and in traces it is taken to fit.
"""

from collections.abc import Iterable, Sequence

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.core.wording import gib_texts

# Left free on a device that is shared: peaks that were not seen, and the allocators' slack. The
# context of each process is in what was measured.
MARGIN_SHARE = 0.05
MARGIN_GIB = 1.0
CORES_SLACK = 1.05  # measured cores repeat within some per cent
# Jobs that use more cores than there are slow by as much, up to so many times as many. Those with
# threads that wait for each other soon lose far more (benchmarks/crowded_cores.py).
CROWD_MAX = 1.15


def needed_gib(spec: JobSpec) -> float:
    """What the job needs of each of its devices' memory; 0: not known."""
    return max(spec.device_memory_gib, spec.profile.memory_gib)


def needed_cores(spec: JobSpec, devices: int) -> float:
    """The cores that the job uses or asks for beside so many devices of one node."""
    known = spec.profile.cores
    return max(spec.host_cores, 1.0 if known is None else known * devices)


def cores_of_device(spec: JobSpec) -> float:
    """The cores that the job uses or asks for, for each of its devices.

    What it asks for is for all of its devices on a node: there are no fewer than its least size.
    """
    known, least = spec.profile.cores, spec.sizes[0]
    return max(spec.host_cores / least, 1.0 / least if known is None else known)


def cores_suffice(needed: float, cores: float, most: float = CORES_SLACK) -> bool:
    """Whether a node with so many cores (0: it does not say) has what its jobs need together.

    most: so many times as many as it has are enough.
    """
    return not cores or needed <= cores * most


def kept_in_crowd(needed: float, cores: float) -> float:
    """The share of their speed that jobs keep which need so many of a node's cores together."""
    return 1.0 if cores_suffice(needed, cores, 1.0) else cores / needed


def room_gib(device_gib: float) -> float:
    """How much of a device's memory jobs that share it may need together."""
    return device_gib * (1.0 - MARGIN_SHARE) - MARGIN_GIB


def smallest_device_gib(cluster: Cluster) -> float:
    """The least memory of a device that says it; 0: none does."""
    known = [node.device_memory_gib for node in cluster.nodes if node.device_memory_gib]
    return min(known, default=0.0)


def no_company(specs: Sequence[JobSpec], device_gib: float) -> str | None:
    """Why these jobs may not share a device of so much memory (0: unknown), or None."""
    return _exclusive(specs) or _too_large(specs, device_gib, room_gib(device_gib))


def impossible(specs: Sequence[JobSpec], device_gib: float, *, frozen: int = 0) -> str | None:
    """The same without a margin: such a schedule is refused like a double booking.

    frozen: so many of them, the last ones, have no more than their memory there.
    """
    computing = specs[: len(specs) - frozen]
    wrong = _exclusive(computing) if len(computing) > 1 else None
    return wrong or _too_large(specs, device_gib, device_gib)


def _exclusive(specs: Iterable[JobSpec]) -> str | None:
    for spec in specs:
        if spec.exclusive:
            return f"job {spec.id} is exclusive"
    return None


def _too_large(specs: Sequence[JobSpec], device_gib: float, room: float) -> str | None:
    if not device_gib:
        return None
    needs = [needed_gib(spec) for spec in specs]
    if sum(needs) <= room:
        return None
    room_of_all = gib_texts((max(room, 0.0), device_gib), " of the device's ")
    return f"they need {gib_texts(needs, ' + ')} of device memory, and {room_of_all} can be shared"
