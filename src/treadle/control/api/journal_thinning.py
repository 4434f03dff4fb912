"""Which lines of an old segment can go without changing what the journal amounts to.

The records of a journal are made of facts and orders, which stay. Two kinds of line say nothing
that a later one does not: decisions that ordered nothing, and progress of an ended job that was
followed by more progress. `Rebuilt` gives the same records with and without them.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from treadle.core.actions import Change, Start, Stop
from treadle.core.events import JobProgressed
from treadle.journal.codec import Decided
from treadle.store.rows import JournalRow

_ORDERS = frozenset(kind.__name__ for kind in (Start, Change, Stop))
_PROGRESS, _DECIDED = JobProgressed.__name__, Decided.__name__


class _Said(msgspec.Struct):
    share_per_s: float | None = None
    checkpoint: float | None = None


class _Line(msgspec.Struct):
    progress: _Said | None = None


_decoder = msgspec.json.Decoder(_Line)


def thinned(rows: Sequence[JournalRow], has_ended: Callable[[str], bool]) -> list[JournalRow]:
    """The lines that stay."""
    idle = _idle_decisions(rows)
    said: dict[str, _Said] = {}  # by job: what the progress line after this one says
    kept: list[JournalRow] = []
    for row in reversed(rows):
        if row.kind == _PROGRESS:
            words = _decoder.decode(row.body).progress or _Said()
            later = said.get(row.job)
            said[row.job] = words
            if later is not None and has_ended(row.job) and _covers(later, words):
                continue
        elif row.job:
            said.pop(row.job, None)
        if row.id not in idle:
            kept.append(row)
    return kept[::-1]


def _covers(later: _Said, earlier: _Said) -> bool:
    """Whether the later line says everything that a record keeps of the earlier one."""
    return (earlier.share_per_s is None or later.share_per_s is not None) and (
        earlier.checkpoint is None or later.checkpoint is not None
    )


def _idle_decisions(rows: Sequence[JournalRow]) -> set[int]:
    """Decisions in whose commit there is no order. The lines of a commit have the same moments."""
    found: set[int] = set()
    for _, group in groupby(rows, key=lambda row: (row.at, row.wall_at)):
        commit = list(group)
        if not any(row.kind in _ORDERS for row in commit):
            found.update(row.id for row in commit if row.kind == _DECIDED)
    return found
