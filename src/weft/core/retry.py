"""Whether a job that failed is tried again."""

from collections.abc import Callable, Mapping
from typing import Literal

from weft.core.job import JobSpec

# The job, how often it has failed by now, and the reason of the last time.
RetryRule = Callable[[JobSpec, int, str], bool]

# What another try would meet: the same failure; most likely not the same; the same unless it is
# given more; nobody can tell.
FailureClass = Literal["deterministic", "transient", "resource", "unknown"]

# How many failures of a class are answered with another try; None: as many as the job allows.
_TRIES: Mapping[FailureClass, int | None] = {
    "deterministic": 0,
    "transient": None,
    "resource": 1,
    "unknown": 1,
}


def fixed(spec: JobSpec, failures: int, reason: str) -> bool:  # noqa: ARG001
    """As often as the job allows, whatever the reason."""
    return failures <= spec.retries


def classified(classify: Callable[[str], FailureClass]) -> RetryRule:
    """By the class of the reason, and never more often than the job allows."""

    def retry(spec: JobSpec, failures: int, reason: str) -> bool:
        tries = _TRIES[classify(reason)]
        return failures <= (spec.retries if tries is None else min(tries, spec.retries))

    return retry
