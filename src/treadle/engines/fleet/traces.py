"""On which nodes jobs have left something, as far as this controller knows."""

from collections.abc import Iterable

from treadle.core.job import JobId
from treadle.core.launch import AttemptId

JOBS_MAX = 20_000  # the newest; of others all nodes are asked


class Traces:
    """The nodes of jobs whose first attempt was launched by this controller."""

    def __init__(self, limit: int = JOBS_MAX) -> None:
        self._limit = limit
        self._nodes: dict[JobId, dict[str, None]] = {}

    def add(self, attempt: AttemptId, nodes: Iterable[str]) -> None:
        """An attempt is launched there. Those of an earlier controller may have been elsewhere."""
        if attempt.number == 1:
            self._nodes.pop(attempt.job, None)
            self._nodes[attempt.job] = {}
            if len(self._nodes) > self._limit:
                del self._nodes[next(iter(self._nodes))]
        if attempt.job in self._nodes:
            self._nodes[attempt.job] |= dict.fromkeys(nodes)

    def among(self, nodes: Iterable[str], job: JobId) -> list[str]:
        """Those of these nodes on which the job may have left something."""
        known = self._nodes.get(job)
        return [name for name in nodes if known is None or name in known]
