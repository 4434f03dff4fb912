"""Reasons for lists of thousands of jobs: of jobs that ask for the same, each is found once."""

from collections.abc import Hashable
from typing import NamedTuple

from treadle.control.api.context import Context
from treadle.control.api.nodes_away import on_drained
from treadle.control.api.sentences import Said
from treadle.control.api.why import reason
from treadle.control.jobs import JobRecord
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.policies.live.decide import remembered

# Reasons that jobs have in common which ask for the same.
_OF_ALL_ALIKE = ("devices", "type", "host", "fragmentation", "order", "machine", "closed")


class Brief(NamedTuple):
    """A reason as lists show it."""

    reason: Reason
    sentence: str


class Briefs:
    """Reasons of many jobs at one moment."""

    def __init__(self, context: Context) -> None:
        self._context, self._said = context, Said(context)
        self._alike: dict[Hashable, Brief] = {}
        last, scheduler = remembered(context.scheduler.memory), context.scheduler
        parts = (name for part in last.refused for name in part.jobs)
        reserved = (entry.job for entry in last.patience.reserved)
        # Jobs with a reason of their own, whatever they ask for.
        self._apart = {*parts, *reserved, *scheduler.blocked, *scheduler.unfit}
        self._hidden = last.hidden

    def of(self, record: JobRecord, row: Job | None) -> Brief:
        asks = None if row is None else self._asks(record, row)
        known = None if asks is None else self._alike.get(asks)
        if known is None:
            known = self._found(record, row)
            if asks is not None and known.reason.code in _OF_ALL_ALIKE:
                self._alike[asks] = known
        return known

    def _found(self, record: JobRecord, row: Job | None) -> Brief:
        found = reason(self._context, record, row)
        if row is not None and found.code == "running":  # That it runs, the state says.
            return Brief(found, on_drained(self._context, row))
        return Brief(found, self._said.sentence(found))

    def _asks(self, record: JobRecord, row: Job) -> Hashable | None:
        """What the reason of a waiting job follows from; None: also from what happened to it."""
        own = row.only_on or row.avoid or row.failures or record.preempted_at is not None
        if own or row.phase is not Phase.WAITING or row.id in self._apart:
            return None
        spec = row.spec
        ranked = (spec.sizes, spec.asked, spec.priority, spec.tenant, spec.guaranteed)
        host = (spec.host_memory_gib, spec.host_cores, spec.resumable)
        hidden = row.id in self._hidden and self._hidden[row.id].code
        return (*ranked, spec.device_types, spec.device_memory_gib, *host, hidden)
