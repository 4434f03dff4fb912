"""Weft schedules deep-learning training: it knows how fast each job would run, and uses it."""

from importlib import import_module
from typing import TYPE_CHECKING

from weft.version import __version__

if TYPE_CHECKING:
    from weft import report
    from weft.client.asynchronous import AsyncClient
    from weft.client.client import Client
    from weft.core.actions import Change, Start, Stop
    from weft.core.allocation import Allocation
    from weft.core.cluster import Cluster, Device, Node
    from weft.core.errors import InvalidInputError, PolicyError, WeftError
    from weft.core.job import Job, JobSpec, Profile
    from weft.core.plan import Plan
    from weft.core.ports import Policy
    from weft.core.ranking import Rank
    from weft.core.scheduler import Scheduler
    from weft.core.snapshot import Reason, Schedule, Snapshot
    from weft.wire.jobs import JobRequest

__all__ = [
    "Allocation",
    "AsyncClient",
    "Change",
    "Client",
    "Cluster",
    "Device",
    "InvalidInputError",
    "Job",
    "JobRequest",
    "JobSpec",
    "Node",
    "Plan",
    "Policy",
    "PolicyError",
    "Profile",
    "Rank",
    "Reason",
    "Schedule",
    "Scheduler",
    "Snapshot",
    "Start",
    "Stop",
    "WeftError",
    "__version__",
    "report",
]

_HOMES = {
    "weft.client.asynchronous": ("AsyncClient",),
    "weft.client.client": ("Client",),
    "weft.core.actions": ("Change", "Start", "Stop"),
    "weft.core.allocation": ("Allocation",),
    "weft.core.cluster": ("Cluster", "Device", "Node"),
    "weft.core.errors": ("InvalidInputError", "PolicyError", "WeftError"),
    "weft.core.job": ("Job", "JobSpec", "Profile"),
    "weft.core.plan": ("Plan",),
    "weft.core.ports": ("Policy",),
    "weft.core.ranking": ("Rank",),
    "weft.core.scheduler": ("Scheduler",),
    "weft.core.snapshot": ("Reason", "Schedule", "Snapshot"),
    "weft.wire.jobs": ("JobRequest",),
}


def __getattr__(name: str) -> object:
    """Load a public name from its home when it is first used: `weft --help` needs none."""
    if name == "report":  # A module that is called: weft.report(step, total).
        return import_module("weft.report")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
