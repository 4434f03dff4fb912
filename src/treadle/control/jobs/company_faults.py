"""Failures of a job that shares its devices, which are the scheduler's mistake.

Two jobs share a GPU because the scheduler put them together. If one then runs out of GPU memory,
its owner is not to blame: it runs again alone, at once, and the failure is not counted. Under CUDA
MPS a fatal fault of one client can end the others as well, those on other GPUs included, so such
faults are forgiven too. A job that is at fault itself fails again when it is alone and without MPS,
and that failure counts.
"""

from collections.abc import Sequence
from dataclasses import replace

from treadle.core.attempt import How, Verdict
from treadle.core.events import (
    AttemptEnded,
    Event,
    JobReleased,
    JobsLearned,
    JobStopped,
    JobUpdated,
)
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.sighting import Company, Sighting

OUT_OF_MEMORY = frozenset({"gpu-out-of-memory", "gpu-library-memory"})
SERVER_FAILED = "gpu-mps"  # says that the MPS server ended the job, so others may be at fault
# What clients of one MPS server die of together.
FAULTS = frozenset({SERVER_FAILED, "gpu-xid", "gpu-lost", "cuda-failure", "cuda-invalid-access"})
HANG = "hang"  # it made no progress while it shared
COMPANY = "company"  # the reason for which a job that hangs is blocked, until it has stopped
_BY_ITSELF = (How.EXITED, How.LOST)
_SERVER = "the CUDA MPS server that it ran under failed"


def to_blame(ended: AttemptEnded, verdict: Verdict | None, others: Sequence[JobId]) -> bool:
    """Whether sharing explains this end."""
    if verdict is None or not others or ended.how not in _BY_ITSELF:
        return False
    mps = verdict.rule == SERVER_FAILED or _under_mps(ended.seen)
    return verdict.rule in OUT_OF_MEMORY or (mps and verdict.rule in FAULTS)


def server_to_blame(ended: AttemptEnded, verdict: Verdict | None, row: Job | None) -> bool:
    """Whether the MPS server ended a job that had its devices to itself.

    A job that may share runs under the server before it shares. One that is exclusive never
    does: if it fails so again, its own MPS did.
    """
    ours = row is not None and not row.spec.exclusive
    failed = verdict is not None and verdict.rule == SERVER_FAILED
    return ours and failed and ended.how in _BY_ITSELF


def why_alone(ended: AttemptEnded) -> str:
    """Why the job does not share its devices any more; empty if it may."""
    if ended.mps_failed:
        return _SERVER
    if not ended.beside:
        return ""
    others = " and job ".join(ended.beside)
    if ended.verdict is None:
        return f"it made no progress beside job {others}"
    rule = ended.verdict.rule
    if rule == SERVER_FAILED:
        return f"{_SERVER} beside job {others}"
    did = "ran out of GPU memory" if rule in OUT_OF_MEMORY else f"failed ({rule})"
    return f"it {did} beside job {others}"


def server_failed(ended: AttemptEnded) -> bool:
    """Whether the MPS server ended the job, so that another of its clients may be at fault."""
    verdict = ended.verdict
    return ended.mps_failed or (verdict is not None and verdict.rule == SERVER_FAILED)


def out_of_memory(ended: AttemptEnded) -> bool:
    """Whether it ran out of GPU memory while it shared; any of them may have taken it."""
    return bool(ended.beside) and ended.verdict is not None and ended.verdict.rule in OUT_OF_MEMORY


def blamed(ended: AttemptEnded, fault: str, others: Sequence[JobId]) -> AttemptEnded:
    """The end as the scheduler's mistake; its sighting remembers beside which jobs.

    fault: the rule of the failure, or HANG.
    """
    seen = ended.seen or Sighting()
    met = next((spell for spell in seen.company if set(spell.jobs) == set(others)), None)
    spell = replace(met or Company(tuple(others), 0.0), fault=fault)
    company = (*(each for each in seen.company if each is not met), spell)
    return replace(ended, beside=tuple(others), seen=replace(seen, company=company))


def parting(
    ended: AttemptEnded, row: Job | None, earlier: Sequence[object], blocked: Sequence[str]
) -> list[Event]:
    """The job shares no more until it ends; taken in the same step as its end.

    One that ran out of memory goes first until it has run again.

    row: of the job, before the scheduler takes the end. earlier: facts that it takes before.
    blocked: the reasons for which it is blocked; one that hung was blocked to stop it.
    """
    hung = COMPANY in blocked
    if row is None or ended.meaning is None:
        return []
    spec = spec_after(row.spec, earlier)
    if not (ended.beside or ended.mps_failed or hung):
        again = spec.ousted_by and ended.attempt and isinstance(ended.meaning, JobStopped)
        return [JobUpdated(replace(spec, ousted_by=()))] if again else []
    released = [JobReleased(ended.job, COMPANY)] if hung else []
    ousted_by = ended.beside if out_of_memory(ended) else ()
    return [JobUpdated(replace(spec, exclusive=True, ousted_by=ousted_by)), *released]


def spec_after(spec: JobSpec, earlier: Sequence[object]) -> JobSpec:
    """A job as the scheduler knows it once it has taken these facts."""
    for fact in earlier:
        if isinstance(fact, JobUpdated) and fact.spec.id == spec.id:
            spec = fact.spec
        elif isinstance(fact, JobsLearned) and spec.id in fact.jobs:
            spec = fact.applied(spec)
    return spec


def _under_mps(seen: Sighting | None) -> bool:
    return seen is not None and any(spell.mps for spell in seen.company)
