"""What a classifier of logs would say of the study's reasons, for retries in a simulation."""

from treadle.failures.failure_history import Patience
from treadle.failures.retry import UNKNOWN, Classified
from treadle.failures.verdict import Advice, Kind, Verdict
from treadle.sim.faults import CLASSES

# Reasons that speak against the machine, and not against the job.
_MACHINE = {"CUDA failure", "CUDA init failed", "GPU ECC"}
# A simulation cannot give more memory; once elsewhere is what is left to try.
_PATIENCE = Patience(resource=1)


def classified() -> Classified:
    """A rule that remembers nothing yet."""
    return Classified(verdict, _PATIENCE)


def verdict(reason: str) -> Verdict:
    """The verdict on a reason; unknown if the study does not know it."""
    if reason not in CLASSES:
        return UNKNOWN
    kind = Kind(CLASSES[reason])
    advice = Advice(kind is not Kind.DETERMINISTIC, "node" if reason in _MACHINE else "")
    return Verdict(kind, reason, f"{reason} is {kind}", advice)
