"""The grant of a node on its disk, as its agent keeps it and its supervisors read it (grants.py).

It is renewed in place, and the file of the next one is there beforehand: a disk that is full ends
no job.
"""

import logging
import re
from contextlib import suppress
from pathlib import Path

from treadle.engines.agent import grants
from treadle.engines.agent.grants import Grant
from treadle.engines.node import fence, kept_value
from treadle.files import why_refused

_NAME = re.compile(r"([0-9]{1,9})\.lease", re.ASCII)

logger = logging.getLogger("treadle")


class NodeGrant:
    """The newest grant under the root of an agent."""

    def __init__(self, root: Path, failover_s: float, member: str = "") -> None:
        """member: which joining of the node it is for; the same as long as it did not leave."""
        self._folder = root / "leases"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._every_s, self._member, self._spare = failover_s, member, self._folder / "spare"
        names = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        number = max((int(name[1]) for name in names if name), default=0)
        path = self._path(number)
        self._grant = Grant(number, fence.read(path), fence.whose(path) or "")
        self._asked_at = fence.now()  # when it was renewed last; before that, when this began
        self._keep_spare()

    @property
    def path(self) -> Path:
        return self._path(self._grant.number)

    @property
    def is_over(self) -> bool:
        """By the file: what could not be written is not granted."""
        return fence.now() >= fence.read(self.path)

    @property
    def failover_s(self) -> float:
        """How long its jobs may go on from now without a renewal, at most."""
        return max(self._every_s, self._grant.until - fence.now())

    def unconfirmed_s(self) -> float | None:
        """How long ago it was renewed, if that is so long that nothing should be begun."""
        since_s = fence.now() - self._asked_at
        doubted = since_s > grants.doubted_after_s(self._every_s) or self.is_over
        return since_s if doubted else None

    def renew(self, asked_at: float | None = None) -> bool:
        """Go on for another while; False if the one before has run out and another began.

        asked_at: when the cluster was asked, by fence.now(); by default now. Raises OSError.
        """
        now = fence.now()
        moment = now if asked_at is None else asked_at
        found = self._read().renewed(now, moment, self._every_s, self._member)
        lasted = found.number == self._grant.number
        following = self._path(found.number)
        if not lasted and not following.exists():
            with suppress(FileNotFoundError):
                self._spare.rename(following)
        self._write(found)
        self._asked_at = moment
        if not lasted:
            self._forget()
            self._keep_spare()
        return lasted

    def keep(self) -> None:
        """A controller is in charge of what runs under it. Raises OSError."""
        if self._grant.member != self._member:
            self._write(self._read().kept(fence.now(), self._member))

    @staticmethod
    def revoke(root: Path) -> None:
        """What runs under any grant there is killed when supervisors look. Raises OSError."""
        for path in (root / "leases").glob("*.lease"):
            fence.write(path, 0.0, fence.whose(path) or "")

    def _read(self) -> Grant:
        return self._grant._replace(until=fence.read(self.path))

    def _write(self, grant: Grant) -> None:
        fence.write(self._path(grant.number), grant.until, grant.member)
        self._grant = grant

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.lease"

    def _keep_spare(self) -> None:
        """Have a file for the next grant, if there is room."""
        with suppress(OSError):
            kept_value.make(self._spare)

    def _forget(self) -> None:
        """Remove the grants that have run out."""
        for path in self._folder.glob("*.lease"):
            if path != self.path and fence.now() >= fence.read(path):
                with suppress(OSError):
                    path.unlink()


class GrantDoubts:
    """Why the grant is not renewed, or why the one before was not: what people are told."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._unconfirmed = ""  # why the cluster did not confirm it, when it was asked last
        self.trouble = ""  # why the grant is not renewed, or why the one before was not

    @property
    def why(self) -> str:
        """Why the cluster does not confirm the node."""
        return self._unconfirmed or f"the cluster does not confirm node {self._node}"

    def doubt(self, why: str) -> None:
        """The cluster did not confirm this node when it was asked: a sentence why."""
        self._unconfirmed = why

    def not_written(self, error: OSError) -> None:
        """The grant cannot be written."""
        trouble = f"node {self._node} cannot renew its grant: {why_refused(error)}"
        if trouble != self.trouble:
            logger.error("%s (%s)", trouble, error)
        self.trouble = trouble
        self.doubt(trouble)

    def confirmed(self, *, lasts: bool) -> None:
        """The grant was renewed; lasts: what runs under it goes on, so that no trouble is left."""
        self._unconfirmed = ""
        if lasts:
            self.trouble = ""
