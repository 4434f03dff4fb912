"""Whether another Treadle has this machine already, as a node of its cluster."""

import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from treadle.cli.live.session import note

AGENT = b"ray::AgentActor"  # how Ray names the process of Treadle's agent on each node
PROCESSES = Path("/proc")


def note_other_treadle(words: Sequence[str]) -> None:
    """Say so if a daemon starts with these options on slots that another one gives out too."""
    if "--engine" in words and words[words.index("--engine") + 1] != "local":
        return
    if owner := agent_owner():
        note(
            f"this machine is a node of a cluster of Treadle already (its agent runs as {owner}): "
            "the daemon that was started here gives out the same devices and knows nothing of that "
            "one; to use that one: treadle down, then treadle login, or TREADLE_SOCKET"
        )


def agent_owner() -> str:
    """Another user whose agent runs on this machine; empty if none can be seen.

    One's own daemon is found by its socket.
    """
    for each in PROCESSES.glob("[0-9]*"):
        try:
            if not (each / "cmdline").read_bytes().startswith(AGENT):
                continue
            user_id = each.stat().st_uid
        except OSError:
            continue  # It has ended.
        if user_id == os.geteuid():
            continue
        try:
            return pwd.getpwuid(user_id).pw_name
        except KeyError:
            return str(user_id)
    return ""
