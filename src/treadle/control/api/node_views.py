"""The nodes as people see them: what no process uses any more may still be a job's.

An engine knows which processes are there. A job on several nodes may have ended on some, and gives
back all its devices when it has ended on the last; until then none of them is free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.api.queue_order import being_left
from treadle.core.cluster import Device, Node
from treadle.core.job import JobId
from treadle.core.machine import DeviceView, NodeView
from treadle.wire.problems import UnknownNameError

_Jobs = Mapping[str, tuple[JobId, ...]]  # by device


def node_views(context: Context) -> Sequence[NodeView]:
    """Those that the engine has, with the jobs that hold devices or have not released them.

    A device whose node does not measure it is as busy as the one job on it.
    """
    scheduler = context.scheduler
    held: dict[str, tuple[JobId, ...]] = {
        str(device): (job,) for device, job in being_left(scheduler).items()
    }
    held |= {
        str(device): tuple(sorted(own.values()))
        for device, own in scheduler.tenancy.tenants.items()
    }
    parked: dict[str, tuple[JobId, ...]] = {}
    for job in scheduler.paused:
        allocation = scheduler.jobs[job].allocation
        for device in () if allocation is None else map(str, allocation.devices):
            parked[device] = (*parked.get(device, ()), job)
    busy = context.learner.seen.busy_now()
    return tuple(_with(node, held, parked, busy) for node in context.engine.view())


def _with(node: NodeView, held: _Jobs, parked: _Jobs, busy: Mapping[JobId, float]) -> NodeView:
    devices = tuple(_seen(each, held, parked, busy) for each in node.devices)
    return node if devices == node.devices else replace(node, devices=devices)


def _seen(
    device: DeviceView, held: _Jobs, parked: _Jobs, busy: Mapping[JobId, float]
) -> DeviceView:
    if device.name in parked:
        device = replace(device, paused=parked[device.name])
    if device.state == "free" and device.name in held:
        device = replace(device, state="held", jobs=held[device.name])
    if device.busy is None and len(device.jobs) == 1 and device.jobs[0] in busy:
        device = replace(device, busy=busy[device.jobs[0]])
    return device


def device_called(text: str, nodes: Sequence[Node]) -> Device:
    """A device by its name; without a node, of the only node."""
    name, _, number = text.rpartition(":")
    if not name and len(nodes) == 1:
        name = nodes[0].name
    for node in nodes:
        known = node.name == name and number.isascii() and number.isdigit()
        if known and int(number[:6]) < node.device_count:
            return Device(name, int(number))
    meant = [node for node in nodes if node.name == name] or nodes
    spans = [f"{node.name}:0 to {node.name}:{node.device_count - 1}" for node in meant[:4]]
    expected = ", or ".join(spans) + (", ..." if len(meant) > 4 else "")
    raise UnknownNameError(f"there is no device {text[:80]!r}; expected {expected}")
