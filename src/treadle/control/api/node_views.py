"""The nodes as people see them: what no process uses any more may still be a job's.

An engine knows which processes are there. A job on several nodes may have ended on some, and gives
back all its devices when it has ended on the last; until then none of them is free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.api.queue_order import being_left
from treadle.core.job import JobId
from treadle.core.machine import DeviceView, NodeView


def node_views(context: Context) -> Sequence[NodeView]:
    """Those that the engine has, with the jobs that hold devices or have not released them."""
    scheduler = context.scheduler
    held: dict[str, tuple[JobId, ...]] = {
        str(device): (job,) for device, job in being_left(scheduler).items()
    }
    held |= {
        str(device): tuple(sorted(own.values()))
        for device, own in scheduler.tenancy.tenants.items()
    }
    return tuple(_with(node, held) for node in context.engine.view())


def _with(node: NodeView, held: Mapping[str, tuple[JobId, ...]]) -> NodeView:
    if not any(_is_held(each, held) for each in node.devices):
        return node
    return replace(
        node,
        devices=tuple(
            replace(each, state="held", jobs=held[each.name]) if _is_held(each, held) else each
            for each in node.devices
        ),
    )


def _is_held(device: DeviceView, held: Mapping[str, tuple[JobId, ...]]) -> bool:
    return device.state == "free" and device.name in held
