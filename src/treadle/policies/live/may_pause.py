"""Who may be paused for whom, as far as that is for an administrator to say."""

from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase

WAYS = ("off", "opportunistic", "all")


class MayPause:
    """Which jobs that cannot resume are paused for others."""

    def __init__(self, pause: str) -> None:
        """pause: off, opportunistic or all."""
        if pause not in WAYS:
            raise InvalidInputError(f"live pause must be one of {', '.join(WAYS)}, not {pause!r}")
        self._pause = pause
        self.freezes = pause != "off"  # those that can resume, for a short while

    def __call__(self, job: Job) -> bool:
        """A job that runs."""
        runs = job.phase is Phase.RUNNING and job.over_at is None
        return runs and bool(job.pauses) and self.once_it_runs(job.spec)

    def once_it_runs(self, spec: JobSpec) -> bool:
        """One of which it is not known yet whether it can be."""
        allowed = self._pause == "all" or (self._pause == "opportunistic" and not spec.guaranteed)
        return allowed and spec.preemptible and not spec.resumable
