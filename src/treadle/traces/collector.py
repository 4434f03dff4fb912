"""The jobs read from one file so far, the line of each, and what was skipped."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId, JobSpec, Profile
from treadle.traces.workload import Ran, Workload

JOBS_MAX = 10_000_000
DURATION_MAX_S = 3.2e9  # a hundred years
SUBMIT_MAX_S = 1e12  # 30,000 years; today in seconds since 1970 is 1.8e9, in milliseconds 1.8e12


class Collector:
    """Collects jobs one by one. The reader of the file keeps `line` up to date."""

    def __init__(self, path: str) -> None:
        self.path = path  # as the user typed it
        self.line = 1  # of the file, where the newest row ends
        self._jobs: list[JobSpec] = []
        self._lines: dict[JobId, int] = {}
        self._statuses: dict[JobId, str] = {}
        self._runs: dict[JobId, Sequence[Ran]] = {}
        self._skipped: Counter[str] = Counter()
        self._shapes: dict[tuple[int, str, float], tuple[tuple[int, ...], Profile]] = {}

    def error(self, message: str) -> InvalidInputError:
        return InvalidInputError(f"{self.path} line {self.line}: {message}")

    def shape(
        self, size: int, model: str = "", alone_s: float = 0.0
    ) -> tuple[tuple[int, ...], Profile]:
        """The sizes and profile of a rigid job whose stages are unknown; equal jobs share them.

        Sharing pays: the 66,280 jobs of Philly's log have 12 shapes.
        """
        key = (size, model, alone_s)
        if key not in self._shapes:
            self._shapes[key] = (size,), Profile(alone_s=alone_s, size=size, model=model)
        return self._shapes[key]

    def rigid(
        self,
        identity: JobId,
        size: int,
        work: float,
        submit_at: float,
        *,
        model: str = "",
        alone_s: float = 0.0,  # seconds of one iteration, the unit of work; 0: one
        status: str = "",
        runs: Sequence[Ran] = (),
        **more: Any,  # noqa: ANN401  # other fields of the job
    ) -> None:
        """Add a job of one size."""
        sizes, profile = self.shape(size, model, alone_s)
        spec = JobSpec(identity, work, sizes=sizes, profile=profile, submit_at=submit_at, **more)
        self.add(spec, status, runs)

    def add(self, spec: JobSpec, status: str = "", runs: Sequence[Ran] = ()) -> None:
        """Add a job, its final status and when it ran; its id must be new."""
        if spec.id in self._lines:
            raise self.error(
                f"job {spec.id} was already given on line {self._lines[spec.id]}; "
                "every job needs its own id"
            )
        if spec.submit_at > SUBMIT_MAX_S:
            raise self.error(
                f"job {spec.id} is submitted at second {spec.submit_at:.13g}; "
                f"expected at most {SUBMIT_MAX_S:g}"
            )
        lasts_s = spec.iterations * spec.profile.iteration_s
        if lasts_s > DURATION_MAX_S:
            raise self.error(
                f"job {spec.id} would take {lasts_s:.10g} seconds; "
                f"expected at most {DURATION_MAX_S:g}, a hundred years"
            )
        if len(self._jobs) >= JOBS_MAX:
            raise self.error(f"more than {JOBS_MAX:,} jobs; cut the trace into parts")
        self._lines[spec.id] = self.line
        self._jobs.append(spec)
        if status:
            self._statuses[spec.id] = status
        if runs:
            self._runs[spec.id] = runs

    def skip(self, reason: str) -> None:
        """Skip the current row and count it in the notes."""
        self._skipped[reason] += 1

    def workload(self, format_name: str, *notes: str) -> Workload:
        """What was taken."""
        skipped = [f"left out {count:,} {what}" for what, count in sorted(self._skipped.items())]
        if not self._jobs:
            why = f" ({'; '.join(skipped)})" if skipped else ""
            raise InvalidInputError(f"{self.path} holds no jobs{why}; expected at least one")
        return Workload.of(
            Path(self.path).name,
            self._jobs,
            format=format_name,
            notes=(*notes, *skipped),
            lines=self._lines,
            statuses=self._statuses,
            path=self.path,
            runs=self._runs,
        )
