"""What an agent shows of its machine, and of the attempts that run there."""

from collections.abc import Mapping
from dataclasses import replace

from treadle.core.cluster import Device, Node
from treadle.core.machine import DeviceView, NodeView
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.node_gate import NodeGate
from treadle.engines.node.cgroup import Containment
from treadle.engines.node.device_watch import DeviceWatch
from treadle.engines.node.mps import Mps
from treadle.engines.node.observer import Watched

Holders = Mapping[tuple[int, int], LiveAttempt]  # by (device, turn)


def node_view(
    gate: NodeGate, holders: Holders, watch: DeviceWatch, containment: Containment
) -> NodeView:
    """The node for people: its devices as they are without jobs, and what hangs.

    Jobs come and go while a view is on its way: the controller knows better which are there.
    """
    stuck = {number: live.stuck for (number, _), live in sorted(holders.items()) if live.stuck}

    def shown(device: Device) -> DeviceView:
        view = watch.view(device.number)
        return replace(view, because=stuck.get(device.number, view.because))

    return replace(
        NodeView.of(gate.node, shown),
        drained=gate.drained,
        containment=containment.kind,
        enforced=tuple(sorted(containment.limits)),
        stuck={live.job: live.stuck for live in holders.values() if live.stuck},
    )


def watched(holders: Holders, node: Node, mps: Mps) -> list[Watched]:
    """The attempts that run, for the observer."""
    running = {live.id: live for live in holders.values() if live.runs}
    return [
        Watched(
            identity,
            live.scope,
            tuple(number for number, _ in live.slots),
            node.cores * len(live.slots) / node.device_count,
            mps.is_client(identity),
        )
        for identity, live in running.items()
    ]
