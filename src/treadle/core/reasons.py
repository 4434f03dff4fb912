"""Why a job waits, or has what it has: a code and its numbers, never a sentence.

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
    # A job that waits: what waiting cannot solve, what others must do, then what the decision did.
    "never-fits": ("because",),
    "hold": ("reasons",),
    "backoff": ("failures", "in_s"),
    # nodes: (name, GiB left, cores left, GiB, cores, free devices, devices) of each that could do
    "host": ("memory_gib", "cores", "nodes"),
    "avoids": ("nodes", "in_s"),  # it failed there, and waits for others
    # Too few are free of the devices that it may use; memory_gib: that others have less of.
    "type": ("words", "asked", "free", "total", "memory_gib"),
    "bound": ("nodes", "asked", "free"),  # its files or its shell are there
    "quota": ("tenant", "quota", "used", "asked"),
    "not-lent": (
        "tenant",
        "asked",
        "free",
    ),  # free devices are in quotas: only for what can resume
    "reserved": ("for_job", "devices", "in_s"),  # free devices are set aside for another
    "reservation": ("devices", "free", "in_s", "holders"),  # devices are set aside for it
    "priority": ("count", "priority"),  # so many jobs of a higher priority wait
    "order": ("first_job", "asked", "free"),  # no job overtakes, and another is first, with `asked`
    "overtaking": ("first_job", "takes_s", "in_s"),  # it would not end before the first can start
    "fragmentation": ("asked", "free", "most"),  # most: free on one node
    "devices": ("asked", "free", "total", "holders"),
    "dedicated": ("asked", "free", "usable", "large"),  # jobs from `large` devices have whole nodes
    "locality": ("asked", "nodes", "fewest", "in_s"),  # it waits so long for fewer nodes
    "tries": ("asked", "tries", "level", "in_s"),  # level: 0 fewest nodes, 1 twice those, 2 any
    "set-aside": ("asked", "have"),  # devices that are kept for it until it has all
    "trial-queue": ("asked", "trials", "most", "free"),  # it runs on one device first
    "cost": ("jobs", "cost_s", "gain_s", "in_s"),  # stopping or shrinking these does not pay yet
    "rank": ("ahead",),  # the policy starts others first
    "preempted": ("for_job", "since_s"),
    "patience": ("overtakes", "most", "in_s"),  # when devices will be reserved for it
    # A job that holds devices.
    "starting": ("size",),
    "stopping": ("size",),
    "cancelling": ("size",),
    "trial": ("asked", "in_s"),  # on one device, and gets all that it asked for later
    "running": ("size", "least", "most", "asked"),
    "shares": ("size", "jobs"),
    "shrunk": ("size", "for_job"),
    "could-grow": ("size", "next", "free", "cost_s", "gain_s", "in_s"),
}
