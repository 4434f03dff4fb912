"""GPUs through NVML, NVIDIA's own library, which may be missing, fail, or hang.

Every call runs in a thread of its own with a limit on its time: if a driver hangs, one
answer is missing and the daemon goes on.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]

from treadle.core.errors import EngineError
from treadle.engines.node.devices import Activity, DeviceProcess, Sight
from treadle.engines.node.gpu_activity import GpuCounters, or_none

ANSWER_WITHIN_S = 10.0
GIB = 2**30
WORDS = 32  # of 64 cores each

Answer = TypeVar("Answer")


class NvmlGpus:
    """The GPUs of this machine, in the order of their PCI addresses, named by UUID."""

    kind = "gpu"
    watched = True

    def __init__(self) -> None:
        """Raises EngineError with a sentence for users if no GPU is found."""
        self._worker = _Worker()
        self.driver = ""
        self.beside: dict[int, tuple[int, ...]] = {}
        self._handles: list[Any] = []
        self._counters: list[GpuCounters] = []  # made at the first look
        try:
            self.uuids = tuple(self._worker.ask(self._open, ANSWER_WITHIN_S))
        except pynvml.NVMLError as error:
            raise EngineError(f"no GPU can be used: NVML says {error}", retryable=False) from error
        if not self.uuids:
            raise EngineError("no GPU can be used: NVML finds none", retryable=False)
        self._last = tuple(Sight(number=n, uuid=u) for n, u in enumerate(self.uuids))

    def look(self) -> tuple[Sight, ...]:
        try:
            self._last = self._worker.ask(self._see_all, ANSWER_WITHIN_S)
        except (EngineError, pynvml.NVMLError) as error:
            return tuple(
                Sight(number=old.number, uuid=old.uuid, model=old.model, error=str(error))
                for old in self._last
            )
        return self._last

    def activity(self) -> tuple[Activity, ...]:
        try:
            return self._worker.ask(self._count_all, ANSWER_WITHIN_S)
        except (EngineError, pynvml.NVMLError):
            return ()

    # -- in the thread --------------------------------------------------------------------------

    def _open(self) -> list[str]:
        pynvml.nvmlInit()
        self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
        count = pynvml.nvmlDeviceGetCount()
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
        for number, handle in enumerate(self._handles):
            self.beside[number] = _cores_beside(handle)
        return [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in self._handles]

    def _count_all(self) -> tuple[Activity, ...]:
        if not self._counters:
            self._counters = [GpuCounters(n, handle) for n, handle in enumerate(self._handles)]
        return tuple(counters.look() for counters in self._counters)

    def _see_all(self) -> tuple[Sight, ...]:
        return tuple(self._see(number, handle) for number, handle in enumerate(self._handles))

    def _see(self, number: int, handle: Any) -> Sight:  # noqa: ANN401
        uuid = self.uuids[number]
        try:
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            found = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except pynvml.NVMLError as error:
            return Sight(number=number, uuid=uuid, error=f"NVML says {error}")
        return Sight(
            number=number,
            uuid=uuid,
            model=_text(or_none(lambda: pynvml.nvmlDeviceGetName(handle)) or ""),
            memory_gib=memory.total / GIB,
            memory_used_gib=memory.used / GIB,
            busy=or_none(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
            processes=tuple(
                DeviceProcess(
                    pid=process.pid,
                    memory_gib=None
                    if process.usedGpuMemory is None
                    else process.usedGpuMemory / GIB,
                )
                for process in found
            ),
        )


def _cores_beside(handle: Any) -> tuple[int, ...]:  # noqa: ANN401
    """The cores closest to a GPU; empty where the driver does not say."""
    words = or_none(lambda: pynvml.nvmlDeviceGetCpuAffinity(handle, WORDS)) or ()
    bits = enumerate(int(word) for word in words)
    return tuple(64 * at + bit for at, word in bits for bit in range(64) if word >> bit & 1)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


class _Worker:
    """One thread that calls the driver and may hang; its callers wait for a limited time."""

    def __init__(self) -> None:
        self._questions: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Any]]] = SimpleQueue()
        self._hangs = threading.Event()
        # A daemon, since a call that never returns must not keep the program from ending.
        threading.Thread(target=self._answer, name="nvml", daemon=True).start()

    def ask(self, question: Callable[[], Answer], within_s: float) -> Answer:
        if self._hangs.is_set():
            raise EngineError("the NVIDIA driver does not answer", retryable=True)
        box: SimpleQueue[Any] = SimpleQueue()
        self._questions.put((question, box))
        try:
            answer = box.get(timeout=within_s)
        except Empty:
            self._hangs.set()
            raise EngineError(
                f"the NVIDIA driver has not answered for {within_s:g} s", retryable=True
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def _answer(self) -> None:
        while True:
            question, box = self._questions.get()
            try:
                box.put(question())
            except Exception as error:  # the caller handles it
                box.put(error)
            self._hangs.clear()  # it answers again
