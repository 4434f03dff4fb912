"""Why a job waits, has what it has, or ended: a code and its numbers, never a sentence.

The decision leaves them behind, or they follow from it and the state without another decision.
Sentences are made from them in one place (sentences.py); no code reads a sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Union

Number = Union[float, str, bool, tuple["Number", ...]]  # noqa: UP007  # it names itself

_NONE: Mapping[str, Number] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reason:
    """What bound a job."""

    code: str
    numbers: Mapping[str, Number] = field(default_factory=lambda: _NONE)


# Every code, with the names of its numbers. Names of jobs end in `job` or `jobs`, or are `holders`.
# Seconds end in `_s`; `in_s` is left out where no moment is known.
CODES: Mapping[str, tuple[str, ...]] = {
    # A job that waits: what waiting cannot solve, then what others must do.
    "never-fits": ("because",),
    "broken": ("because",),  # a job that had to succeed first did not
    "capacity": ("because",),  # it fits no device that is there, and waits for others
    "held": ("reasons",),
    "dependency": ("after", "fails"),  # after: (job or array, id, state); fails: a job
    "array": ("array", "limit", "running", "held", "before"),  # before: not in lists
    "launch": ("because", "in_s"),  # a machine could not launch it
    "backoff": ("failures", "in_s"),
    "daemon-draining": (),
    "store": ("because",),
    "machine": ("because",),
    "policy": ("policy", "because"),
    "away": ("drained", "lost", "because", "undrain"),  # nodes that it needs are
    "bound-away": ("nodes", "away", "undrain", "by"),  # away: drained or lost; by: as `bound`
    # Devices take no new work; opening: (device, node, cause) of those that would be enough.
    "closed": ("asked", "open", "devices", "because", "opening"),
    # A job that waits: what the decision did.
    # nodes: (name, GiB left, cores left, GiB, cores, free devices, devices) of each that could do
    "host": ("memory_gib", "cores", "nodes"),
    "avoids": ("nodes", "in_s"),  # it failed there, and waits for others
    # Too few are free of the devices that it may use; memory_gib: that others have less of.
    "type": ("words", "asked", "free", "total", "memory_gib"),
    # by: `folder` or `checkpoints`, which others do not see, `one-node` or `shell`
    "bound": ("nodes", "asked", "free", "by"),
    "quota": ("tenant", "quota", "used", "asked"),
    "not-lent": ("tenant", "asked", "free"),  # what is free is in quotas: for what can resume
    "reserved": ("for_job", "devices", "in_s"),  # free devices are set aside for another
    "reservation": ("devices", "free", "in_s", "holders"),  # devices are set aside for it
    "share": ("user", "others"),  # its user has had its share; users whose jobs wait and go first
    # who: a user, or @ and a tenant; what: devices or jobs, of which they may have `most` at once
    "limit": ("who", "what", "most", "asked"),
    "priority": ("count", "priority"),  # count: jobs of a higher priority that wait
    "order": ("first_job", "asked", "free"),  # no job overtakes, and another is first, with `asked`
    "overtaking": ("first_job", "takes_s", "in_s"),  # it would not end before the first can start
    "fragmentation": ("asked", "free", "most"),  # most: free on one node
    "devices": ("asked", "free", "total", "holders"),
    "dedicated": ("asked", "free", "usable", "large"),  # jobs from `large` devices have whole nodes
    "locality": ("asked", "nodes", "fewest", "in_s"),  # it waits up to `in_s` for fewer nodes
    "tries": ("asked", "tries", "level", "in_s"),  # level: 0 fewest nodes, 1 twice those, 2 any
    "set-aside": ("asked", "have"),  # devices that are kept for it until it has all
    "trial-queue": ("asked", "trials", "most", "free"),  # it runs on one device first
    "cost": ("jobs", "cost_s", "gain_s", "in_s"),  # stopping or shrinking these does not pay yet
    "rank": ("ahead",),  # the policy starts others first
    "preempted": ("for_job", "since_s"),
    "patience": ("overtakes", "most", "in_s"),  # when devices will be reserved for it
    # by: a user, or for_job; how: frozen or suspended; its memory is memory_gib; jobs: that have
    # its devices now; stuck: why it could not go on; resumed: its user wants it to;
    # closed: a device of it takes no work, and why
    "paused": (
        *("by", "for_job", "since_s", "how", "memory_gib", "devices", "jobs", "stuck"),
        *("resumed", "closed"),
    ),
    "pausing": ("by", "for_job", "how"),
    # A job that holds devices.
    "starting": ("size",),
    "stopping": ("size",),
    "cancelling": ("size",),
    "trial": ("asked", "in_s"),  # on one device, and gets all that it asked for later
    "running": ("size", "least", "most", "asked"),
    "shares": ("size", "jobs"),
    "shrunk": ("size", "for_job"),
    "could-grow": ("size", "next", "free", "cost_s", "gain_s", "in_s"),
    "not-grown": ("size", "because", "in_s"),  # its new ranks failed, and are tried again later
    "releasing": ("size", "jobs"),  # others must release its devices first
    "resizing": ("size", "live", "for_job", "stuck"),
    "launching": ("stuck",),
    "leaving": ("by", "for_job", "in_s", "grace_s", "stuck"),  # by: user, cancel or policy
    "node-lost": ("nodes", "stuck", "by", "resumable"),
    "over": ("since_s", "late"),  # it ended its training
    "ending": (),
    # A job that ended.
    "succeeded": (),
    # kind: of its failure; more: what it needs more of, and of memory_gib it had that limit;
    # retriable: --retries would try it again; given_up: `repeats` in a row, or `most` in all
    "failed": (
        *("exit", "signal", "because", "failures", "given_up", "most"),
        *("kind", "more", "memory_gib", "retriable"),
    ),
    "cancelled": ("by",),
    "timeout": ("limit_s",),
    # An array whose members all run, or ended; states: (state, count).
    "members": ("states",),
    # What led to a change.
    "changed": ("asked", "freed", "from_jobs", "to_jobs", "turn", "policy"),
}
NEVER = frozenset({"never-fits", "broken"})  # waiting does not help


def because(code: str, **numbers: Number) -> Reason:
    """A reason with numbers that its code has."""
    assert set(numbers) <= set(CODES[code]), f"{code} has no {set(numbers) - set(CODES[code])}"
    return Reason(code, numbers)
