"""Which GPUs of a node Ray was told to offer: `ray start --num-gpus`, CUDA_VISIBLE_DEVICES.

Ray gives out the first GPUs of those that it sees, as many as it was given. An agent is a worker,
and Ray hides GPUs from workers that asked for none. So the raylet's own environment is read.
"""

import os
from collections.abc import Sequence
from pathlib import Path

VARIABLE = b"CUDA_VISIBLE_DEVICES="


def not_offered(uuids: Sequence[str], count: int, visible: str | None) -> set[int]:
    """Numbers of the GPUs that Ray does not give out.

    visible: what the raylet sees, as numbers or UUIDs; None: all.
    """
    everything = range(len(uuids))
    seen: list[int] = list(everything)
    if visible is not None:
        words = [word.strip() for word in visible.split(",") if word.strip()]
        seen = [number for word in words if (number := _number(word, uuids)) is not None]
    return set(everything) - set(seen[:count])


def withheld(uuids: Sequence[str], count: int) -> set[int]:
    """The same for the raylet that started this process."""
    return not_offered(uuids, count, visible_to_ray())


def visible_to_ray() -> str | None:
    """CUDA_VISIBLE_DEVICES of the raylet, which is the parent of this process; None: not set."""
    try:
        content = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except OSError:
        return None
    for entry in content.split(b"\0"):
        if entry.startswith(VARIABLE):
            return entry.removeprefix(VARIABLE).decode(errors="replace")
    return None


def _number(word: str, uuids: Sequence[str]) -> int | None:
    if word.isascii() and word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    return next((at for at, uuid in enumerate(uuids) if uuid.startswith(word)), None)
