"""Waiting jobs in one list for each kind, kept up to date while jobs come and go.

A queue of thousands has few kinds of jobs, and most decisions concern the first of each. A policy
that sorted the queue into kinds itself would look at every job in it at every decision.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from treadle.core.job import JobId

Waiting = tuple[float, int, JobId]  # a job in the queue: its value, its place there, its id
# The kind of a waiting job, and its place among those of the kind: lower first.
Classify = Callable[[Waiting], tuple[Hashable, Any]]
Line = Sequence[tuple[Any, JobId]]


class WaitingByKind:
    """The lists of one queue. `basis`: they hold for as long as it is the same object."""

    def __init__(self, basis: object, queue: Iterable[Waiting]) -> None:
        self.basis = basis
        self._new = {waiting[2]: waiting for waiting in queue}  # not classified yet
        self._entries: dict[JobId, tuple[Hashable, tuple[Any, JobId]]] = {}
        self._lines: dict[Hashable, list[tuple[Any, JobId]]] = {}

    def add(self, waiting: Waiting) -> None:
        self._new[waiting[2]] = waiting

    def drop(self, job: JobId) -> None:
        if self._new.pop(job, None) is not None:
            return
        kind, entry = self._entries.pop(job)
        line = self._lines[kind]
        del line[bisect_left(line, entry)]
        if not line:
            del self._lines[kind]

    def lines(self, classify: Classify) -> Mapping[Any, Line]:
        """Jobs with their places, ascending, by kind."""
        for job, waiting in self._new.items():
            kind, place = classify(waiting)
            entry = (place, job)
            self._entries[job] = (kind, entry)
            insort(self._lines.setdefault(kind, []), entry)
        self._new.clear()
        return self._lines
