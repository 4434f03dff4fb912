"""What the web page hears of: everything that changed since the frame before."""

from dataclasses import dataclass

from treadle.core.machine import NodeView
from treadle.wire.decisions import Decision
from treadle.wire.jobs import JobView
from treadle.wire.machine import EventView, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One frame of the stream, the same for all its readers."""

    id: int
    at: float  # seconds since 1970
    status: Status
    jobs: tuple[JobView, ...]  # that changed, those that have just ended too
    gone: tuple[str, ...]  # ids that are no longer active
    nodes: tuple[NodeView, ...]  # that changed
    lost: tuple[str, ...]  # names of nodes that are no longer there
    events: tuple[EventView, ...]
    decisions: tuple[Decision, ...]
