"""Jobs of several lines in one order, without looking at those for which there is no hope."""

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterator
from heapq import heappop, heappush, heapreplace
from operator import itemgetter
from typing import Any, Generic, TypeVar

from treadle.core.job import JobId
from treadle.core.waiting_by_kind import Line

Kind = TypeVar("Kind", bound=Hashable)
Weight = tuple[float, ...]


class InTurn(Iterator[tuple[JobId, Kind]], Generic[Kind]):
    """Lines of jobs merged by weight and then place, the least first.

    Kinds in `vain` are passed over; `recall` lets the jobs of theirs that are still to come have
    their turns again. Kinds in `done` have had all of theirs.
    """

    def __init__(self, vain: Collection[Kind]) -> None:
        self.done: set[Kind] = set()
        self._vain = vain
        self._lines: list[tuple[Weight, Line, Kind]] = []
        self._heads: list[tuple[Weight, Any, int, int]] = []  # weight, place, line, index
        self._passed: list[int] = []  # lines
        self._at: tuple[Weight, Any] = ((), None)  # of the last turn

    def add(self, weight: Weight, line: Line, kind: Kind) -> None:
        """One more line, in ascending order, of jobs of one kind."""
        heappush(self._heads, (weight, line[0][0], len(self._lines), 0))
        self._lines.append((weight, line, kind))

    def __next__(self) -> tuple[JobId, Kind]:
        heads = self._heads
        while heads:
            weight, place, number, index = heads[0]
            _, line, kind = self._lines[number]
            if kind in self.done:
                heappop(heads)
            elif kind in self._vain:
                heappop(heads)
                self._passed.append(number)
            else:
                self._at = (weight, place)
                if index + 1 < len(line):
                    heapreplace(heads, (weight, line[index + 1][0], number, index + 1))
                else:
                    heappop(heads)
                return line[index][1], kind
        raise StopIteration

    def recall(self) -> None:
        """Let kinds that were passed over have their turns from here on."""
        weight, place = self._at
        for number in self._passed:
            own, line, _ = self._lines[number]
            index = bisect_right(line, place, key=itemgetter(0))
            if own == weight and index < len(line):  # One of less weight is all behind.
                heappush(self._heads, (own, line[index][0], number, index))
        self._passed.clear()
