"""Treadle schedules deep-learning training: it knows how fast each job would run, and uses it."""

from importlib import import_module
from typing import TYPE_CHECKING

from treadle.version import __version__

if TYPE_CHECKING:
    from treadle import report
    from treadle.client.asynchronous import AsyncClient
    from treadle.client.client import Client
    from treadle.core.actions import Change, Start, Stop
    from treadle.core.allocation import Allocation
    from treadle.core.cluster import Cluster, Device, Node
    from treadle.core.errors import InvalidInputError, PolicyError, TreadleError
    from treadle.core.job import Job, JobSpec, Profile
    from treadle.core.plan import Plan
    from treadle.core.ports import Policy
    from treadle.core.ranking import Rank
    from treadle.core.scheduler import Scheduler
    from treadle.core.snapshot import Reason, Schedule, Snapshot
    from treadle.wire.jobs import JobRequest

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
    "TreadleError",
    "__version__",
    "report",
]

_HOMES = {
    "treadle.client.asynchronous": ("AsyncClient",),
    "treadle.client.client": ("Client",),
    "treadle.core.actions": ("Change", "Start", "Stop"),
    "treadle.core.allocation": ("Allocation",),
    "treadle.core.cluster": ("Cluster", "Device", "Node"),
    "treadle.core.errors": ("InvalidInputError", "PolicyError", "TreadleError"),
    "treadle.core.job": ("Job", "JobSpec", "Profile"),
    "treadle.core.plan": ("Plan",),
    "treadle.core.ports": ("Policy",),
    "treadle.core.ranking": ("Rank",),
    "treadle.core.scheduler": ("Scheduler",),
    "treadle.core.snapshot": ("Reason", "Schedule", "Snapshot"),
    "treadle.wire.jobs": ("JobRequest",),
}


def __getattr__(name: str) -> object:
    """Load a public name from its home when it is first used: `treadle --help` needs none."""
    if name == "report":  # A module that is called: treadle.report(step, total).
        return import_module("treadle.report")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'treadle' has no attribute {name!r}")
