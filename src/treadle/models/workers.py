"""Speed on GPUs and CPU slots together.

One step of a job on w_g GPUs and w_c CPU slots takes as long as its slowest worker, plus the cost
of synchronising all of them:

    max over kinds(θ0·x + θ1) + sync·(w − 1),    w_g·x_g + w_c·x_c = batch, in whole samples

Each kind has its own θ0 and θ1, none below 0, and the batch is split so that both kinds finish
together. A CPU slot is a few cores; more cores of one slot help less and less, as d − a·e^(−b·c). A
slot that would get less than one sample is left idle.

`WorkersModel` gives every job such workers: its speed on GPUs alone comes from another model, and a
CPU slot is slower than a GPU by a ratio drawn for the job's family. A job whose model's name begins
with "cpu-" does not benefit from a GPU: it runs at the same speed on both kinds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, floor, inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import is_of
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.core.ports import PerformanceModel
from treadle.models.splitmix import draw_number

SLOT_CORES = 5
GPU_OVER_CORE = (4.0, 200.0)  # how many cores equal one GPU; varies by family
_SAMPLES_PER_DEVICE = 32
_SLOT_SYNC = 0.005  # of a step on one GPU, for each CPU slot beside others
_REMEMBERED_MAX = 100_000  # answers
_LEAST_S = 1e-12  # of a sample


class Count(NamedTuple):
    """Devices of an allocation by kind."""

    gpus: int
    slots: int


@dataclass(frozen=True, slots=True)
class Cores:
    """How well a slot uses its cores: d − a·e^(−b·c), over one core."""

    ceiling: float = 4.2
    loss: float = 5.0
    rate: float = 0.8

    def efficiency(self, cores: float) -> float:
        return self.ceiling - self.loss * exp(-self.rate * cores)


@dataclass(frozen=True, slots=True)
class Worker:
    """One kind of worker: seconds for each sample, and fixed seconds for each step."""

    sample_s: float
    step_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.sample_s >= 0 and self.step_s >= 0 and self.sample_s + self.step_s > 0):
            raise InvalidInputError(
                f"a worker's terms must be 0 or more, and a step take some time, not {self}"
            )

    def within(self, seconds: float) -> float:
        """Samples that it can do in that time."""
        if seconds < self.step_s:
            return 0.0
        return (seconds - self.step_s) / self.sample_s if self.sample_s else inf


@dataclass(frozen=True, slots=True)
class Workers:
    """A job's two kinds of workers and its batch."""

    gpu: Worker
    cpu: Worker
    batch: int
    gpu_sync_s: float = 0.0  # for each GPU beside others
    slot_sync_s: float = 0.0  # for each slot beside others

    def split(self, count: Count) -> tuple[int, int]:
        """Samples of one GPU and of one slot, rounded so that the batch is done."""
        if not count.slots:
            return -(-self.batch // count.gpus), 0
        if not count.gpus:
            return 0, -(-self.batch // count.slots)
        even_s = self._even_s(count)
        for_slot = floor(self.cpu.within(even_s) + 1e-9)
        rest = max(0, self.batch - for_slot * count.slots)
        return -(-rest // count.gpus), for_slot

    def step_s(self, count: Count) -> float:
        """Seconds of one step; slots without samples do not count."""
        for_gpu, for_slot = self.split(count)
        compute_s = sync_s = 0.0
        if for_gpu:
            compute_s = self.gpu.sample_s * for_gpu + self.gpu.step_s
            sync_s += self.gpu_sync_s * (count.gpus - 1)
        if for_slot:
            compute_s = max(compute_s, self.cpu.sample_s * for_slot + self.cpu.step_s)
            sync_s += self.slot_sync_s * (count.slots - (0 if for_gpu else 1))
        return compute_s + sync_s

    def _even_s(self, count: Count) -> float:
        """The time in which both kinds together do the batch, with fractional samples."""
        kinds = [
            (self.gpu.step_s, count.gpus / max(self.gpu.sample_s, _LEAST_S)),
            (self.cpu.step_s, count.slots / max(self.cpu.sample_s, _LEAST_S)),
        ]
        (early_s, early), (late_s, late) = sorted(kinds)
        alone_s = early_s + self.batch / early
        if alone_s <= late_s:
            return alone_s
        return (self.batch + early_s * early + late_s * late) / (early + late)


def is_cpu_only(spec: JobSpec) -> bool:
    """Whether the job does not benefit from a GPU, or may use none."""
    if spec.device_types:
        return all(word.lower() == CPU for word in spec.device_types)
    return spec.profile.model.startswith("cpu-")


def takes_slots(spec: JobSpec) -> bool:
    """Whether the job may be given CPU slots; one whose user said nothing may."""
    return not spec.device_types or says_slots(spec)


def says_slots(spec: JobSpec) -> bool:
    """Whether the job's user said that it may run on CPU slots."""
    return any(is_of(CPU, word) for word in spec.device_types)


class WorkersModel:
    """Another model's speeds on GPUs, plus what CPU slots add."""

    def __init__(self, base: PerformanceModel, cluster: Cluster, *, seed: int = 0) -> None:
        self._base = base
        self._cpu_nodes = frozenset(n.name for n in cluster.nodes if n.has_slots)
        self._seed = seed
        self._workers: dict[int, tuple[Profile, Workers]] = {}
        self._known: dict[tuple[int, Count], tuple[Profile, float]] = {}

    def count(self, allocation: Allocation) -> Count:
        slots = sum(device.node in self._cpu_nodes for device in allocation.devices)
        return Count(len(allocation.devices) - slots, slots)

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._base.alone(spec, size)

    def mixed(self, spec: JobSpec, count: Count) -> float:
        """Iterations a second on these counts of GPUs and slots, in the best placement."""
        if not count.slots or is_cpu_only(spec):
            return self._base.alone(spec, count.gpus + count.slots)
        key = (id(spec.profile), count)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            known = self._known[key] = (spec.profile, self._mixed(spec, count))
        return known[1]

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        count = self.count(allocation)
        if not count.slots or is_cpu_only(spec):
            return self._base.iterations_per_s(spec, allocation, ring)
        if not count.gpus:
            return self.mixed(spec, count)
        gpus = tuple(d for d in allocation.devices if d.node not in self._cpu_nodes)
        there = self._base.iterations_per_s(spec, Allocation(gpus, turn=allocation.turn), ring)
        return there * self.mixed(spec, count) / self._base.alone(spec, count.gpus)

    def workers(self, spec: JobSpec) -> Workers:
        """The workers of a job, from its profile and its family's ratio."""
        known = self._workers.get(id(spec.profile))
        if known is None:
            if len(self._workers) >= _REMEMBERED_MAX:
                self._workers.clear()
            known = self._workers[id(spec.profile)] = (spec.profile, self._drawn(spec))
        return known[1]

    def _mixed(self, spec: JobSpec, count: Count) -> float:
        """By the gain over the same GPUs alone, or over one GPU if it has none."""
        workers = self.workers(spec)
        gpus = Count(max(count.gpus, 1), 0)
        gain = workers.step_s(gpus) / workers.step_s(count)
        return self._base.alone(spec, gpus.gpus) * (max(gain, 1.0) if count.gpus else gain)

    def _drawn(self, spec: JobSpec) -> Workers:
        """The parallel share is a GPU's time per sample, the serial share its time per step."""
        single_s = 1.0 / self._base.alone(spec, 1)
        pair_s = 1.0 / self._base.alone(spec, 2)
        fixed_s = min(max(2.0 * pair_s - single_s, 0.0), single_s)
        batch = _SAMPLES_PER_DEVICE * spec.asked
        gpu = Worker(max(single_s - fixed_s, 1e-6 * single_s) / batch, fixed_s)
        ratio = slot_ratio(spec, self._seed)
        return Workers(
            gpu, replace(gpu, sample_s=gpu.sample_s * ratio), batch, 0.0, single_s * _SLOT_SYNC
        )


def slot_ratio(spec: JobSpec, seed: int) -> float:
    """How many slots equal one GPU for the job's family."""
    from hashlib import blake2b  # noqa: PLC0415  # loads slowly, and most runs never draw

    name = spec.profile.model or spec.id
    place = int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "big")
    low, high = GPU_OVER_CORE
    cores = low * (high / low) ** draw_number(place)
    return float(cores / Cores().efficiency(SLOT_CORES))
