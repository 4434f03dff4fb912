"""Whether a job that failed is tried again, when, and where not.

A rule is asked once for each failure, in the order in which they happened. It may remember: the
scheduler, the recorder and a replay of the journal each have one of their own and ask it about the
same failures, so all of them get the same answers.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from treadle.core.job import JobSpec

# What another try would meet: the same failure; most likely not the same; the same unless it is
# given more; it is not known.
FailureClass = Literal["deterministic", "transient", "resource", "unknown"]


class Failure(NamedTuple):
    """A job failed."""

    spec: JobSpec
    number: int  # how often it has failed by now
    reason: str
    nodes: tuple[str, ...]  # where it ran; empty if it had been ordered to stop
    at: float
    devices: tuple[str, ...] = ()  # the same, device by device


class Answer(NamedTuple):
    """What becomes of it."""

    again: bool
    wait_s: float = 0.0  # before it is worth another try
    avoid: tuple[str, ...] = ()  # nodes and devices where the next try had better not run


RetryRule = Callable[[Failure], Answer]


def fixed(failure: Failure) -> Answer:
    """As often as the job allows, whatever the reason."""
    return Answer(failure.number <= failure.spec.retries)
