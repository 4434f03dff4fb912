"""What facts are about: which jobs, which moment, and whether the scheduler takes them."""

from collections.abc import Iterable

from treadle.core.events import AttemptEnded, Event, JobsLearned, JobSubmitted, JobUpdated
from treadle.core.job import JobId
from treadle.journal.facts import RecordFact

Fact = Event | RecordFact


def job_of(fact: Fact) -> JobId:
    """The job that a fact is about; empty if it is about none."""
    if isinstance(fact, JobSubmitted | JobUpdated):
        return fact.spec.id
    return getattr(fact, "job", "")


def jobs_of(fact: Fact) -> tuple[JobId, ...]:
    """All jobs that a fact changes."""
    return fact.jobs if isinstance(fact, JobsLearned) else (job_of(fact),)


def core_facts(facts: Iterable[Fact]) -> list[Event]:
    """Those that the scheduler takes."""
    return [fact for fact in facts if not isinstance(fact, RecordFact)]


def moment_of(fact: Fact | None, at: float) -> float:
    """When it happened, which may be long before the controller heard of it, at `at`."""
    told = fact.ended_at if isinstance(fact, AttemptEnded) else None
    return at if told is None else told
