"""Settings that change all the time and outlive the daemon.

They are written at most every EVERY_S and when the daemon leaves: one that is killed loses what
its last seconds added.
"""

from collections.abc import Callable, Hashable

EVERY_S = 30.0


class WrittenSlowly:
    """Says when a setting is to be written again."""

    def __init__(self, name: str, version: Hashable) -> None:
        """version: names what the store has; another one is to be written."""
        self._name = name
        self._written, self._write_at = version, 0.0

    def due(
        self, version: Hashable, text: Callable[[], str], now: float, *, last: bool
    ) -> dict[str, str]:
        """The setting; nothing if the store has it, or was given it a moment ago."""
        if version == self._written or (now < self._write_at and not last):
            return {}
        self._written, self._write_at = version, now + EVERY_S
        return {self._name: text()}
