"""Why the lease of a node is not confirmed, or why the one before was not: what people are told."""

import logging

from treadle.files import why_refused

logger = logging.getLogger("treadle")


class LeaseDoubts:
    """The reasons of one agent."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._unconfirmed = ""  # why the cluster did not confirm it, when it was asked last
        self.trouble = ""  # why the lease is not renewed, or why the one before was not

    @property
    def why(self) -> str:
        """Why the cluster does not confirm the node."""
        return self._unconfirmed or f"the cluster does not confirm node {self._node}"

    def doubt(self, why: str) -> None:
        """The cluster did not confirm this node when it was asked: a sentence why."""
        self._unconfirmed = why

    def not_written(self, error: OSError) -> None:
        """The lease cannot be written."""
        trouble = f"node {self._node} cannot renew its lease: {why_refused(error)}"
        if trouble != self.trouble:
            logger.error("%s (%s)", trouble, error)
        self.trouble = trouble
        self.doubt(trouble)

    def confirmed(self, *, lasts: bool) -> None:
        """The lease was renewed; lasts: what runs under it goes on, so that no trouble is left."""
        self._unconfirmed = ""
        if lasts:
            self.trouble = ""
