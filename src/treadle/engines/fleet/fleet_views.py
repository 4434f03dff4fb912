"""What a fleet shows: its nodes as their agents saw them last, and measurements put together.

Which job holds which device is taken from the engine's own books, which are never behind its facts.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from treadle.core.cluster import Device, Node
from treadle.core.events import DeviceClosed
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.machine import NOT_USED, UNUSED, DeviceView, Measurement, NodeView
from treadle.core.sighting import Load
from treadle.core.wording import span
from treadle.engines.fleet.course import Course
from treadle.engines.fleet.node_client import Health, NodeClient
from treadle.engines.fleet.silent_nodes import AWAY

_SUMMED = ("power_w", "cores", "memory_gib", "read_mb_s", "written_mb_s", "network_mb_s")
_AVERAGED = ("busy", "memory_busy", "active", "bandwidth")

# What a view rests on: the node, what its agent said, who holds its devices, those that are closed.
_Basis = tuple[
    Node, NodeView | None, list[tuple[JobId, ...]], list[DeviceClosed | None], dict[JobId, str]
]


def holders(courses: Iterable[Course]) -> dict[Device, tuple[JobId, ...]]:
    """The jobs on each device, by turn."""
    found: dict[Device, list[tuple[int, JobId]]] = {}
    for course in courses:
        for seat in () if course.gang is None else course.gang.seats.values():
            if seat.holds is not None and not seat.settled:
                for device in seat.holds.devices:
                    found.setdefault(device, []).append((seat.holds.turn, course.job))
    return {device: tuple(job for _, job in sorted(jobs)) for device, jobs in found.items()}


def waiting_for_fences(
    courses: Iterable[Course], closing_in_s: Mapping[str, float]
) -> dict[JobId, str]:
    """Jobs that may still run on nodes that were lost: until when, in a sentence for people.

    closing_in_s: when each fence closes. There is none for a node that is expected to answer.
    """
    found = {}
    for course in courses:
        seats = {} if course.gang is None else course.gang.seats
        strays = [node for node, seat in seats.items() if seat.stray and not seat.settled]
        if strays:
            what = f"on {' and '.join(strays)}, which this daemon does not know"
            found[course.job] = f"it waits until an attempt of it has ended {what}"
            continue
        lost = [node for node, seat in seats.items() if seat.lost and not seat.settled]
        if not lost:
            continue
        if all(node in closing_in_s for node in lost):
            left_s = max(closing_in_s[node] for node in lost)
            what = "that node answers, or treadle nodes forget says that it is off"
            if left_s < inf:
                what = f"nothing of it can run there, in {span(left_s)} at the latest"
        else:
            what = "that node answers, or is lost to the cluster too"
        found[course.job] = f"it waits until {what}"
    return found


def with_health(
    views: Iterable[NodeView], clients: Mapping[str, NodeClient]
) -> tuple[NodeView, ...]:
    """How each agent does."""

    def one(view: NodeView) -> NodeView:
        client = clients.get(view.name)
        found = Health("joining") if client is None else client.health()
        return replace(view, health=found.word, since_at=found.since_at, because=found.because)

    return tuple(map(one, views))


def unused_nodes(unused: Mapping[str, str], members: Container[str]) -> tuple[NodeView, ...]:
    """Nodes of the cluster that are not used: of what they have, nothing is known."""
    return tuple(
        NodeView(
            name=name,
            device_type="",
            cores=0,
            memory_gib=0.0,
            devices=(),
            health=UNUSED,
            because=why,
            warning=f"node {name} {NOT_USED}{why}",
        )
        for name, why in sorted(unused.items())
        if why and name not in members
    )


class NodeViews:
    """Views of nodes, each made again only if something there has changed."""

    def __init__(self) -> None:
        self.seen: dict[str, NodeView] = {}  # what agents said last, of those that did
        self._kept: dict[str, tuple[_Basis, NodeView]] = {}

    def forget(self, name: str) -> None:
        self.seen.pop(name, None)
        self._kept.pop(name, None)

    def view(
        self,
        node: Node,
        jobs: Mapping[Device, tuple[JobId, ...]],
        closed: Mapping[Device, DeviceClosed],
        waiting: Mapping[JobId, str],
    ) -> NodeView:
        """jobs: on each device, by turn. closed: devices that take no new work. waiting: jobs that
        neither begin nor end yet, and why."""
        devices = [Device(node.name, number) for number in range(node.device_count)]
        held = [jobs.get(device, ()) for device in devices]
        shut = [closed.get(device) for device in devices] if closed else []
        basis = node, self.seen.get(node.name), held, shut, dict(waiting)
        kept = self._kept.get(node.name)
        if kept is None or kept[0] != basis:
            kept = self._kept[node.name] = basis, _node_view(*basis)
        return kept[1]


def _node_view(
    node: Node,
    seen: NodeView | None,
    held: Sequence[tuple[JobId, ...]],
    shut: Sequence[DeviceClosed | None],
    waiting: Mapping[JobId, str],
) -> NodeView:
    def shown(device: Device) -> DeviceView:
        jobs = held[device.number]
        closed = shut[device.number] if shut else None
        if seen is None or device.number >= len(seen.devices):
            return DeviceView.of(device, jobs, closed, model=node.device_type)
        view = seen.devices[device.number]
        state = "held" if jobs else view.state
        if closed is not None and closed.cause in AWAY:  # Its agent did not say so.
            state = "held" if jobs else closed.cause
            return replace(view, jobs=jobs, state=state, because=closed.reason)
        return replace(view, jobs=jobs, state=state)

    return replace(
        NodeView.of(node, shown),
        containment="" if seen is None else seen.containment,
        enforced=() if seen is None else seen.enforced,
        stuck={**({} if seen is None else seen.stuck), **waiting},
        drained=seen is not None and seen.drained,
        warning="" if seen is None else seen.warning,
    )


class Sightings(NamedTuple):
    """The measurements of one node, and when they came."""

    measurements: tuple[Measurement, ...]
    behind_s: float  # from the agent's clock to the run's


def measured(
    sightings: Iterable[Sightings], running: Mapping[AttemptId, object]
) -> list[Measurement]:
    """One measurement for each attempt that runs."""
    parts: dict[AttemptId, list[Measurement]] = {}
    for seen in sightings:
        for each in seen.measurements:
            if each.attempt in running:
                own = each._replace(at=max(0.0, each.at + seen.behind_s))
                parts.setdefault(each.attempt, []).append(own)
    return [_together(found) for found in parts.values()]


def _together(parts: list[Measurement]) -> Measurement:
    """One attempt on several nodes: shares of time are averaged, amounts added up."""
    if len(parts) == 1:
        return parts[0]
    loads = [part.load for part in parts]
    load = Load(
        **{name: _mean(getattr(each, name) for each in loads) for name in _AVERAGED},
        **{name: _sum(getattr(each, name) for each in loads) for name in _SUMMED},
        device_memory_gib=_most(each.device_memory_gib for each in loads),
    )
    return Measurement(
        parts[0].attempt,
        busy=_mean(part.busy for part in parts),
        load=load,
        at=min(part.at for part in parts),
        energy_j=_sum(part.energy_j for part in parts),
        alone=all(part.alone for part in parts),
        mps=any(part.mps for part in parts),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    """All of them, or none: what one node cannot measure is not known of the attempt."""
    found = list(values)
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else []


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max(_known(values), default=None)
