"""Rebuilds records, attempts and what was learned from the journal alone."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import get_args

from treadle.control.jobs.fact_subjects import core_facts
from treadle.control.jobs.facts_to_records import Reducer
from treadle.control.jobs.job_table import JobTable
from treadle.control.jobs.records import JobRecord
from treadle.control.learning import JobLearner
from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.scheduler import Scheduler
from treadle.journal.codec import Decided, Line, decode
from treadle.journal.facts import RecordFact
from treadle.store.rows import AttemptRow, JournalRow

_FACTS = (*get_args(RecordFact), *get_args(Event))
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
        """Apply lines in order. Those of one commit have the same moments."""
        for (now, at), group in groupby(lines, key=lambda line: (line.at, line.wall_at)):
            self._apply([decode(line.body)[1] for line in group], now, at)
            for row in self.jobs.take_changed_attempts():
                self.attempts[row.job, row.number] = row
        return self

    def _apply(self, values: Sequence[Line], now: float, at: float) -> None:
        facts = [value for value in values if isinstance(value, _FACTS)]
        actions = [value for value in values if isinstance(value, _ACTIONS)]
        wake_at = next((value.moment for value in values if isinstance(value, Decided)), None)
        self.scheduler.replay(core_facts(facts), actions, now, wake_at=wake_at)
        for record in self._reducer.apply(facts, actions, now=now, at=at):
            self.jobs.drop(record)
            self.ended[record.id] = record
