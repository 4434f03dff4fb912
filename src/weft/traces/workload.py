"""What every trace becomes: jobs in order of submission, and what the trace says about itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Self

from weft.core.job import JobId, JobSpec


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order of submission. Jobs of one moment keep the order of their file."""

    name: str
    jobs: tuple[JobSpec, ...]
    format: str = ""
    notes: tuple[str, ...] = ()  # what a reader should know: units, assumptions, licence
    # Where a job was written, for messages: "/tmp/trace.csv line 12". Empty for generated jobs.
    lines: Mapping[JobId, int] = field(default_factory=dict)
    # How the trace says a job ended (pass, killed, failed); for statistics only.
    statuses: Mapping[JobId, str] = field(default_factory=dict)
    path: str = ""  # the file as the user typed it; empty for generated jobs

    @classmethod
    def of(
        cls,
        name: str,
        jobs: Iterable[JobSpec],
        *,
        format: str = "",  # noqa: A002
        notes: Sequence[str] = (),
        lines: Mapping[JobId, int] | None = None,
        statuses: Mapping[JobId, str] | None = None,
        path: str = "",
    ) -> Self:
        """A workload from jobs in any order."""
        in_order = tuple(sorted(jobs, key=attrgetter("submit_at")))
        return cls(name, in_order, format, tuple(notes), lines or {}, statuses or {}, path)

    @property
    def source(self) -> str:
        """What messages call it: the file as the user typed it, or the generator's address."""
        return self.path or self.name

    def noted(self, notes: Sequence[str]) -> Self:
        """The same workload with these notes before its own."""
        return replace(self, notes=(*notes, *self.notes)) if notes else self

    def place(self, job: JobId) -> str:
        """The file and line a job comes from."""
        return f"{self.source} line {self.lines[job]}" if job in self.lines else self.source
