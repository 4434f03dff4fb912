"""How busy devices are whose node does not measure it, by what is measured of the job on them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.core.job import JobId
from treadle.core.machine import DeviceView, NodeView


def with_busy(nodes: Sequence[NodeView], busy: Mapping[JobId, float]) -> tuple[NodeView, ...]:
    """busy: of jobs, lately. A slot of the CPU is as busy as the one job that has it."""
    return tuple(_node(node, busy) for node in nodes)


def _node(node: NodeView, busy: Mapping[JobId, float]) -> NodeView:
    if not any(_is_unknown(device) and device.jobs[0] in busy for device in node.devices):
        return node
    return replace(
        node,
        devices=tuple(
            replace(each, busy=busy.get(each.jobs[0])) if _is_unknown(each) else each
            for each in node.devices
        ),
    )


def _is_unknown(device: DeviceView) -> bool:
    return device.busy is None and len(device.jobs) == 1
