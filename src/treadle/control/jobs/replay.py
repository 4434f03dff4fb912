"""Rebuilds records, attempts and what was learned from the journal alone."""

from collections.abc import Iterable
from typing import get_args

from treadle.control.jobs.facts_to_records import Reducer
from treadle.control.jobs.job_table import JobTable
from treadle.control.jobs.records import JobRecord
from treadle.control.learning import JobLearner
from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.scheduler import Scheduler
from treadle.journal.codec import Decided, decode
from treadle.journal.facts import RecordFact
from treadle.store.rows import AttemptRow, JournalRow

_RECORD_FACTS = get_args(RecordFact)
_EVENTS = get_args(Event)
_ACTIONS = get_args(Action)


class Rebuilt:
    """Everything that the lines of a journal amount to."""

    def __init__(self, scheduler: Scheduler) -> None:
        """scheduler: empty, with the nodes that the journal began with and its retry rule."""
        self.scheduler = scheduler
        self.jobs = JobTable()
        self.learner = JobLearner()
        self.ended: dict[str, JobRecord] = {}
        self.attempts: dict[tuple[str, int], AttemptRow] = {}
        self._reducer = Reducer(self.jobs, self.learner, scheduler)

    def apply(self, lines: Iterable[JournalRow]) -> "Rebuilt":
        """Apply lines in order."""
        for line in lines:
            self._apply(line)
            for row in self.jobs.take_changed_attempts():
                self.attempts[row.job, row.number] = row
        return self

    def _apply(self, line: JournalRow) -> None:
        now, value = decode(line.body)
        moments = {"now": now, "at": line.wall_at}
        if isinstance(value, Decided):
            self.scheduler.replay((), (), now, wake_at=value.moment)
        elif isinstance(value, _RECORD_FACTS):
            self.scheduler.replay((), (), now, wake_at=None)
            self._reducer.apply([value], (), **moments)
        elif isinstance(value, _EVENTS):
            self.scheduler.replay([value], (), now, wake_at=None)
            for record in self._reducer.apply([value], (), **moments):
                self.jobs.drop(record)
                self.ended[record.id] = record
        elif isinstance(value, _ACTIONS):
            self.scheduler.replay((), [value], now, wake_at=None)
            self._reducer.apply((), [value], **moments)
