"""Whether a policy may put a job beside others: memory, exclusive jobs, and what a belief knows."""

from collections.abc import Iterable

from treadle.core.cluster import Device
from treadle.core.company import no_company
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import SharingBelief
from treadle.core.snapshot import Snapshot

GROUP_MAX = 4  # jobs on one set of devices, unless a user wants fewer


class Companions:
    """Who is on which device while a policy gives devices out one after another."""

    def __init__(self, snapshot: Snapshot, belief: object = None) -> None:
        self._snapshot = snapshot
        self._belief = belief if isinstance(belief, SharingBelief) else None
        self._memory = {node.name: node.device_memory_gib for node in snapshot.cluster.nodes}
        self._cores = {node.name: node.cores for node in snapshot.cluster.nodes}
        self._given: dict[Device, list[JobId]] = {}
        self._all_suit = (
            self._belief is None
            and not any(self._memory.values())
            and not any(job.spec.exclusive for job in snapshot.jobs.values())
        )

    def give(self, job: JobId, devices: Iterable[Device]) -> None:
        for device in devices:
            self._given.setdefault(device, []).append(job)

    def unsuited(self, spec: JobSpec, devices: Iterable[Device]) -> set[Device]:
        """Those of the devices on which the job may not run beside those that are there."""
        if self._all_suit:
            return set()
        return {device for device in devices if not self._suits(spec, device)}

    def _suits(self, spec: JobSpec, device: Device) -> bool:
        there = (*self._snapshot.tenants.get(device, {}).values(), *self._given.get(device, ()))
        others = [self._snapshot.jobs[name].spec for name in there]
        if not others:
            return True
        specs = [spec, *others]
        if self._belief is not None:
            cores = self._cores.get(device.node, 0)
            if self._belief.refuses(specs, cores=cores) is not None:
                return False
        return no_company(specs, self._memory.get(device.node, 0.0)) is None
