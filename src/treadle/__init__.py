"""Treadle schedules deep-learning training: it knows how fast each job would run, and uses it.

These are the public names: a client and what it sends, and all that a policy of your own needs
(docs/add-a-policy.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING

from treadle.version import __version__

if TYPE_CHECKING:
    from treadle import report
    from treadle.client.client import Client
    from treadle.client.job_request import JobRequest
    from treadle.core.actions import Change, Start, Stop
    from treadle.core.allocation import Allocation
    from treadle.core.cluster import Cluster, Device, Node
    from treadle.core.errors import InvalidInputError, PolicyError, TreadleError
    from treadle.core.free import FreeDevices
    from treadle.core.job import Job, JobId, JobSpec, Profile
    from treadle.core.plan import Plan
    from treadle.core.ports import InterleavingModel, PerformanceModel, Policy
    from treadle.core.ranking import Rank
    from treadle.core.reasons import Reason
    from treadle.core.scheduler import Scheduler
    from treadle.core.snapshot import Schedule, Snapshot
    from treadle.models.scaling import ScalingModel
    from treadle.policies.base.ordered import Ordered
    from treadle.policies.base.placement import Fit, Placement, placement
    from treadle.policies.base.shares import Sharing
    from treadle.policies.wrappers.wrapper import Refusing, Remembering, Wrapper
    from treadle.sim.engine import SimulatedEngine
    from treadle.sim.run import Simulation

__all__ = [
    "Allocation",
    "Change",
    "Client",
    "Cluster",
    "Device",
    "Fit",
    "FreeDevices",
    "InterleavingModel",
    "InvalidInputError",
    "Job",
    "JobId",
    "JobRequest",
    "JobSpec",
    "Node",
    "Ordered",
    "PerformanceModel",
    "Placement",
    "Plan",
    "Policy",
    "PolicyError",
    "Profile",
    "Rank",
    "Reason",
    "Refusing",
    "Remembering",
    "ScalingModel",
    "Schedule",
    "Scheduler",
    "Sharing",
    "SimulatedEngine",
    "Simulation",
    "Snapshot",
    "Start",
    "Stop",
    "TreadleError",
    "Wrapper",
    "__version__",
    "placement",
    "report",
]

_HOMES = {
    "treadle.client.client": ("Client",),
    "treadle.client.job_request": ("JobRequest",),
    "treadle.core.actions": ("Change", "Start", "Stop"),
    "treadle.core.allocation": ("Allocation",),
    "treadle.core.cluster": ("Cluster", "Device", "Node"),
    "treadle.core.errors": ("InvalidInputError", "PolicyError", "TreadleError"),
    "treadle.core.free": ("FreeDevices",),
    "treadle.core.job": ("Job", "JobId", "JobSpec", "Profile"),
    "treadle.core.plan": ("Plan",),
    "treadle.core.ports": ("InterleavingModel", "PerformanceModel", "Policy"),
    "treadle.core.ranking": ("Rank",),
    "treadle.core.scheduler": ("Scheduler",),
    "treadle.core.reasons": ("Reason",),
    "treadle.core.snapshot": ("Schedule", "Snapshot"),
    "treadle.models.scaling": ("ScalingModel",),
    "treadle.policies.base.ordered": ("Ordered",),
    "treadle.policies.base.placement": ("Fit", "Placement", "placement"),
    "treadle.policies.base.shares": ("Sharing",),
    "treadle.policies.wrappers.wrapper": ("Refusing", "Remembering", "Wrapper"),
    "treadle.sim.engine": ("SimulatedEngine",),
    "treadle.sim.run": ("Simulation",),
}


def __getattr__(name: str) -> object:
    """Load a public name from its home when it is first used: `treadle --help` needs none."""
    if name == "report":  # A module that is called: treadle.report(step, total).
        return import_module("treadle.report")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'treadle' has no attribute {name!r}")
