"""Reasons that only the controller knows: codes and the names of their numbers, as in core.

Core's table is `treadle.core.reasons.CODES`. Sentences for both are made in sentences.py.
"""

from collections.abc import Mapping
from types import MappingProxyType

from treadle.core.reasons import Number, Reason

CODES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # A job that waits.
        "broken": ("because",),  # a job that had to succeed first did not
        "capacity": ("because",),  # it fits no device that is there, and waits for others
        "held": (),
        "dependency": ("after", "fails"),  # after: (job or array, id, state); fails: a job
        "array": ("array", "limit", "running", "before"),
        "launch": ("because", "in_s"),  # a machine could not launch it
        "lost-early": ("attempts", "in_s"),  # lost within seconds of their start
        "daemon-draining": (),
        "store": ("because",),
        "machine": ("because",),
        "policy": ("policy", "because"),
        "away": ("drained", "lost", "because", "undrain"),  # nodes that it needs are
        "bound-away": ("nodes", "away", "undrain"),  # away: drained or lost
        # Devices take no new work; opening: (device, node, cause) of those that would be enough.
        "closed": ("asked", "open", "devices", "because", "opening"),
        # A job that holds devices, or leaves them.
        "releasing": ("size", "jobs"),  # others must release its devices first
        "resizing": ("size", "live", "for_job", "stuck"),
        "launching": ("stuck",),
        "leaving": ("by", "for_job", "in_s", "grace_s", "stuck"),  # by: user, cancel or policy
        "node-lost": ("nodes", "stuck", "by", "resumable"),
        "over": ("since_s", "late"),  # it ended its training
        "ending": (),
        # A job that ended.
        "succeeded": (),
        "failed": ("exit", "because", "failures", "given_up"),
        "cancelled": ("by",),
        "timeout": ("limit_s",),
        # Why a job is not on a device; about is the code of its own reason.
        "there": ("device", "phase", "since_s"),
        "device-closed": ("device", "because"),
        "other-type": ("device", "has", "asked"),
        "other-memory": ("device", "has_gib", "asked_gib"),
        "files": ("device", "nodes", "shell"),
        "elsewhere": ("device", "jobs", "devices", "exclusive"),
        "not-yet": ("device", "jobs", "exclusive"),
        # What led to a change.
        "changed": ("asked", "freed", "from_jobs", "to_jobs", "turn", "policy"),
    }
)
NEVER = frozenset({"never-fits", "broken"})  # waiting does not help


def because(code: str, **numbers: Number) -> Reason:
    """A reason of the controller."""
    assert set(numbers) <= set(CODES[code]), f"{code} has no {set(numbers) - set(CODES[code])}"
    return Reason(code, numbers)
