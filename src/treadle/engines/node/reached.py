"""What the members of an attempt have reached, as the engine reads it, and its successor.

It is a file in the attempt's folder, and the same words over the supervisor's pipe. Each node of
the attempt has its own, by the word of the one that coordinates the members: that one's part speaks
for all.

Part of the supervisor: it imports the standard library and the core's protocol alone.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from treadle.core.member_messages import Member
from treadle.engines.node.members_files import REACHED
from treadle.engines.node.plain_files import put
from treadle.engines.node.team_leader import TeamLeader


class Reached:
    """Of one coordinator. A place is "3", a device of its own ranks, or "n1/3"."""

    def __init__(
        self,
        order: Mapping[str, Any],
        places: Iterable[str],
        leader: TeamLeader | None,
        tell: Callable[[Mapping[str, Any]], None],
        follows: Mapping[str, Any] | None,
    ) -> None:
        """follows: what another coordinator had reached, which is lost."""
        self._folder, self._leader, self._tell = order["folder"], leader, tell
        self._has_ranks = follows is None
        self.group = set(places)  # where the members are that train
        self.holds = set(self.group)  # and others that are alive, or wanted
        self.killed_there: list[tuple[Member, int]] = []  # replaced on other nodes; exit codes
        self.words: dict[str, Any] = {
            "action": order["action"],
            "plan": order["plan"],
            "can": [],
            "stall_s": None,
            "refused": None,
            "killed": [],  # ranks that were killed and are replaced, each with its exit code
            "over": False,  # the training has ended: its members end by themselves
            "why": "",
            **({} if follows is None else {**follows, "refused": None}),
        }

    def write(self) -> None:
        """Tell all nodes."""
        spread = len({node_of(place) for place in self.group}) > 1
        words = self.words | ({"plan": ""} if spread else {})
        if self._has_ranks:
            own = {**words, "devices": _here(self.group), "holds": _here(self.holds)}
            with suppress(OSError):
                put(f"{self._folder}/{REACHED}", json.dumps(own).encode())
            self._tell({"members": own})
        if (leader := self._leader) is None:
            return
        for node in leader.nodes:
            own = {"devices": _here(self.group, node), "holds": _here(self.holds, node)}
            own["killed"] = self.killed_there  # Each node knows its own.
            if node != leader.node:
                own |= {"plan": "", "can": [], "over": False}
            leader.say(node, {"reached": {**words, **own}})


def node_of(place: str) -> str:
    """Empty: this one."""
    return place.rpartition("/")[0]


def _here(places: Iterable[str], node: str = "") -> list[int]:
    """The numbers of the devices of one node; empty: of the coordinator's own ranks."""
    return sorted(int(each.rpartition("/")[2]) for each in places if node_of(each) == node)
