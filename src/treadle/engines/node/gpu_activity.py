"""How busy GPUs are, through NVML: shares of time, memory by process, energy.

Everything here runs in the thread that calls the driver (gpus.py). What a GPU or a driver does not
answer is None. On Hopper and later, NVML's GPM counts between two samples how many multiprocessors
worked and how much of the memory's bandwidth was used, which says more than the busy share.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]

from treadle.engines.node.devices import Activity

GIB = 2**30
PERCENT = 100.0
_GPM_METRICS = (pynvml.NVML_GPM_METRIC_SM_UTIL, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL)

Answer = TypeVar("Answer")


class GpuCounters:
    """Reads one GPU, and remembers its last samples."""

    def __init__(self, number: int, handle: Any) -> None:  # noqa: ANN401
        self._number = number
        self._handle = handle
        self._seen_us = 0  # the newest sample of processes that was read
        self._gpm = _Gpm.of(handle)

    def look(self) -> Activity:
        handle = self._handle
        rates = or_none(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
        energy_mj = or_none(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        memory = or_none(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
        active, bandwidth = (None, None) if self._gpm is None else self._gpm.since()
        return Activity(
            number=self._number,
            busy=None if rates is None else rates.gpu / PERCENT,
            memory_busy=None if rates is None else rates.memory / PERCENT,
            active=active,
            bandwidth=bandwidth,
            energy_j=None if energy_mj is None else energy_mj / 1000.0,
            memory_used_gib=None if memory is None else memory.used / GIB,
            memory_gib=self._memory_by_process(),
            process_busy=self._busy_by_process(),
        )

    def _memory_by_process(self) -> dict[int, float]:
        """Clients of MPS are in a list of their own."""
        found: dict[int, float] = {}
        for ask in (
            pynvml.nvmlDeviceGetComputeRunningProcesses,
            pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
        ):
            for process in or_none(lambda ask=ask: ask(self._handle)) or ():  # type: ignore[misc]
                if process.usedGpuMemory is not None:
                    used_gib = process.usedGpuMemory / GIB
                    found[process.pid] = max(used_gib, found.get(process.pid, 0.0))
        return found

    def _busy_by_process(self) -> dict[int, float]:
        """Means of the samples since the last look; the driver takes several a second."""
        samples = (
            or_none(lambda: pynvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us))
            or ()
        )
        shares: dict[int, list[float]] = defaultdict(list)
        for sample in samples:
            if sample.timeStamp > self._seen_us:
                shares[sample.pid].append(sample.smUtil / PERCENT)
        self._seen_us = max([self._seen_us, *(sample.timeStamp for sample in samples)])
        return {pid: sum(each) / len(each) for pid, each in shares.items() if pid}


class _Gpm:
    """Two samples of the counters, used in turn."""

    def __init__(self, handle: Any) -> None:  # noqa: ANN401
        self._handle = handle
        self._before = pynvml.nvmlGpmSampleAlloc()
        self._after = pynvml.nvmlGpmSampleAlloc()
        pynvml.nvmlGpmSampleGet(handle, self._before)

    @classmethod
    def of(cls, handle: Any) -> "_Gpm | None":  # noqa: ANN401
        """None where the GPU or the driver has no GPM."""
        with suppress(pynvml.NVMLError):
            if pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                return cls(handle)
        return None

    def since(self) -> tuple[float | None, float | None]:
        """Shares of multiprocessors and of bandwidth since the last call."""
        try:
            pynvml.nvmlGpmSampleGet(self._handle, self._after)
            request = pynvml.c_nvmlGpmMetricsGet_t()
            request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
            request.numMetrics = len(_GPM_METRICS)
            request.sample1, request.sample2 = self._before, self._after
            for place, metric in enumerate(_GPM_METRICS):
                request.metrics[place].metricId = metric
            pynvml.nvmlGpmMetricsGet(request)
        except pynvml.NVMLError:
            return None, None
        self._before, self._after = self._after, self._before
        active, bandwidth = (_metric(request.metrics[place]) for place in range(2))
        return active, bandwidth


def _metric(metric: Any) -> float | None:  # noqa: ANN401
    """A percentage as a share; None if NVML refused this one."""
    if metric.nvmlReturn != pynvml.NVML_SUCCESS or not 0.0 <= metric.value <= PERCENT:
        return None
    return float(metric.value) / PERCENT


def or_none(ask: Callable[[], Answer]) -> Answer | None:
    """The answer, or None where this kind of GPU has none."""
    try:
        return ask()
    except pynvml.NVMLError:
        return None
