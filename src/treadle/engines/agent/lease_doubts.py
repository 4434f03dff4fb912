"""Why the lease of a node is not confirmed, or why the one before was not: what people are told."""

import logging
from contextlib import suppress
from pathlib import Path

from treadle.engines.node import kept_value
from treadle.files import why_refused

DEPARTED = "Treadle was made to leave the cluster"

logger = logging.getLogger("treadle")


class LeaseDoubts:
    """The reasons of one agent; that it was ended on purpose outlives it."""

    def __init__(self, root: Path, node: str) -> None:
        self._node, self._departure = node, root / "departure"
        self._unconfirmed = ""  # why the cluster did not confirm it, when it was asked last
        self.trouble = ""  # why the lease is not renewed, or why the one before was not
        with suppress(OSError):
            self.trouble = kept_value.read(self._departure) or ""

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
        if lasts and self.trouble:
            self.trouble = ""
            with suppress(OSError):
                self._departure.unlink(missing_ok=True)

    def depart(self) -> None:
        """This agent is ended on purpose: the next one says so of what was lost with it."""
        kept_value.write(self._departure, DEPARTED)
