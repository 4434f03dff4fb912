"""Progress callbacks for long reads, draws and writes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Advance = Callable[[int], None]  # takes how much was done since the last call
Item = TypeVar("Item")

_EVERY = 1000  # jobs: often enough for a progress bar, too rarely to cost time


def ignore(count: int) -> None:
    """Do nothing."""


def counted(items: Iterable[Item], advance: Advance) -> Iterator[Item]:
    """The same items; calls `advance` after every thousand."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % _EVERY == 0:
            advance(_EVERY)
