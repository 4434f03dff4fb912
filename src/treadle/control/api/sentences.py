"""Sentences about reasons with the names that users gave their jobs."""

from collections import Counter
from collections.abc import Iterable
from typing import TypedDict

from treadle.control.api.context import Context
from treadle.control.jobs import given_name
from treadle.core import sentences
from treadle.core.cluster import CPU
from treadle.core.job import JobId
from treadle.core.reasons import Number, Reason

_JOBS = ("job", "jobs", "holders")  # how the names of numbers end that are jobs


class Spoken(TypedDict):
    """A reason as every answer carries it."""

    code: str
    numbers: dict[str, object]
    sentence: str


class Said:
    """What is said at one moment."""

    def __init__(self, context: Context) -> None:
        self._records = context.jobs.records
        self._called: Counter[str] | None = None  # how many jobs have a name; counted when asked
        nodes = context.cluster.nodes
        slots = bool(nodes) and all(node.device_type == CPU for node in nodes)
        self.unit = "slot" if slots else "GPU"

    def name(self, job: JobId) -> str:
        """What its user calls it, if no other active job is called so; else empty."""
        return self._names((job,)).get(job, "")

    def label(self, job: JobId) -> str:
        return self.name(job) or job

    def sentence(self, reason: Reason) -> str:
        """The clause that follows "NAME is waiting:", and that `ps` shows."""
        return sentences.sentence(reason, self.unit, self._named(reason))

    def spoken(self, reason: Reason) -> Spoken:
        numbers = dict[str, object](reason.numbers)
        return Spoken(code=reason.code, numbers=numbers, sentence=self.sentence(reason))

    def details(self, reason: Reason) -> tuple[tuple[str, str], ...]:
        """Labels with one fact each."""
        return sentences.details(reason, self.unit, self._named(reason))

    def _named(self, reason: Reason) -> dict[JobId, str]:
        """The names of the jobs that a reason speaks of."""
        jobs = [value for name, value in reason.numbers.items() if name.endswith(_JOBS)]
        return self._names(each for value in jobs for each in _flat(value))

    def _names(self, jobs: Iterable[JobId]) -> dict[JobId, str]:
        """Of those that have one which no other active job has."""
        records = {job: self._records[job] for job in jobs if job in self._records}
        own = {job: name for job, record in records.items() if (name := given_name(record))}
        if own and self._called is None:
            self._called = Counter(each.name for each in list(self._records.values()))
        called = self._called or Counter()
        return {job: name for job, name in own.items() if called[name] == 1}


def _flat(value: Number) -> list[str]:
    return list(map(str, value)) if isinstance(value, tuple) else [str(value)]
