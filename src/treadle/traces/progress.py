"""How a long reading, drawing or writing tells whoever watches that it goes on."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Advance = Callable[[int], None]  # takes how much was done since the last call
Item = TypeVar("Item")

_EVERY = 1000  # jobs: often enough for a bar, and too rarely to be felt


def ignore(count: int) -> None:
    """Tell nobody."""


def counted(items: Iterable[Item], advance: Advance) -> Iterator[Item]:
    """The same items, telling of every thousand."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % _EVERY == 0:
            advance(_EVERY)
