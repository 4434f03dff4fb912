"""Facts about jobs that the scheduler does not need, and that records are made of.

They go through the controller's inbox like every other fact and are journaled in order, so that
the journal alone rebuilds every record.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.core.job import JobId


@dataclass(frozen=True, slots=True)
class JobAccepted:
    """A submission was accepted, with everything its user asked for; JobSubmitted follows."""

    job: JobId  # or the id of the array
    record: Mapping[str, object]  # control/jobs/records.py JobRecord, as plain values
    members: tuple[int, ...] = ()  # of an array; the record is the first one's


@dataclass(frozen=True, slots=True)
class JobEdited:
    """Its owner changed what the scheduler does not look at. None: unchanged."""

    job: JobId
    name: str | None = None
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class DependencyBroken:
    """A job that this one waits for ended badly: it can never start."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class DependenciesDropped:
    """Its owner lets it run without the jobs that it waited for."""

    job: JobId


@dataclass(frozen=True, slots=True)
class ControllerBegan:
    """A controller began. Nonces of attempts are made from its run id, which is random."""

    run: str


@dataclass(frozen=True, slots=True)
class ScriptForgotten:
    """A person had what was learned of a script forgotten."""

    script: str
    user: str  # who ordered it
    kinds: tuple[str, ...]


RecordFact = (
    ControllerBegan
    | JobAccepted
    | JobEdited
    | DependencyBroken
    | DependenciesDropped
    | ScriptForgotten
)
