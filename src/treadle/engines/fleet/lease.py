"""The lease of a node, as its agent keeps it (engines/node/fence.py says what it is for).

A lease that has run out is never renewed: the next one is another file. So ranks that outlived it,
because their machine slept perhaps, end when they wake, though the node is a member again. The same
holds for a node that joined its cluster anew: the cluster said that it left, or will, and what ran
there is believed to be gone when the old lease has run out.
"""

import re
from contextlib import suppress
from pathlib import Path

from treadle.engines.node import fence
from treadle.files import replace

DOUBTED_SHARE = 1 / 3  # of a lease: with less than that left, nothing is begun under it

_NAME = re.compile(r"([0-9]{1,9})\.lease", re.ASCII)


class NodeLease:
    """The newest lease under the root of an agent."""

    def __init__(self, root: Path, lease_s: float, member: str = "") -> None:
        """member: which joining of the node it is for; the same as long as it did not leave."""
        self._folder = root / "leases"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lease_s = lease_s
        names = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        self._number = max((int(name[1]) for name in names if name), default=0)
        self._member, self._whose = member, self._folder / "member"
        self._number += self._known() not in (None, member)
        self._until = fence.now()  # as it was written last; what follows may not be written

    @property
    def path(self) -> Path:
        return self._folder / f"{self._number}.lease"

    @property
    def is_over(self) -> bool:
        return fence.now() >= fence.read(self.path)

    def unconfirmed_s(self) -> float | None:
        """How long ago it was confirmed, if that is so long that nothing should be begun."""
        left_s = fence.read(self.path, otherwise=self._until) - fence.now()
        return None if left_s >= DOUBTED_SHARE * self._lease_s else self._lease_s - left_s

    def renew(self, asked_at: float | None = None) -> bool:
        """Go on for lease_s from then; False if the one before has run out and another began.

        asked_at: when the cluster was asked, by fence.now(); by default now.
        """
        moment = fence.now() if asked_at is None else asked_at
        lasted = not self.is_over
        self._number += not lasted
        fence.write(self.path, moment + self._lease_s)
        self._until = moment + self._lease_s
        if self._known() != self._member:  # From now on there is a lease of this member.
            replace(self._whose, self._member.encode(), mode=0o600)
        if not lasted:
            self._forget()
        return lasted

    def _known(self) -> str | None:
        """Which joining the newest lease is for; None if there is none."""
        with suppress(FileNotFoundError):
            return self._whose.read_text()
        return None

    def _forget(self) -> None:
        """Remove the leases that have run out."""
        for path in self._folder.glob("*.lease"):
            if path != self.path and fence.now() >= fence.read(path):
                with suppress(OSError):
                    path.unlink()
