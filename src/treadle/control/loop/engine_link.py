"""The controller's side of the engine port: facts in, launches out."""

from treadle.control.jobs import Launcher
from treadle.control.loop.inbox import Inbox
from treadle.core.allocation import Allocation
from treadle.core.events import Event
from treadle.core.job import JobId
from treadle.core.launch import Launch


class EngineLink:
    """What an engine gets to know of its controller (core.ports.Controls)."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.launcher: Launcher | None = None  # set before the first order is given

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:
        assert self.launcher is not None, "orders come after the launcher"
        return self.launcher.launch(job, action, allocation)

    def tell(self, *facts: Event) -> None:
        self._inbox.tell(*facts)
