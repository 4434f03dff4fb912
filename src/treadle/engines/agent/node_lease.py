"""The lease of a node, as its agent keeps it (engines/node/fence.py says what it is for).

A lease that has run out is never renewed: the next one is another file. So ranks that outlived it,
because their machine slept perhaps, end when they wake, though the node is a member again. The same
holds for a node that joined its cluster anew: the cluster said that it left, or will, and what ran
there is believed to be gone when the old lease has run out.

A lease is renewed in place, and the file of the next one is there beforehand: a disk that is full
ends no job.
"""

import logging
import re
from contextlib import suppress
from pathlib import Path

from treadle.engines.node import fence, kept_value
from treadle.files import why_refused

LEASE_S = 15.0  # after the last confirmation the ranks of a node are killed
DOUBTED_SHARE = 1 / 3  # of a lease: with less than that left, nothing is begun under it

_NAME = re.compile(r"([0-9]{1,9})\.lease", re.ASCII)

logger = logging.getLogger("treadle")


class NodeLease:
    """The newest lease under the root of an agent."""

    def __init__(self, root: Path, lease_s: float, member: str = "") -> None:
        """member: which joining of the node it is for; the same as long as it did not leave."""
        self._folder = root / "leases"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lease_s = lease_s
        names = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        self._number = max((int(name[1]) for name in names if name), default=0)
        self._member, self._spare = member, self._folder / "spare"
        if self._number and fence.whose(self.path) != member:
            self._number += 1
        self._until = fence.now()  # as it was written last; what follows may not be written
        self._keep_spare()

    @property
    def path(self) -> Path:
        return self._path(self._number)

    @property
    def is_over(self) -> bool:
        return fence.now() >= fence.read(self.path)

    def unconfirmed_s(self) -> float | None:
        """How long ago it was confirmed, if that is so long that nothing should be begun."""
        left_s = fence.read(self.path, otherwise=self._until) - fence.now()
        return None if left_s >= DOUBTED_SHARE * self._lease_s else self._lease_s - left_s

    def renew(self, asked_at: float | None = None) -> bool:
        """Go on for lease_s from then; False if the one before has run out and another began.

        asked_at: when the cluster was asked, by fence.now(); by default now. Raises OSError.
        """
        moment = fence.now() if asked_at is None else asked_at
        until = moment + self._lease_s
        lasted = not self.is_over
        if lasted:
            fence.write(self.path, until, self._member)
            self._until = until
            return True
        following = self._path(self._number + 1)
        if not following.exists():
            with suppress(FileNotFoundError):
                self._spare.rename(following)
        fence.write(following, until, self._member)
        self._number += 1
        self._until = until
        self._forget()
        self._keep_spare()
        return False

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.lease"

    def _keep_spare(self) -> None:
        """Have a file for the next lease, if there is room."""
        with suppress(OSError):
            kept_value.make(self._spare)

    def _forget(self) -> None:
        """Remove the leases that have run out."""
        for path in self._folder.glob("*.lease"):
            if path != self.path and fence.now() >= fence.read(path):
                with suppress(OSError):
                    path.unlink()


class LeaseDoubts:
    """Why the lease is not confirmed, or why the one before was not: what people are told."""

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
