"""What the local engine shows of its node and of the attempts that run there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.core.cluster import Device, Node
from treadle.core.machine import DeviceView, Measurement, NodeView
from treadle.engines.local.live_attempt import LiveAttempt
from treadle.engines.node.cgroup import Containment
from treadle.engines.node.device_watch import DeviceWatch

Holders = Mapping[tuple[int, int], LiveAttempt]  # by (device, turn)


def node_view(
    node: Node, holders: Holders, watch: DeviceWatch, containment: Containment
) -> NodeView:
    """The node for people: which jobs hold which device, and what hangs."""
    jobs: dict[int, list[str]] = {}
    stuck: dict[int, str] = {}
    for (number, _), live in sorted(holders.items(), key=lambda item: item[0]):
        jobs.setdefault(number, []).append(live.job)
        if live.stuck:
            stuck[number] = live.stuck

    def shown(device: Device) -> DeviceView:
        view = watch.view(device.number, tuple(jobs.get(device.number, ())))
        return replace(view, because=stuck.get(device.number, view.because))

    return replace(
        NodeView.of(node, shown),
        containment=containment.kind,
        enforced=tuple(sorted(containment.limits)),
        stuck={live.job: live.stuck for live in holders.values() if live.stuck},
    )


def measured(holders: Holders, watch: DeviceWatch) -> Sequence[Measurement]:
    """How busy devices are; attempts that share a device share its busy time evenly."""
    running = {live.id: live for live in holders.values() if live.runs}
    sharers = Counter(number for live in running.values() for number, _ in live.slots)
    found = []
    for identity, live in running.items():
        seen = [(watch.busy(number), sharers[number]) for number, _ in live.slots]
        shares = [busy / sharing for busy, sharing in seen if busy is not None]
        found.append(Measurement(identity, sum(shares) / len(shares) if shares else None))
    return found
