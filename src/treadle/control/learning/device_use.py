"""How busy the devices of each attempt were on average, where its engine measures that."""

from collections.abc import Iterable

from treadle.core.launch import AttemptId
from treadle.core.machine import Measurement


class DeviceUse:
    """Means over measurements, of attempts that run."""

    def __init__(self) -> None:
        self._seen: dict[AttemptId, tuple[float, int]] = {}

    def see(self, measurements: Iterable[Measurement]) -> None:
        """Add one measurement of each attempt."""
        for measured in measurements:
            if measured.busy is not None:
                total, count = self._seen.get(measured.attempt, (0.0, 0))
                self._seen[measured.attempt] = (total + measured.busy, count + 1)

    def mean(self, attempt: AttemptId) -> float | None:
        """The mean so far; None if nothing was measured."""
        total, count = self._seen.get(attempt, (0.0, 0))
        return total / count if count else None

    def forget(self, attempt: AttemptId) -> None:
        self._seen.pop(attempt, None)
