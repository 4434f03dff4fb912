"""Which machines have the names of nodes, written down for the next controller.

A name may go to another machine while a node is cut off. What that machine says of an attempt
proves something only if the attempt was there (lost_parts.py), and a controller that takes over
knows the nodes of attempts by name alone. So the names are written down with their machines, before
a machine is used. A controller that finds nothing, because it has another folder or another one was
in charge in between, knows of no machine, and waits until the leases have run out.
"""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from treadle.files import replace

logger = logging.getLogger("treadle")


class Kept(msgspec.Struct, frozen=True):
    """The file."""

    epoch: int  # of the controller that wrote it
    machines: dict[str, tuple[str, ...]]  # by node: on which parts of attempts may be


class Machines:
    """Of one controller."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch = 0
        self._of: dict[str, tuple[str, ...]] = {}

    def take_over(self, epoch: int) -> None:
        """Go on with what the controller before knew."""
        with suppress(OSError, msgspec.MsgspecError):
            kept = msgspec.json.decode(self._path.read_bytes(), type=Kept)
            if kept.epoch == epoch - 1:
                self._of = kept.machines
        self._epoch = epoch
        self._write()

    def go_on(self, epoch: int) -> None:
        """The same controller has another epoch: what it knows is as true as before."""
        self._epoch = epoch
        self._write()

    def known(self) -> dict[str, str]:
        """The machine of each node, if only one has had its name."""
        return {node: machines[0] for node, machines in self._of.items() if len(machines) == 1}

    def settle(self, members: Mapping[str, str], lost: Collection[str]) -> None:
        """members: the machines of all nodes. lost: nodes that have parts which were lost."""
        if not any(members.values()) and not self._of:
            return  # They cannot be others.
        kept = {node: machines for node, machines in self._of.items() if node in lost}
        for node, machine in members.items():
            kept[node] = _with(kept.get(node, () if node not in lost else ("",)), machine)
        self._of = kept
        self._write()

    def joined(self, node: str, machine: str, *, beside: bool) -> None:
        """beside: parts that were lost may be on machines that had the name before."""
        now = _with(self._of.get(node, ("",)) if beside else (), machine)
        if now != self._of.get(node):
            self._of[node] = now
            self._write()

    def _write(self) -> None:
        document = msgspec.json.encode(Kept(self._epoch, self._of))
        try:
            replace(self._path, document, mode=0o600)
        except OSError:
            logger.exception("which machines the nodes are cannot be written down")
            with suppress(OSError):  # What is not true any more is worse than nothing.
                self._path.unlink()


def _with(machines: tuple[str, ...], machine: str) -> tuple[str, ...]:
    return (*(each for each in machines if each != machine), machine)
