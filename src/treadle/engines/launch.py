"""What an engine must know to launch a job, and what it tells when that ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from treadle.core.allocation import Allocation
from treadle.core.job import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt at a job, but for its devices, which are the order's."""

    job: JobId
    attempt: int  # number of the attempt, from 1: one for each order that launches processes
    command: tuple[str, ...]
    workdir: str
    ranks: int  # processes; each sees all devices of the job, as under torchrun
    launcher: bool = False  # the command starts the ranks itself (torchrun, accelerate, ...)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # environment too; masked in output
    uid: int | None = None  # run as this user; None: as whoever runs the engine
    gid: int | None = None
    user: str = ""
    stop_signal: str = "SIGTERM"
    grace_s: float = 30.0
    time_limit_s: float | None = None  # what is left of it
    log_bytes_max: int = 256 * 2**20  # of one rank: head and tail are kept
    resumed: bool = False  # an earlier attempt has run


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended, as its supervisor left it on disk."""

    job: JobId
    attempt: int
    action: int
    code: int  # as shells write it; of the rank that failed first, or 0
    codes: tuple[int | None, ...]  # of each rank
    told: str = ""  # "stopped", "time-limit", "oom-killed", "lost" (its supervisor was killed)
    error: str = ""  # why it could not be launched at all, in one sentence
    started_at: float | None = None  # seconds since 1970
    ended_at: float | None = None
    ran_s: float | None = None  # by a clock that nobody sets, where the supervisor could say
    folder: Path = Path()  # with rank-<r>.log


class JobBook(Protocol):
    """What the controller knows of jobs, for its engine."""

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:
        """How to launch the job for that order; the same answer if it is asked again."""
        ...

    def begun(self, job: JobId, action: int, allocation: Allocation) -> tuple[float, float]:
        """Its processes run: iterations done so far, and iterations a second expected."""
        ...

    def done(self, job: JobId) -> float:
        """Iterations that are safe if it is stopped or fails now."""
        ...

    def ended(self, ended: Ended) -> str:
        """An attempt has ended; the reason (the name of a rule) if it failed."""
        ...
