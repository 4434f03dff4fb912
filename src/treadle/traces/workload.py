"""A workload, the common form of every trace: jobs in order of submission, with notes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple, Self

from treadle.core.job import JobId, JobSpec


class Ran(NamedTuple):
    """One attempt of a job, as its trace records it."""

    from_at: float
    to_at: float
    nodes: tuple[tuple[str, int], ...] = ()  # devices on each; empty: not recorded


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order of submission. Jobs submitted together keep the order of their file."""

    name: str
    jobs: tuple[JobSpec, ...]
    format: str = ""
    notes: tuple[str, ...] = ()  # what a reader should know: units, assumptions, licence
    # Where a job was written, for messages: "/tmp/trace.csv line 12". Empty for generated jobs.
    lines: Mapping[JobId, int] = field(default_factory=dict)
    # How the trace says a job ended (pass, killed, failed); for statistics only.
    statuses: Mapping[JobId, str] = field(default_factory=dict)
    path: str = ""  # the file as the user typed it; empty for generated jobs
    # When jobs ran, in order of time, where the trace says so; for statistics only.
    runs: Mapping[JobId, Sequence[Ran]] = field(default_factory=dict)

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
        runs: Mapping[JobId, Sequence[Ran]] | None = None,
    ) -> Self:
        """A workload from jobs in any order."""
        in_order = tuple(sorted(jobs, key=attrgetter("submit_at")))
        ends = statuses or {}
        return cls(name, in_order, format, tuple(notes), lines or {}, ends, path, runs or {})

    @property
    def source(self) -> str:
        """Its name in messages: the file as the user typed it, or the generator's address."""
        return self.path or self.name

    def noted(self, notes: Sequence[str]) -> Self:
        """The same workload with these notes before its own."""
        return replace(self, notes=(*notes, *self.notes)) if notes else self

    def place(self, job: JobId) -> str:
        """The file and line a job comes from."""
        return f"{self.source} line {self.lines[job]}" if job in self.lines else self.source
