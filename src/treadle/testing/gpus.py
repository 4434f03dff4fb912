"""Scripted GPUs: a test says which processes are on them and what they use."""

from dataclasses import replace

from treadle.engines.node.devices import Activity, DeviceProcess, Sight


class FakeGpus:
    """Scripted devices for an engine; the processes on them may be real ones."""

    kind = "gpu"
    watched = True

    def __init__(self, count: int, *, memory_gib: float = 80.0) -> None:
        self.uuids = tuple(f"GPU-{number:08d}" for number in range(count))
        self.beside: dict[int, tuple[int, ...]] = {}  # cores, by device
        self.looks = 0
        self.energy_j: float | None = None  # as the counter of each device stands
        self._sights = [
            Sight(
                number=number,
                uuid=uuid,
                model="Fake 80GB",
                memory_gib=memory_gib,
                memory_used_gib=0.0,
                busy=0.0,
            )
            for number, uuid in enumerate(self.uuids)
        ]

    def put(self, number: int, *pids: int, used_gib: float | None = None, error: str = "") -> None:
        """From now on exactly these processes are on the device."""
        each = 1.0
        self._sights[number] = replace(
            self._sights[number],
            processes=tuple(DeviceProcess(pid=pid, memory_gib=each) for pid in pids),
            memory_used_gib=len(pids) * each if used_gib is None else used_gib,
            error=error,
        )

    def set_busy(self, *shares: float) -> None:
        """How much of the last second each device worked."""
        for number, share in enumerate(shares):
            self._sights[number] = replace(self._sights[number], busy=share)

    def look(self) -> tuple[Sight, ...]:
        self.looks += 1
        return tuple(self._sights)

    def activity(self) -> tuple[Activity, ...]:
        return tuple(
            Activity(
                number=sight.number,
                busy=sight.busy,
                energy_j=self.energy_j,
                memory_used_gib=sight.memory_used_gib,
                memory_gib={
                    process.pid: process.memory_gib
                    for process in sight.processes
                    if process.memory_gib is not None
                },
            )
            for sight in self._sights
        )
