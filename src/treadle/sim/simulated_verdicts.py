"""Verdicts that a log classifier would give on the study's reasons, for simulated retries."""

from treadle.failures.failure_history import Patience
from treadle.failures.retry import UNKNOWN, Classified
from treadle.failures.verdict import Advice, Kind, Verdict
from treadle.sim.faults import CLASSES

# Reasons that point to the machine, not to the job.
_MACHINE = {"CUDA failure", "CUDA init failed", "GPU ECC"}
# A simulation cannot give more memory; one retry on another node is all it can do.
_PATIENCE = Patience(resource=1)


def classified() -> Classified:
    """A retry rule without history."""
    return Classified(verdict, _PATIENCE)


def verdict(reason: str) -> Verdict:
    """The verdict on a reason; unknown if the study does not know it."""
    if reason not in CLASSES:
        return UNKNOWN
    kind = Kind(CLASSES[reason])
    advice = Advice(kind is not Kind.DETERMINISTIC, "node" if reason in _MACHINE else "")
    return Verdict(kind, reason, f"{reason} is {kind}", advice)
