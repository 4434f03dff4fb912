"""How much of a node's disk copies leave free: it is for what jobs write there."""

import errno
import os
from pathlib import Path

from treadle.core.errors import EngineError
from treadle.core.wording import gib_text, share

SHARE_KEPT, BYTES_KEPT_MAX = 0.05, 1 << 30  # of the disk; the smaller of both stays free
_FULL = (errno.ENOSPC, errno.EDQUOT)


class NoRoomError(EngineError):
    """Copies would fill the disk of a node."""

    def __init__(self, node: str) -> None:
        kept = f"{share(SHARE_KEPT)} of it, or {gib_text(BYTES_KEPT_MAX / 2**30)}"
        super().__init__(
            f"the disk of node {node} has no room for a copy, which leaves {kept}, free",
            retryable=False,
        )


def check_room(node: str, folder: Path, wanted: int) -> None:
    """Raises NoRoomError if so many bytes more leave too little. folder: there is such a one."""
    disk = os.statvfs(folder)
    kept = min(BYTES_KEPT_MAX, int(SHARE_KEPT * disk.f_blocks * disk.f_frsize))
    # Some file systems do not say how large they are.
    if disk.f_blocks and disk.f_bavail * disk.f_frsize - wanted < kept:
        raise NoRoomError(node)


def is_full(error: OSError) -> bool:
    return error.errno in _FULL
